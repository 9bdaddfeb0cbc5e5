package desk

import (
	"math"
	"testing"

	"sluice/journey/plan"
	"sluice/store"
)

// The intervals are those that Newcombe's article prints for its method 10.
func TestUplift(t *testing.T) {
	for _, x := range []struct {
		converted, entered, control, controlEntered int64
		low, high                                   float64
		shown                                       bool
	}{
		{56, 70, 48, 80, 0.0524, 0.3339, true},
		{9, 10, 3, 10, 0.1705, 0.8090, true},
		{5, 56, 0, 29, -0.0381, 0.1926, false},
		{0, 10, 0, 20, -0.1611, 0.2775, false},
		{10, 10, 0, 20, 0.6791, 1, true},
		{3, 10, 9, 10, -0.8090, -0.1705, true},
	} {
		u, ok := upliftOf("x", x.converted, x.entered, x.control, x.controlEntered)
		if !ok || math.Abs(u.Low-x.low) > 0.00005 || math.Abs(u.High-x.high) > 0.00005 || u.Shown != x.shown {
			t.Errorf("%d of %d and %d of %d: %+v, want %v to %v", x.converted, x.entered, x.control, x.controlEntered, u, x.low, x.high)
		}
	}
	if _, ok := upliftOf("x", 0, 5, 0, 0); ok {
		t.Error("an empty control group is compared")
	}
}

// The paths of a random step are compared with the one that is the control.
func TestUpliftOfPaths(t *testing.T) {
	doc := &plan.Document{Steps: []plan.Step{
		{ID: "draw", Random: &plan.Random{Paths: []plan.RandomPath{{Name: "a"}, {Name: "none", Control: true}, {Name: "b"}, {Name: "c"}}}},
		{ID: "other", Random: &plan.Random{Paths: []plan.RandomPath{{Name: "a"}, {Name: "b"}}}},
	}, Conversions: []plan.Conversion{{Name: "bought"}}}
	var rows []store.SeriesRow
	for name, n := range map[string]int64{"draw/passed/a": 70, "draw/converted/a/bought": 56, "draw/passed/none": 80, "draw/converted/none/bought": 48, "draw/passed/b": 9, "other/passed/a": 5, "converted/bought": 104} {
		rows = append(rows, store.SeriesRow{Name: "journey/j/" + name, Count: n})
	}
	got := countsOf(rows, "journey/j/", doc).PathUplift
	if len(got) != 2 || got[0].Step != "draw" || got[0].Path != "a" || got[0].Converted != 56 || got[0].ControlEntered != 80 || !got[0].Shown || math.Abs(got[0].Low-0.0524) > 0.00005 || got[1].Path != "b" || got[1].Converted != 0 {
		t.Errorf("%+v", got)
	}
}

// Conversions of all versions are compared with the entries of all versions, also where
// another step is the first by now. Of before entries were counted by themselves, those at
// the step that most came to are the nearest.
func TestUpliftOverVersions(t *testing.T) {
	doc := &plan.Document{Steps: []plan.Step{{ID: "new"}, {ID: "hello"}}, Conversions: []plan.Conversion{{Name: "bought"}}}
	counts := map[string]int64{"hello/entered": 105_000, "new/entered": 6_000, "hello/treated": 100_000, "new/treated": 6_000,
		"hello/held": 10_000, "new/held": 600, "converted/bought": 5_300, "held_converted/bought": 530}
	uplift := func() Uplift {
		var rows []store.SeriesRow
		for name, n := range counts {
			rows = append(rows, store.SeriesRow{Name: "journey/j/" + name, Count: n})
		}
		all := countsOf(rows, "journey/j/", doc).Uplift
		if len(all) != 1 {
			t.Fatalf("%+v", all)
		}
		return all[0]
	}
	if u := uplift(); u.Entered != 106_000 || u.ControlEntered != 10_600 || u.Difference != 0 || u.Shown {
		t.Errorf("%+v, want 106,000 and no difference", u)
	}
	counts["hello/entered"] = 905_000 // most by a version that counted no conversions
	if u := uplift(); u.Entered != 106_000 {
		t.Errorf("beside entries of a version without conversions %d, want 106,000", u.Entered)
	}
	counts["hello/entered"] = 105_000
	delete(counts, "hello/treated")
	delete(counts, "new/treated")
	if u := uplift(); u.Entered != 105_000 {
		t.Errorf("without that count %d, want 105,000", u.Entered)
	}
}

