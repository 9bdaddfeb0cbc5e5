package desk

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/journey"
	"sluice/journey/plan"
	"sluice/journey/step"
	"sluice/store"
)

// StepCounts is what has happened at a step, over all versions.
type StepCounts struct {
	Step     string `json:"step"`
	Entered  int64  `json:"entered"`
	Waiting  int64  `json:"waiting"` // now
	Passed   int64  `json:"passed"`
	Exited   int64  `json:"exited"`
	LeftOut  int64  `json:"left_out"` // mails, for the quiet hours, or because they are not wanted
	Capped   int64  `json:"capped"`   // mails, for caps
	Withheld int64  `json:"withheld"` // mails, for the control group of all journeys
	Sent     int64  `json:"sent"`     // mails that were accepted by whom they were handed to
	Opened   int64  `json:"opened"`   // of them, by people
	Clicked  int64  `json:"clicked"`  // the same

	// By people and machines.
	OpenedRaw  int64 `json:"opened_raw"`
	ClickedRaw int64 `json:"clicked_raw"`

	Branches map[string]int64 `json:"branches,omitempty"`

	// Paths are the branches of a step with several, in their order.
	Paths []BranchCounts `json:"paths,omitempty"`

	// Converted are conversions of people who were at the step then, or went to the end by it.
	Converted map[string]int64 `json:"converted,omitempty"`

	converted map[string]int64 // PATH/CONVERSION, of a random step with a control
}

// Counts is what has happened in a journey.
type Counts struct {
	Steps       []StepCounts     `json:"steps"` // those of the document, in its order, then others that were counted
	Conversions map[string]int64 `json:"conversions"`
	Limited     int64            `json:"limited"` // wanted to enter when as many had as entry.limit lets in
	Control     int64            `json:"control"` // entered, and get nothing

	// ControlConversions are conversions of those.
	ControlConversions map[string]int64 `json:"control_conversions"`

	// Uplift compares both, by conversion; empty: there is no control group.
	Uplift []Uplift `json:"uplift"`

	// PathUplift compares the paths of random steps with the one that is the control.
	PathUplift []Uplift `json:"path_uplift"`

	// GlobalUplift compares others with those who get no marketing mail of any journey.
	GlobalUplift []Uplift `json:"global_uplift"`

	treated int64 // entered, and are not in the control group
}

// maxCountNames bounds the names that the counts of one journey have.
const maxCountNames = 50_000

// counts reads the series of a journey, added up since it was created.
func (d *Desk) counts(ctx context.Context, j *store.Journey, doc *plan.Document) (*Counts, error) {
	kind, none := sluice.KindSystem, ""
	under := "journey/" + j.ID + "/"
	rows, err := d.Series.Series(ctx, store.SeriesQuery{
		Days: true, FromMillis: j.CreatedMillis - 24*time.Hour.Milliseconds(), ToMillis: sluice.MaxEventTimeMillis,
		App: &none, Kind: &kind, Under: under, Whole: true, ByName: true, Limit: maxCountNames,
	})
	if err != nil {
		return nil, err
	}
	return countsOf(rows, under, doc), nil
}

// countInSteps sets how many are in each step to what the partitions have noted. What has
// happened says the same, until records go back to a checkpoint: then it happens once more.
// If a partition keeps no such notes, as before a process of now has had it, all stays.
func (d *Desk) countInSteps(ctx context.Context, j *store.Journey, c *Counts) error {
	if d.Notes == nil || j.Version == 0 {
		return nil
	}
	notes, err := d.notes(ctx, journey.InStepsKept, journey.InStepsNote(j.Number))
	if err != nil {
		return err
	}
	all := make(journey.InSteps)
	for partition, fields := range notes {
		if !isKnown(fields) {
			return nil
		}
		some, err := journey.ReadInSteps(flow.NoteIn(fields, journey.InStepsNote(j.Number)))
		if err != nil {
			return fmt.Errorf("partition %d: %w", partition, err)
		}
		for step, n := range some {
			all[step] += n
		}
	}
	for i := range c.Steps {
		c.Steps[i].Waiting = 0
	}
	for _, step := range slices.Sorted(maps.Keys(all)) {
		c.at(step).Waiting = all[step]
	}
	return nil
}

