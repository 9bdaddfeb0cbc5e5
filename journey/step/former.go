package step

import (
	"sluice/journey"
	"sluice/lib/jsonscan"
	"sluice/user"
	"sluice/user/rule"
)

// formerAsked bounds of how many users who were merged into a person the mail is looked
// at: each is a row of an index to read.
const formerAsked = 64

// Former are users who were merged into a person, by the profile. Who is told of what
// came before the merge has the profile of the survivor, and is one of them.
func (p *Person) Former() (ids []user.ID) {
	p.eachFormer(func(id user.ID) bool {
		if id != p.ID {
			ids = append(ids, id)
		}
		return len(ids) < formerAsked
	})
	return ids
}

// MarkOf is what records have of a former user (journey.Record.Former).
func MarkOf(id user.ID) uint8 { return journey.FormerMark(uint64(rule.Bucket(id, "former"))) }

// NamedAs is the user whose name the messages of a person bear, by the mark of the record. A
// person whose profile does not have the former user bears its own.
func (p *Person) NamedAs(mark uint8) user.ID {
	named := p.ID
	if mark != 0 {
		p.eachFormer(func(id user.ID) bool {
			if MarkOf(id) == mark {
				named = id
			}
			return MarkOf(id) != mark
		})
	}
	return named
}

// eachFormer calls f for the former users in the order of the profile, until it returns false.
func (p *Person) eachFormer(f func(id user.ID) bool) {
	for m := jsonscan.Read(p.Profile); m.Next(); {
		if m.Key != "former" || m.Value.Kind != jsonscan.Array {
			continue
		}
		for e := jsonscan.ReadArray(m.Value.Raw); e.Next(); {
			if e.Value.Kind != jsonscan.String {
				continue
			}
			if id, ok := user.ParseID(e.Value.Text()); ok && !f(id) {
				return
			}
		}
	}
}
