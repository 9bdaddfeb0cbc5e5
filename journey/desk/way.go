package desk

import (
	"slices"

	"sluice/journey/plan"
	"sluice/lib/jsonscan"
)

// PathStep is a step that somebody went through.
type PathStep struct {
	Step   string `json:"step"`
	Name   string `json:"name,omitempty"`
	Branch string `json:"branch,omitempty"` // the way out that was taken, of steps with several
}

// pathOf is the way of somebody to a step by the branches taken.
func pathOf(p *plan.Plan, last int, branches []int) (path []PathStep) {
	for _, at := range p.Trace(last, branches) {
		s := &p.Steps[at]
		path = append(path, PathStep{s.ID, s.Name, branchTaken(s, branches)})
	}
	return path
}

// branchTaken names the way out of a step that was taken; empty: none was, or it has one
// way only.
func branchTaken(s *plan.PlanStep, branches []int) string {
	for i := range s.Paths {
		if slices.Contains(branches, s.Paths[i].Branch) {
			return s.Paths[i].Name
		}
	}
	if s.Otherwise >= 0 && slices.Contains(branches, s.Otherwise) {
		return s.OtherwiseName()
	}
	return ""
}

// mailProfile is what a profile says about mail.
type mailProfile struct {
	email, subscription, group string
}

func profileOfMail(text, group string) (m mailProfile) {
	for x := jsonscan.Read(text); x.Next(); {
		switch x.Key {
		case "fields":
			for f := jsonscan.Read(x.Value.Raw); f.Next(); {
				switch f.Key {
				case "email":
					m.email = f.Value.Text()
				case "email_subscribe":
					m.subscription = f.Value.Text()
				}
			}
		case "groups":
			for g := jsonscan.Read(x.Value.Raw); group != "" && g.Next(); {
				if state := jsonscan.ReadArray(g.Value.Raw); g.Key == group && state.Next() {
					m.group = state.Value.Text()
				}
			}
		}
	}
	return m
}

// reasons are why such a person gets no mail, as of now.
func (m *mailProfile) reasons(marketing bool) (all []string) {
	if m.email == "" {
		all = append(all, "the profile has no address now")
	}
	if marketing && m.subscription == "unsubscribed" {
		all = append(all, "the person is unsubscribed from marketing mail now")
	}
	if m.group == "unsubscribed" {
		all = append(all, "the person has left the subscription group of the mail now")
	}
	return all
}
