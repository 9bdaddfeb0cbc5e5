package sluice

import "testing"

func TestForms(t *testing.T) {
	known := KnownForms()
	if got := ParseForms(known.String()); got != known {
		t.Errorf("%s is read as %s", known, got)
	}
	for _, text := range []string{"", "10", "10.10", "a.b.c", "-1.2.3"} {
		if f := ParseForms(text); f != (Forms{}) && f.Cover(known) {
			t.Errorf("%q covers %s: %+v", text, known, f)
		}
	}
	newer := known
	newer.Scripts++
	if known.Cover(newer) || !newer.Cover(known) {
		t.Error("newer scripts are covered by older ones, or the reverse")
	}
}

// What a batch has beyond what a program reads is found, and what is broken is not.
func TestFormsBeyond(t *testing.T) {
	empty := func(b []byte) []byte { return b }
	operation := func(number byte) func([]byte) []byte {
		return func(b []byte) []byte { return append(b, number, 0, 0) }
	}
	batch := AppendEvent(NewBatch(0), &Event{Kind: KindCustom, Name: "e"})
	batch = AppendItem(batch, ItemUser, operation(NewestUserOp))
	known := Forms{Item: newestItem, Update: NewestUserOp, Scripts: scriptsVersion}
	if found, ok := known.Beyond(batch); !ok {
		t.Errorf("%s of what is known", found)
	}
	next := AppendItem(batch, newestItem+1, empty)
	if found, ok := known.Beyond(next); ok || found.Item != newestItem+1 {
		t.Errorf("%s %v", found, ok)
	}
	update := AppendItem(NewBatch(0), ItemUser, operation(NewestUserOp+1))
	if found, ok := known.Beyond(update); ok || found.Update != NewestUserOp+1 {
		t.Errorf("%s %v", found, ok)
	}
	for end := range next {
		if _, ok := known.Beyond(next[:end]); !ok {
			t.Errorf("cut after %d bytes it is of a newer program", end)
		}
	}
	if n := testing.AllocsPerRun(10, func() { _, _ = known.Beyond(batch) }); n > 0 {
		t.Errorf("%.0f allocations", n)
	}
}