// countsOf arranges rows whose names step.CountName has made.
func countsOf(rows []store.SeriesRow, under string, doc *plan.Document) *Counts {
	c := &Counts{Steps: []StepCounts{}, Conversions: make(map[string]int64), ControlConversions: make(map[string]int64), Uplift: []Uplift{}, PathUplift: []Uplift{}, GlobalUplift: []Uplift{}}
	branches := make(map[string][]string)
	steps, groups := make(map[string]bool), make(globalGroups)
	for i := range doc.Steps {
		c.at(doc.Steps[i].ID)
		steps[doc.Steps[i].ID] = true
		branches[doc.Steps[i].ID] = doc.Steps[i].Branches()
	}
	for i := range doc.Conversions {
		c.Conversions[doc.Conversions[i].Name] = 0
	}
	for _, r := range rows {
		parts := strings.Split(strings.TrimPrefix(r.Name, under), "/")
		if len(parts) < 2 {
			continue
		}
		what, isStep := parts[0], steps[parts[0]] && (len(parts) > 2 || isStepCount(parts[1])) // a step may be called converted
		switch {
		case groups.add(parts, r.Count):
		case what == "converted" && !isStep:
			c.Conversions[parts[1]] += r.Count
		case what == "held_converted" && !isStep:
			c.ControlConversions[parts[1]] += r.Count
		case parts[1] == "limited":
			c.Limited += r.Count
		case parts[1] == "held":
			c.Control += r.Count
		case parts[1] == "treated":
			c.treated += r.Count
		default:
			c.at(parts[0]).add(parts[1:], branches[parts[0]], r.Count)
		}
	}
	for i := range c.Steps {
		s := &c.Steps[i]
		s.Waiting = max(0, s.Entered-s.Passed-s.Exited)
	}
	if c.treated == 0 { // of before they were counted by themselves
		for i := range c.Steps {
			c.treated = max(c.treated, c.Steps[i].Entered)
		}
	}
	for i := range doc.Conversions {
		name := doc.Conversions[i].Name
		if u, ok := upliftOf(name, c.Conversions[name], c.treated, c.ControlConversions[name], c.Control); ok {
			c.Uplift = append(c.Uplift, u)
		}
		c.GlobalUplift = append(c.GlobalUplift, groups.uplift(name)...)
	}
	for i := range doc.Steps {
		if r := doc.Steps[i].Random; r != nil {
			c.comparePaths(doc.Steps[i].ID, r, doc.Conversions)
		}
	}
	return c
}

// isStepCount reports whether a word says what is counted of a step, in the name of a count
// without a path. Else it is the name of a conversion.
func isStepCount(word string) bool {
	for what := step.Entered; what <= step.ConvertedAt; what++ {
		if what.String() == word {
			return true
		}
	}
	return slices.Contains([]string{"sent", "opened", "clicked", "opened_raw", "clicked_raw"}, word)
}

// comparePaths compares the paths of a random step with that which is the control, if one
// is.
func (c *Counts) comparePaths(id string, r *plan.Random, conversions []plan.Conversion) {
	control := slices.IndexFunc(r.Paths, func(p plan.RandomPath) bool { return p.Control })
	if control < 0 {
		return
	}
	s, of := c.at(id), r.Paths[control].Name
	for i := range conversions {
		name := conversions[i].Name
		for n := range r.Paths {
			path := r.Paths[n].Name
			u, ok := upliftOf(name, s.converted[path+"/"+name], s.Branches[path], s.converted[of+"/"+name], s.Branches[of])
			if u.Step, u.Path = id, path; ok && n != control {
				c.PathUplift = append(c.PathUplift, u)
			}
		}
	}
}

// at is the row of a step, made if it is not there. It is valid until the next is made.
func (c *Counts) at(id string) *StepCounts {
	i := slices.IndexFunc(c.Steps, func(s StepCounts) bool { return s.Step == id })
	if i < 0 {
		i = len(c.Steps)
		c.Steps = append(c.Steps, StepCounts{Step: id})
	}
	return &c.Steps[i]
}

// add adds a count: what, and behind that perhaps the path. The way that has no path of
// its own is the last of the branches.
func (s *StepCounts) add(what, branches []string, n int64) {
	switch what[0] {
	case "entered":
		s.Entered += n
	case "exited":
		s.Exited += n
	case "left_out":
		s.LeftOut += n
	case "withheld":
		s.Withheld += n
	case "capped":
		s.Capped += n
	case "converted":
		s.addConverted(what[1:], n)
	case "sent":
		s.Sent += n
	case "opened":
		s.Opened += n
	case "clicked":
		s.Clicked += n
	case "opened_raw":
		s.OpenedRaw += n
	case "clicked_raw":
		s.ClickedRaw += n
	case "passed":
		s.Passed += n
		branch := ""
		switch {
		case len(what) > 1:
			branch = what[1]
		case len(branches) > 1:
			branch = branches[len(branches)-1]
		}
		if branch != "" {
			if s.Branches == nil {
				s.Branches = make(map[string]int64)
			}
			s.Branches[branch] += n
		}
	}
}

// addConverted adds conversions by the step where people were, or by a path that they took.
func (s *StepCounts) addConverted(of []string, n int64) {
	to := &s.converted
	if len(of) == 1 {
		to = &s.Converted
	}
	if *to == nil {
		*to = make(map[string]int64)
	}
	(*to)[strings.Join(of, "/")] += n
}
