package braze

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"sluice/lib/jsonscan"
	"sluice/lib/nearest"
	"sluice/user"
	"sluice/user/profile"
	"sluice/user/rule"
	"sluice/user/users"
)

// export is POST /users/export/ids.
func export(ctx context.Context, r *Request) (Reply, error) {
	var external, aliases, device, id, email, phone, wanted jsonscan.Value
	if !(form{"external_ids": &external, "user_aliases": &aliases, "device_id": &device, "braze_id": &id,
		"email_address": &email, "phone": &phone, "fields_to_export": &wanted}).read(r.Body) {
		return refuse(BadRequest)
	}
	byID, byAlias := list(external), list(aliases)
	if len(byID)+len(byAlias) > maxEntries {
		return refuse(tooManyUsers)
	}
	var x exporting
	x.ask("external_ids", byID, externalKey, true)
	x.ask("user_aliases", byAlias, aliasKey, true)
	for _, single := range []struct {
		field string
		value jsonscan.Value
		read  func(jsonscan.Value) (user.Key, error)
		named bool
	}{{"braze_id", id, brazeKey, true}, {"email_address", email, emailKey, false}, {"phone", phone, phoneKey, false}} {
		if single.value.Kind != jsonscan.None {
			x.ask(single.field, []jsonscan.Value{single.value}, single.read, single.named)
		}
	}
	if len(x.keys)+len(x.invalid) == 0 && device.Kind == jsonscan.None {
		if len(x.wrong) > 0 {
			return refuse(x.wrong[0], x.wrong...)
		}
		return refuse("One of 'external_ids', 'user_aliases', 'device_id', 'braze_id', 'email_address', or 'phone' is required")
	}
	var found people
	if len(x.keys) > 0 {
		var err error
		if found, err = r.find(ctx, x.keys); err != nil {
			return Reply{}, err
		}
	}
	fields := fieldsOf(wanted)
	x.unknown = unknownFields(fields)
	return Reply{Status: http.StatusCreated, Body: x.body(found.by, fields)}, nil
}

// exporting is whom an export asks for.
type exporting struct {
	keys    []user.Key
	texts   []string // as each was called; empty: not listed if it does not exist
	invalid []string // named by what cannot be a name
	wrong   []string // what is wrong with names that stand nowhere else
	unknown []string // what is wrong with the fields that are wanted
}

// ask reads how users are called. A name that nobody can have is one that
// nobody has.
func (x *exporting) ask(field string, all []jsonscan.Value, read func(jsonscan.Value) (user.Key, error), named bool) {
	for _, v := range all {
		text := v.Text()
		if v.Kind == jsonscan.Object {
			text = aliasIn(v).called.Text()
		}
		switch k, err := read(v); {
		case err == nil:
			x.keys = append(x.keys, k)
			if !named {
				text = ""
			}
			x.texts = append(x.texts, text)
		case named && len(text) <= maxMistakeBytes:
			x.invalid = append(x.invalid, text)
		default:
			x.wrong = append(x.wrong, field+": "+err.Error())
		}
	}
}

// body writes each user once, in the order in which they were asked for.
func (x *exporting) body(found map[user.Key][]users.Person, wanted map[string]bool) []byte {
	b := []byte(`{"users":[`)
	seen := make(map[user.ID]bool)
	invalid := x.invalid
	for i, k := range x.keys {
		if len(found[k]) == 0 && x.texts[i] != "" {
			invalid = append(invalid, x.texts[i])
		}
		for _, p := range found[k] {
			if seen[p.Row.ID] {
				continue
			}
			if len(seen) > 0 {
				b = append(b, ',')
			}
			seen[p.Row.ID] = true
			b = appendUser(b, p, wanted)
		}
	}
	b = append(b, ']')
	if len(invalid) > 0 {
		b = append(append(b, `,"invalid_user_ids":`...), reply(0, invalid).Body...)
	}
	if wrong := slices.Concat(x.wrong, x.unknown); len(wrong) > 0 {
		b = append(append(b, `,"errors":`...), reply(0, wrong).Body...)
	}
	return append(b, `,"message":"success"}`...)
}

