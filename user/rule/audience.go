package rule

import (
	"sluice/lib/jsonscan"
)

// filters are the filters of an audience that are about one thing, and which.
var filters = map[string]condition{
	"email_subscription_status": {subject: ofSubscription, name: "email", rawName: `"email"`},
	"push_subscription_status":  {subject: ofSubscription, name: "push", rawName: `"push"`},
	"last_used_app":             {subject: ofField, name: "date_of_last_session", rawName: `"date_of_last_session"`},
}

const customAttribute = "custom_attribute"

// filter reads an audience: one filter, or AND, OR and a list of them.
func (c *compiler) filter(path string, v jsonscan.Value, level int) (node, error) {
	members, err := object(path, v)
	if err != nil {
		return node{}, err
	}
	if inner, ok := members["AND"]; ok {
		return c.tied(and, "AND", path, members, inner, level, (*compiler).filter)
	}
	if inner, ok := members["OR"]; ok {
		return c.tied(or, "OR", path, members, inner, level, (*compiler).filter)
	}
	if len(members) == 1 {
		for name, inner := range members {
			if x, ok := filters[name]; ok || name == customAttribute {
				return c.oneFilter(under(path, name), name, x, inner)
			}
		}
	}
	return node{}, wrong(path, "want one of AND, OR, custom_attribute, email_subscription_status, push_subscription_status, last_used_app")
}

func (c *compiler) oneFilter(path, filter string, x condition, v jsonscan.Value) (node, error) {
	members, err := object(path, v)
	if err != nil {
		return node{}, err
	}
	if filter == customAttribute {
		x.subject = ofAttribute
		const name = "custom_attribute_name"
		if err := x.setName(under(path, name), members[name]); err != nil {
			return node{}, err
		}
		delete(members, name)
	}
	how, value := members["comparison"], members["value"]
	delete(members, "comparison")
	delete(members, "value")
	for name := range members {
		return node{}, wrong(under(path, name), "want a name that %s has: comparison, value", filter)
	}
	at := places{is: under(path, "comparison"), value: under(path, "value")}
	is, ok := comparisonOf(how, filter)
	if !ok {
		return node{}, wrong(at.is, "want a comparison that %s has, got %.40s", filter, orNothing(how))
	}
	if comparisons[is].wants == wantNothing {
		value = jsonscan.Value{} // clients send one, and it says nothing
	}
	return c.finish(x, is, value, jsonscan.Value{}, at)
}

// comparisonOf returns the rules' word for a word of a filter.
func comparisonOf(how jsonscan.Value, filter string) (is string, ok bool) {
	if how.Kind != jsonscan.String {
		return "", false
	}
	switch is = how.Text(); filter {
	case "email_subscription_status", "push_subscription_status":
		is, ok = map[string]string{"is": "equals", "is_not": "not_equal"}[is]
		return is, ok
	case "last_used_app":
		return is, is == "before" || is == "after"
	}
	if is == "does_not_equal" {
		is = "not_equal"
	}
	return is, is != "is_one_of" && is != "is_none_of"
}
