package route

import (
	"strings"
	"testing"

	"sluice/mail"
	"sluice/test/clocktest"
)

// All mail of a class is stopped by its name, with all mail, or with all priorities.
func TestClassStopped(t *testing.T) {
	stops := map[string]string{}
	r, err := New(Options{Mode: On, Sink: &carrier{name: "sink"}, Routes: []Settings{named("a")}, Redis: noRedis{stops}, Clock: clocktest.At(testNow)})
	if err != nil {
		t.Fatal(err)
	}
	for names, want := range map[string]bool{"": false, "marketing": true, "all": true, "transactional": false, "priority:low": false, "priority:low priority:normal priority:high": true} {
		clear(stops)
		for name := range strings.FieldsSeq(names) {
			stops[name] = ""
		}
		if err := r.Look(t.Context()); err != nil {
			t.Fatal(err)
		}
		if r.ClassStopped(mail.ClassMarketing) != want {
			t.Errorf("with %q stopped, marketing mail is stopped: %v", names, !want)
		}
	}
}