// alsoExported are the other fields of exports: ours, then those that Braze's
// documentation has and we know nothing of, which are always left out.
var alsoExported = []string{
	"created_at", "external_id", "user_aliases", "braze_id", "appboy_id", "last_coordinates", "total_revenue", "revenue_by_currency", "random_bucket",
	"custom_attributes", "custom_events", "purchases", "push_tokens", "apps",
	"attributed_ad", "attributed_adgroup", "attributed_campaign", "attributed_source", "campaigns_received", "canvases_received", "cards_clicked", "devices",
	"email_opted_in_at", "email_unsubscribed_at", "push_opted_in_at", "push_unsubscribed_at", "uninstalled_at",
}

// unknownFields names the fields that no export has, in their order by name.
func unknownFields(wanted map[string]bool) (all []string) {
	known := slices.Concat(exported, alsoExported)
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if slices.Contains(known, name) {
			continue
		}
		if len(all) == maxUnknownFields {
			return append(all, fmt.Sprintf("fields_to_export: more than %d are unknown", maxUnknownFields))
		}
		name = strings.ToValidUTF8(name[:min(len(name), maxFieldBytes)], "\ufffd")
		all = append(all, fmt.Sprintf("fields_to_export: '%s' is no field of an export%s", name, nearest.Hint(name, known)))
	}
	return all
}

// An answer names so many unknown fields, each by its beginning.
const (
	maxUnknownFields = 20
	maxFieldBytes    = 64
)

// fieldsOf reads the names of the fields that are wanted; nil: all are.
func fieldsOf(v jsonscan.Value) map[string]bool {
	if v.Kind == jsonscan.None {
		return nil
	}
	wanted := make(map[string]bool)
	if v.Kind != jsonscan.Array {
		wanted[v.Text()] = true // one, without its brackets
		return wanted
	}
	e := jsonscan.ReadArray(v.Raw)
	for e.Next() {
		wanted[e.Value.Text()] = true
	}
	return wanted
}

// unsaid is what replies of Braze have of a standard attribute that a user does not
// have, and of one who never said anything about mail or push. Others are left out.
var unsaid = map[string]string{"home_city": "null", "push_subscribe": saysNothing, "email_subscribe": saysNothing}

const saysNothing = `"` + subscribed + `"`

// exported are the standard attributes that a user is exported with, in the
// order of Braze's documentation.
var exported = []string{"first_name", "last_name", "email", "dob", "home_city", "country", "phone", "language", "time_zone", "gender", "push_subscribe", "email_subscribe"}

// members appends the members of an object, those that are wanted.
type members struct {
	b      []byte
	wanted map[string]bool
	any    bool
}

// add appends a member; empty ones are left out.
func (m *members) add(name, raw string) {
	if raw == "" || m.wanted != nil && !m.wanted[name] {
		return
	}
	if m.any {
		m.b = append(m.b, ',')
	}
	m.any = true
	m.b = append(append(append(m.b, '"'), name...), '"', ':')
	m.b = append(m.b, raw...)
}

func (m *members) text(name, text string) {
	if text != "" {
		m.add(name, quoted(text))
	}
}

