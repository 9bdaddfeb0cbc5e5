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

// A transport asks this of each mail right before it begins it.
func BenchmarkHolds(b *testing.B) {
	settings := named("a")
	r, err := New(Options{Mode: On, Sink: &carrier{name: "sink"}, Routes: []Settings{settings}, Redis: noRedis{map[string]string{"tag:other": "note"}}, Clock: clocktest.At(testNow)})
	if err != nil {
		b.Fatal(err)
	}
	if err := r.Look(b.Context()); err != nil {
		b.Fatal(err)
	}
	message := mailTo("x@example.com")
	message.Tags = "news,spring"
	b.ReportAllocs()
	for b.Loop() {
		if r.Holds(settings.Transport, message) {
			b.Fatal("it is held back")
		}
	}
}

// What is stopped is stopped, and nothing else. Whole lanes are stopped by
// class and priority; a tag or a message apart from the others; a route as if
// it were down.
func TestStops(t *testing.T) {
	stops := map[string]string{}
	r, err := New(Options{Mode: On, Sink: &carrier{name: "sink"}, Routes: []Settings{named("a"), named("b")}, Redis: noRedis{stops}, Clock: clocktest.At(testNow)})
	if err != nil {
		t.Fatal(err)
	}
	message := mailTo("x@example.com")
	message.Tags, message.Message, message.Priority = "news,spring", strings.Repeat("0a", 16), mail.PriorityNormal
	takes := func() (by string, lane string) {
		t.Helper()
		if err := r.Look(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range 2 { // so that both routes have asked
			by, lane = "", ""
			for _, x := range r.routes {
				take := r.Takes(x.transport, message, nil, testNow)
				if take.OK {
					by += x.name
					if r.Holds(x.transport, message) {
						t.Errorf("%v: %s takes it, and holds it back", stops, x.name)
					}
				} else if take.Wait > maxWait {
					t.Errorf("to be asked again after %v", take.Wait)
				}
				lane += take.Lane
			}
		}
		return by, lane
	}
	holds := func(want string) { // those that would not begin it any more
		t.Helper()
		held := ""
		for _, x := range r.routes {
			if r.Holds(x.transport, message) {
				held += x.name
			}
		}
		if held != want {
			t.Errorf("%v: held back by %q, want %q", stops, held, want)
		}
	}
	for _, test := range []struct {
		name string
		free bool
		lane string
	}{
		{"all", false, ""}, {"transactional", false, ""}, {"marketing", true, ""}, {"priority:normal", false, ""}, {"priority:low", true, ""},
		{"tag:spring", false, "tag:springtag:spring"}, {"tag:spr", true, ""}, {"message:" + message.Message, false, "message:" + message.Message + "message:" + message.Message},
		{"of a newer program", true, ""}, {"marketing/tag:spring", true, ""}, {"marketing/message:" + message.Message, true, ""},
		{"transactional/tag:spring", false, "transactional/tag:springtransactional/tag:spring"},
		{"transactional/message:" + message.Message, false, strings.Repeat("transactional/message:"+message.Message, 2)},
	} {
		clear(stops)
		stops[test.name] = "note"
		if by, lane := takes(); (by != "") != test.free || lane != test.lane {
			t.Errorf("%s: taken by %q, lane %q; want free %v, lane %q", test.name, by, lane, test.free, test.lane)
		}
		if test.free {
			holds("")
		} else {
			holds("ab")
		}
	}
	clear(stops)
	stops["route:a"] = "note"
	if by, _ := takes(); by != "b" {
		t.Errorf("a is stopped: taken by %q, want b", by)
	}
	holds("a")
	clear(stops)
	stops["transactional/route:a"], stops["marketing/route:b"] = "note", "note"
	if by, _ := takes(); by != "b" {
		t.Errorf("a takes no mail of the class: taken by %q, want b", by)
	}
	holds("a")
	stops["transactional/route:b"] = "note"
	if by, _ := takes(); by != "" {
		t.Errorf("neither takes mail of the class: taken by %q", by)
	}
	clear(stops)
	stops["route:a"], stops["route:b"] = "note", "note"
	if by, _ := takes(); by != "" {
		t.Errorf("both are stopped: taken by %q", by)
	}
	clear(stops)
	if by, _ := takes(); by == "" {
		t.Error("nothing is stopped any more, and nobody takes it")
	}
}
