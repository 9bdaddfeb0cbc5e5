package template

import (
	"slices"
	"strings"
)

// Origin is what a mail comes from, as far as it is known: the names campaign and canvas
// say so. The zero Origin is that of a mail of nobody.
type Origin struct {
	Message string // id

	// Of a mail of a journey, else empty. Variant is the path of the last random step.
	Journey, Step, Variant string
}

// SampleOrigin is that of a preview, which is no message.
var SampleOrigin = Origin{Message: "preview"}

// Names that are variables of Braze's, beside those of the recipient.
const (
	campaignName        = "campaign"
	canvasName          = "canvas"
	stateName           = "subscribed_state"
	entryPropertiesName = "canvas_entry_properties"
	eventPropertiesName = "event_properties"
)

// brazeNames say where these are known. A variable of the same name that is given with
// the mail goes before. Elsewhere they would be empty for everybody, which is noticed
// when the mail has been sent: so that is an error, as for the link to unsubscribe by.
var brazeNames = map[string]string{
	campaignName:        "in mails of stored templates and of journeys",
	canvasName:          "in mails of journeys, a variant behind a random step",
	stateName:           "of users, and of a group if the user has said something about it",
	contextVariable:     "in mails of journeys",
	entryPropertiesName: "in mails of journeys",
	eventPropertiesName: "in mails of journeys",
}

// brazeMembers are what ${} may name of them; nil: anything.
var brazeMembers = map[string][]string{
	campaignName: {"api_id", "dispatch_id", "name"},
	canvasName:   {"api_id", "name", "variant_api_id", "variant_name"},
}

// globalStates are what subscribed_state has beside the ids of groups. Only mail is sent
// here.
const (
	emailState = "email_global"
	pushState  = "push_global"
)

// checkName refuses what could never be anything: campaign.${message_name}.
func (r *reader) checkName(v *variable, member string) {
	known := brazeMembers[v.name]
	switch {
	case known != nil && !slices.Contains(known, member):
		r.fail("%s.${%.64s} is not known here; there are ${%s}", v.name, member, strings.Join(known, "}, ${"))
	case v.name == stateName && member == pushState:
		r.fail("%s.${%s} is not known: only mail is sent; there are ${%s} and the ids of groups", stateName, pushState, emailState)
	}
}

// brazeValue is what one of brazeNames is.
func (r *run) brazeValue(name string) (value, bool) {
	o := &object{}
	add := func(text string, names ...string) {
		for _, name := range names {
			if text != "" {
				o.names, o.values = append(o.names, name), append(o.values, text)
			}
		}
	}
	switch name {
	case entryPropertiesName, eventPropertiesName:
		return r.variables.get(contextVariable)
	case campaignName:
		if r.origin.Journey != "" {
			add(r.origin.Step, "name", "api_id")
		} else {
			add(r.template, "name", "api_id")
		}
		add(r.origin.Message, "dispatch_id")
	case canvasName:
		add(r.origin.Journey, "name", "api_id")
		add(r.origin.Variant, "variant_name", "variant_api_id")
	case stateName:
		if r.profile == nil {
			return nil, false
		}
		add(r.profile.EmailState(), emailState)
		r.spend(len(r.profile.Groups))
		for i := range r.profile.Groups {
			g := &r.profile.Groups[i]
			add(g.State(), g.ID)
		}
	default:
		return nil, false
	}
	return o, len(o.names) > 0
}

// unknown ends the rendering if what was not found is one of brazeNames and is not known
// of this mail.
func (r *run) unknown(o *operand) {
	if o.path == nil || o.path.profile {
		return
	}
	where, ok := brazeNames[o.path.name]
	if !ok || r.isGiven(o.path.name) {
		return
	}
	if _, properties := r.variables.get(contextVariable); properties && brazeMembers[o.path.name] == nil && o.path.name != stateName {
		return // who entered had no such property
	}
	r.fail(KindMissing, "%s: it is known %s; give it as a variable, or a default", o.path.text, where)
}

// isGiven reports whether a name is a variable of a loop, assigned, or given with the mail.
func (r *run) isGiven(name string) bool {
	if slices.ContainsFunc(r.locals, func(l local) bool { return l.name == name }) {
		return true
	}
	if _, ok := r.assigned[name]; ok {
		return true
	}
	_, ok := r.variables.get(name)
	return ok
}
