package main

import (
	"strings"
	"testing"

	"sluice"
	"sluice/flow"
)

// A cursor before the first entry is no time.
func TestAGapFromTheBeginning(t *testing.T) {
	g := flow.Gap{What: "log of partition 0", Start: sluice.Position{Major: 1_800_000_000_000}}
	if text := gapText(&g); !strings.Contains(text, "nothing before is stored") || strings.Contains(text, "of time") {
		t.Error(text)
	}
	g.Cursor.Major = g.Start.Major - 1500
	if text := gapText(&g); !strings.Contains(text, "1.5s of time") {
		t.Error(text)
	}
}
