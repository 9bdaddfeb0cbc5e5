package profile

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"sluice/lib/jsonscan"
)

// Made is a change that is made once, by its name.
type Made struct {
	Name   string
	Second int64 // when it was made
}

const (
	// madeAtMost bounds how many are kept, some 30 bytes each. Of more than so many in
	// madeDays the oldest are forgotten, and may be made again.
	madeAtMost = 32
	madeDays   = 1
)

// Makes notes that a change is made, and reports whether it was not made before. A journey
// that loses its last steps, because Redis has lost them, takes them again. What adds to a
// number would count twice; the profile, which is changed with the note, knows better.
//
// Notes are of the last day, and go when the next one comes: Redis goes back by minutes.
func (p *Profile) Makes(name string, millis int64) bool {
	if slices.ContainsFunc(p.Made, func(m Made) bool { return m.Name == name }) {
		return false
	}
	second := millis / 1000
	p.Made = slices.DeleteFunc(p.Made, func(m Made) bool { return m.Second < second-madeDays*24*60*60 })
	p.Made = append(p.Made, Made{name, second})
	p.trimMade()
	return true
}

// madeBy takes in what another profile has made, which is this person now.
func (p *Profile) madeBy(other *Profile) {
	for _, m := range other.Made {
		if !slices.ContainsFunc(p.Made, func(x Made) bool { return x.Name == m.Name }) {
			p.Made = append(p.Made, m)
		}
	}
	p.trimMade()
}

func (p *Profile) trimMade() {
	slices.SortFunc(p.Made, func(a, b Made) int {
		return cmp.Or(cmp.Compare(a.Second, b.Second), strings.Compare(a.Name, b.Name))
	})
	p.Made = slices.Delete(p.Made, 0, max(len(p.Made)-madeAtMost, 0))
	if len(p.Made) == 0 {
		p.Made = nil
	}
}

func parseMade(array string) (all []Made, err error) {
	e := jsonscan.ReadArray(array)
	for e.Next() {
		pair := elements(e.Value.Raw)
		if len(pair) != 2 {
			return nil, fmt.Errorf("want pairs, got %.40s", e.Value.Raw)
		}
		second, err := strconv.ParseInt(pair[1].Raw, 10, 64)
		if err != nil {
			return nil, err
		}
		all = append(all, Made{pair[0].Text(), second})
	}
	return all, e.Err()
}

func (w *writer) made(all []Made) {
	if len(all) == 0 {
		return
	}
	w.member("made")
	for i, m := range all {
		w.dst = append(w.dst, opening(i, '['), '[')
		w.dst = append(jsonscan.AppendQuoted(w.dst, m.Name), ',')
		w.dst = append(strconv.AppendInt(w.dst, m.Second, 10), ']')
	}
	w.dst = append(w.dst, ']')
}
