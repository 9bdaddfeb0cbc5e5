package desk

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"sluice"
	"sluice/journey/plan"
)

// What a journey is listed as is a text that every database and terminal takes.
func TestNamesOfDrafts(t *testing.T) {
	b := newBed(t)
	j := b.create(tiny)
	for what, name := range map[string]string{"a zero": "a\x00b", "an escape": "a\x1b[2J", "no UTF-8": "a\xffb", "too long": strings.Repeat("ü", plan.MaxNameRunes+1)} {
		_, err := b.Copy(t.Context(), "tiny", "copied", name)
		b.refused(err, sluice.CodeInvalid, "name: want a text of at most 255 characters")
		if what == "no UTF-8" { // a document has none: its reader replaces it
			continue
		}
		quoted, err := json.Marshal(name)
		b.ok(err)
		text := fmt.Sprintf(`{"id":"ID","name":%s,"entry":{"when":{"event":"e"}},"steps":[{"id":"a","exit":{}}]}`, quoted)
		_, err = b.Create(t.Context(), Written{Text: strings.Replace(text, "ID", "named", 1)})
		b.refused(err, sluice.CodeInvalid, "name: want a text of at most 255 characters")
		_, err = b.Update(t.Context(), "tiny", j.Revision, Written{Text: strings.Replace(text, "ID", "tiny", 1)})
		b.refused(err, sluice.CodeInvalid, "name: want a text of at most 255 characters")
	}
	if got, err := b.Copy(t.Context(), "tiny", "copied", strings.Repeat("ü", plan.MaxNameRunes-2)+"\n🌍"); err != nil || got.ID != "copied" {
		t.Errorf("%+v, %v", got, err)
	}
}