// A step may be called converted, and a conversion as what is counted of no step: conversions
// count all the same.
func TestCountsOfAStepCalledConverted(t *testing.T) {
	doc := &plan.Document{Steps: []plan.Step{{ID: "hello"}, {ID: "converted"}}, Conversions: []plan.Conversion{{Name: "bought"}}}
	var rows []store.SeriesRow
	for name, n := range map[string]int64{"hello/entered": 10, "hello/held": 5, "hello/treated": 10, "converted/entered": 7, "converted/passed": 4, "converted/sent": 3, "converted/bought": 6, "held_converted/bought": 2, "hello/converted/bought": 4, "converted/converted/bought": 1} {
		rows = append(rows, store.SeriesRow{Name: "journey/j/" + name, Count: n})
	}
	c := countsOf(rows, "journey/j/", doc)
	if s := c.Steps[1]; len(c.Steps) != 2 || s.Entered != 7 || s.Waiting != 3 || s.Sent != 3 {
		t.Errorf("the steps are %+v", c.Steps)
	}
	if c.Steps[0].Converted["bought"] != 4 || c.Steps[1].Converted["bought"] != 1 {
		t.Errorf("at the steps %v and %v converted, want 4 and 1", c.Steps[0].Converted, c.Steps[1].Converted)
	}
	if c.Conversions["bought"] != 6 || len(c.Uplift) != 1 || c.Uplift[0].Converted != 6 || c.Uplift[0].ControlConverted != 2 {
		t.Errorf("converted %v, %+v; want 6 and 2", c.Conversions, c.Uplift)
	}
}

// Those who get no marketing mail of any journey are compared with the others, for each
// percentage by itself: with other people in the groups their shares do not add up.
func TestUpliftOfTheGlobalControl(t *testing.T) {
	doc := &plan.Document{Steps: []plan.Step{{ID: "hello"}}, Conversions: []plan.Conversion{{Name: "bought"}, {Name: "asked"}}}
	var rows []store.SeriesRow
	for name, n := range map[string]int64{
		"hello/entered": 150, "hello/treated": 150, "converted/bought": 104,
		"global_others_5/entered": 70, "global_others_5/converted/bought": 56, "global_control_5/entered": 80, "global_control_5/converted/bought": 48,
		"global_others_10/entered": 10, "global_others_10/converted/bought": 9, "global_control_10/entered": 10, "global_control_10/converted/bought": 3,
		"global_others_20/entered": 1,
	} {
		rows = append(rows, store.SeriesRow{Name: "journey/j/" + name, Count: n})
	}
	c := countsOf(rows, "journey/j/", doc)
	got := c.GlobalUplift
	if len(got) != 4 || got[0].Percent != 5 || got[0].Entered != 70 || got[0].Converted != 56 || got[0].ControlEntered != 80 || got[0].ControlConverted != 48 || !got[0].Shown || math.Abs(got[0].Low-0.0524) > 0.00005 ||
		got[1].Percent != 10 || math.Abs(got[1].Low-0.1705) > 0.00005 || got[2].Conversion != "asked" || got[2].Converted != 0 || got[2].ControlEntered != 80 {
		t.Errorf("%+v", got)
	}
	if len(c.Steps) != 1 || len(c.Uplift) != 0 || c.Conversions["bought"] != 104 {
		t.Errorf("the groups are taken for something else: %+v", c)
	}
}