// appendUser appends a user as exports have it. Lists that recorded replies of Braze
// have though they are empty are there, as clients read them without a look; the rest
// that is empty is left out.
func appendUser(b []byte, p users.Person, wanted map[string]bool) []byte {
	m := members{b: append(b, '{'), wanted: wanted}
	if p.Profile.CreatedMillis != 0 {
		m.text("created_at", profile.TimeText(p.Profile.CreatedMillis))
	}
	m.text("external_id", p.Profile.ExternalID)
	m.add("user_aliases", orElse(aliasesText(p.Profile.Aliases), "[]"))
	m.text("braze_id", p.Row.ID.String())
	m.text("appboy_id", p.Row.ID.String())
	for _, name := range exported {
		raw := p.Profile.Fields.Get(name)
		if raw == "" || raw == `""` {
			raw = unsaid[name]
		}
		m.add(name, raw)
	}
	if at := p.Profile.Fields.Get("current_location"); at != "" {
		var long, lat jsonscan.Value
		form{"longitude": &long, "latitude": &lat}.read(at)
		m.add("last_coordinates", "["+long.Raw+","+lat.Raw+"]")
	}
	m.revenue(p.Profile.Revenue)
	m.add("random_bucket", strconv.FormatInt(rule.Bucket(p.Row.ID, ""), 10))
	m.add("custom_attributes", orElse(customText(p.Profile.Custom), "{}"))
	m.add("custom_events", orElse(talliesText(p.Profile.Events, "name"), "[]"))
	m.add("purchases", orElse(talliesText(p.Profile.Purchases, "name"), "[]"))
	m.add("push_tokens", tokensText(p.Profile.Fields.Get("push_tokens")))
	m.add("apps", "[]")
	return append(m.b, '}')
}

// revenue appends what the user has spent. Sums of several currencies are no
// sum: they stand beside each other under a name of ours.
func (m *members) revenue(all []profile.Money) {
	switch len(all) {
	case 0:
		m.add("total_revenue", moneyText(0))
	case 1:
		m.add("total_revenue", moneyText(all[0].Micros))
	default:
		o := members{b: []byte{'{'}}
		for _, money := range all {
			o.add(money.Currency, moneyText(money.Micros))
		}
		m.add("revenue_by_currency", string(o.b)+"}")
	}
}

// moneyText writes millionths as a number with a fraction.
func moneyText(micros int64) string {
	const million = 1_000_000
	sign := ""
	if micros < 0 {
		sign, micros = "-", -micros
	}
	s := strconv.FormatInt(micros%million+million, 10)[1:] // six digits
	for len(s) > 1 && s[len(s)-1] == '0' {
		s = s[:len(s)-1]
	}
	return sign + strconv.FormatInt(micros/million, 10) + "." + s
}

func aliasesText(all []profile.Alias) string {
	return objectsText(all, func(m *members, a profile.Alias) {
		m.add("alias_name", quoted(a.Name))
		m.add("alias_label", quoted(a.Label))
	})
}

// objectsText writes an array of objects, nothing if it has none.
func objectsText[T any](all []T, fill func(*members, T)) string {
	if len(all) == 0 {
		return ""
	}
	b := []byte{'['}
	for i, one := range all {
		if i > 0 {
			b = append(b, ',')
		}
		m := members{b: append(b, '{')}
		fill(&m, one)
		b = append(m.b, '}')
	}
	return string(append(b, ']'))
}

func customText(all profile.Values) string {
	if len(all) == 0 {
		return ""
	}
	b := []byte{'{'}
	for i, v := range all {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(b, quoted(v.Name)...), ':')
		b = append(b, v.Raw...)
	}
	return string(append(b, '}'))
}

// talliesText writes what happened how often; called is the member of the name.
func talliesText(all []profile.Tally, called string) string {
	return objectsText(all, func(m *members, t profile.Tally) {
		m.add(called, quoted(t.Name))
		m.add("first", quoted(profile.TimeText(t.FirstMillis)))
		m.add("last", quoted(profile.TimeText(t.LastMillis)))
		m.add("count", strconv.FormatInt(t.Count, 10))
	})
}

// tokensText writes push tokens, whose app has another name in exports.
func tokensText(raw string) string {
	if raw == "" || raw == "[]" {
		return ""
	}
	b := []byte{'['}
	e := jsonscan.ReadArray(raw)
	for e.Next() {
		if len(b) > 1 {
			b = append(b, ',')
		}
		var app, token, device jsonscan.Value
		form{"app_id": &app, "token": &token, "device_id": &device}.read(e.Value.Raw)
		m := members{b: append(b, '{')}
		m.add("app", app.Raw)
		m.add("token", token.Raw)
		m.add("device_id", device.Raw)
		b = append(m.b, '}')
	}
	return string(append(b, ']'))
}

// quoted is a text as a JSON string.
func quoted(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // a text
	}
	return string(b)
}
