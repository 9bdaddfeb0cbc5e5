package plan

import (
	"sluice/journey"
	"sluice/user/rule"
)

// Names are what the store has to write facts about, so that the journey can be
// carried out. They are those of all triggers: of the entry, of waits, exceptions,
// exits and conversions. To them comes what rules of exit_when and wait_for look at.
func (p *Plan) Names() journey.Names {
	var n journey.Names
	lists := [][]On{p.Entry.When, p.Exit, p.Exceptions}
	for i := range p.Steps {
		for j := range p.Steps[i].Paths {
			lists = append(lists, p.Steps[i].Paths[j].When)
		}
	}
	for i := range p.Conversions {
		lists = append(lists, p.Conversions[i].When)
	}
	for _, list := range lists {
		for i := range list {
			list[i].addTo(&n)
		}
	}
	return n
}

func (on *On) addTo(n *journey.Names) {
	switch on.Kind {
	case OnEvent:
		n.AddEvent(on.Name)
	case OnPurchase:
		n.AddPurchase(on.Name)
	case OnAttribute:
		n.AddAttribute(on.Name)
	case OnGroup:
		n.AddGroup(on.Name)
	case OnMail:
		n.AddMail(on.Mail, on.Of)
	case OnRule:
		n.Merge(&on.Looks)
	}
}

// looksAt are the names that a rule looks at.
func looksAt(r *rule.Rule) journey.Names {
	var n journey.Names
	if r == nil {
		return n
	}
	reads, needs := r.Reads()
	for _, x := range reads {
		switch x.About {
		case "attribute", "field":
			n.AddAttribute(x.Name)
		case "event":
			n.AddEvent(x.Name)
		case "purchase":
			n.AddPurchase(x.Name)
		case "spent":
			n.AddPurchase(journey.Any)
		case "group":
			n.AddGroup(x.Name)
		case "subscription":
			n.AddAttribute(x.Name + "_subscribe")
		}
	}
	for _, need := range needs {
		if need.Journey == "" {
			n.AddMail(need.Event, need.Of)
		}
	}
	return n
}
