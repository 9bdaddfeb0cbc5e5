package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/api"
	"sluice/config"
	"sluice/journey/desk"
	"sluice/journey/plan"
	"sluice/test/clocktest"
)

var sum = regexp.MustCompile(`(?m)^pushed ([\d,]+) = stored ([\d,]+) \+ dead ([\d,]+) \+ waiting ([\d,]+)$`)

// movedAll is a line of each journey of the demo in which all has happened that can.
var movedAll = map[string]*regexp.Regexp{
	"welcome":         regexp.MustCompile(`(?m)^welcome: entered [1-9]\d* mails [1-9]\d* opened [1-9]\d* clicked [1-9]\d* bounced \d+ ordered [1-9]\d* waiting .*read=[1-9]`),
	"abandoned-cart":  regexp.MustCompile(`(?m)^abandoned-cart: entered [1-9]\d* mails [1-9]\d* opened [1-9]\d* clicked [1-9]\d* bounced \d+ bought [1-9]\d* waiting .*react=[1-9]`),
	"win-back begins": regexp.MustCompile(`(?m)^win-back: entered [1-9]`),
	"win-back":        regexp.MustCompile(`(?m)^win-back: entered [1-9]\d* mails [1-9]\d* opened [1-9]\d* clicked [1-9]\d* bounced [1-9]\d* ordered [1-9]\d* visited [1-9]\d* waiting .*, ordered .* without mail`),
}

// demoLooked is how many bytes at the end of what the demo says are looked at: it says
// all of it again every two seconds.
const demoLooked = 8 << 10

// The three journeys of the demo move, their mail is opened and clicked, and converts; at
// the end the sum of the events comes out, and is that of the database.
func TestDemo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	var out buffer
	signals, done := make(chan os.Signal, 2), make(chan int, 1)
	m := Main{Args: []string{"demo", "--people", "2000", "--rate", "200", "--data", data, "--listen", "127.0.0.1:0"}, Dir: dir, Stdout: &out, Stderr: &out, Signals: signals}
	go func() { done <- m.Run(context.Background()) }()
	t.Cleanup(func() { signals <- syscall.SIGTERM })
	for _, journey := range []string{"welcome", "abandoned-cart", "win-back begins", "win-back"} { // it begins with a minute
		for began := time.Now(); ; clocktest.Rest(began) {
			said := out.String()
			said = said[max(0, len(said)-demoLooked):]
			if movedAll[journey].MatchString(said) {
				break
			}
			if time.Since(began) > patience {
				log, _ := os.ReadFile(filepath.Join(data, "demo.log"))
				t.Fatalf("waited in vain: people move in %s; said last:\n%s\nlogged last:\n%s", journey, said, log[max(0, len(log)-demoLooked):])
			}
		}
	}
	if got := mustRun(t, dir, "journey", "why", "welcome", "--user", personID(0), "--data", data).stdout; !strings.Contains(got, "the person entered") {
		t.Errorf("why: %q", got)
	}
	signals <- syscall.SIGINT
	if code := <-done; code != exitOK {
		t.Fatalf("the demo ended with %d:\n%s", code, out.String())
	}
	found := sum.FindStringSubmatch(out.String())
	if found == nil || strings.Contains(out.String(), "\x1b") {
		t.Fatalf("no sum:\n%s", out.String())
	}
	var n [4]int
	for i := range n {
		n[i], _ = strconv.Atoi(strings.ReplaceAll(found[i+1], ",", ""))
	}
	if n[0] == 0 || n[0] != n[1]+n[2]+n[3] || n[3] != 0 || n[2] == 0 {
		t.Error(found[0])
	}
	history := 2000 * 3 / 10
	if rows := rowsIn(t, filepath.Join(data, "sluice.db"), "WHERE kind = 'custom'"); rows != n[1]+history {
		t.Errorf("%d rows, want %d and %d orders of before", rows, n[1], history)
	}
	if r := mustRun(t, dir, "dead", "list", "--data", data, "--limit", "1000"); !strings.Contains(r.stdout, "list:"+demoList) {
		t.Errorf("no dead letters of the demo:\n%s", r.stdout)
	}
}

// A dead letter that is replayed is one event all the same, while it waits, when it is stored
// and when it is dead again.
func TestDemoCountsAReplayOnce(t *testing.T) {
	t.Parallel()
	d := &demo{before: api.Stats{Dead: 7, Replayed: 2, Names: map[string]int64{"custom": 100}}}
	d.pushed.Store(5)
	for _, tt := range []struct{ stored, dead, replayed, missing int64 }{
		{3, 2, 0, 0}, {3, 2, 1, 1}, {4, 2, 1, 0}, {3, 3, 1, 0},
	} {
		s := api.Stats{Dead: 7 + tt.dead, Replayed: 2 + tt.replayed, Names: map[string]int64{"custom": 100 + tt.stored}}
		if got := d.missing(s); got != tt.missing {
			t.Errorf("stored %d, dead %d, replayed %d: %d are missing, want %d", tt.stored, tt.dead, tt.replayed, got, tt.missing)
		}
	}
}

// The demo refuses a directory that another one has, or that has other files, and an
// address that is taken; what an earlier demo left it removes.
func TestDemoRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "letter"), "dear Ann")
	if got := sluiceRun(t, dir, "demo", "--data", dir); got.code != exitFailed || !strings.Contains(got.stderr, "no demo has made it; choose another directory with --data") {
		t.Errorf("%+v", got)
	}
	own := filepath.Join(dir, "own")
	lock, err := takeDemoDirectory(own)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(own, "sluice.db"), "old")
	if got := sluiceRun(t, dir, "demo", "--data", own); got.code != exitFailed || !strings.Contains(got.stderr, "another one runs in "+own) {
		t.Errorf("%+v", got)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if got := sluiceRun(t, dir, "demo", "--data", own, "--listen", l.Addr().String()); got.code != exitFailed || !strings.Contains(got.stderr, "choose another address with --listen") {
		t.Errorf("%+v", got)
	}
	if _, err := os.Stat(filepath.Join(own, "sluice.db")); !os.IsNotExist(err) {
		t.Errorf("the files of before: %v", err)
	}
}

// What people do is of every kind, with distinct ids, a bounded memory, and a share of
// broken elements; each who is new signs up once.
func TestShop(t *testing.T) {
	s := newShop(1000, 7)
	now := time.UnixMilli(1_700_000_000_000)
	ids, names, signed, broken, bought := map[string]bool{}, map[string]int{}, map[string]bool{}, 0, 0
	for range 600 { // a minute
		for _, e := range s.next(now, 200) {
			var d shopEvent
			if json.Unmarshal([]byte(e), &d) != nil || d.Event == "" {
				broken++
				continue
			}
			if ids[d.EventID] || d.Event == eventSignUp && signed[d.UserID] {
				t.Fatalf("it came twice: %s", e)
			}
			ids[d.EventID] = true
			names[d.Event]++
			if d.Event == eventSignUp {
				signed[d.UserID] = true
			}
		}
		for p := s.purchases(75); len(p) > 0; p = s.purchases(75) {
			bought += len(p)
		}
		s.clicked(emailOf(7), now)
		now = now.Add(100 * time.Millisecond)
	}
	if broken != 120 || len(s.due) > maxDue || len(s.bought) > 0 {
		t.Errorf("%d broken of 120,000, %d are to come", broken, len(s.due))
	}
	if len(signed) != 400 || names[eventVisit] == 0 || names[eventCart] == 0 || names[eventOrder] != bought || names[eventOrder] < names[eventCart]/4 {
		t.Errorf("%d signed up, %d bought: %v", len(signed), bought, names)
	}
	for _, person := range []int{0, 13, 999} {
		if got, ok := personOf(emailOf(person)); !ok || got != person {
			t.Errorf("%s is of %d", emailOf(person), got)
		}
	}
	if s.profileLine(13) != newShop(1000, 7).profileLine(13) || s.profileLine(13) == newShop(1000, 8).profileLine(13) {
		t.Error("people are not those of the seed")
	}
}

// The examples are made so fast that nobody waits in a step for longer than a quarter of
// an hour, at no time of day.
func TestQuicken(t *testing.T) {
	now := time.Date(2026, 12, 1, 9, 30, 58, 0, time.UTC)
	files := 0
	err := eachExample("*.yaml", func(file, text string) error {
		files++
		doc, err := plan.ParseYAML(text)
		if err == nil {
			err = quicken(doc, now)
		}
		if err != nil {
			return err
		}
		if text, err = doc.Text(); err != nil {
			return err
		}
		checked, err := desk.ValidateAlone(desk.Written{Text: text})
		if err != nil {
			return err
		}
		for _, s := range checked.Plan.Steps {
			if s.Within > 900 || s.Delay != nil && s.Delay.ForSeconds > 900 {
				t.Errorf("%s: people wait at %s for %d s", file, s.ID, s.Within)
			}
		}
		if strings.Contains(text, `"until`) || strings.Contains(text, `"quiet":`) {
			t.Errorf("%s: it has times of day: %s", file, text)
		}
		if at := doc.Entry.When[0].At; at != "" && at != "2026-12-01 09:32" {
			t.Errorf("%s: it begins at %s", file, at)
		}
		return nil
	})
	if err != nil || files != 3 {
		t.Errorf("%d files: %v", files, err)
	}
}

// On a terminal a journey has a line for each step at which people wait, with a bar, and
// the whole fits on 24 lines of 79 characters.
func TestDemoView(t *testing.T) {
	var out bytes.Buffer
	d := &demo{view: newDemoView(&out), cfg: &config.Config{Listen: demoListen, Data: "sluice-demo"}, shop: newShop(100_000, 1)}
	if d.view.terminal {
		t.Fatal("a buffer is no terminal")
	}
	d.view.terminal = true
	seen := []seenJourney{
		{demoJourney{id: "abandoned-cart", waits: []string{"a", "b", "c"}, goal: "ordered"}, desk.Counts{
			Steps:       []desk.StepCounts{{Step: "mail", Entered: 29_000}, {Step: "a", Waiting: 20_000}, {Step: "b", Waiting: 10_000}, {Step: "c"}},
			Conversions: map[string]int64{"ordered": 933}, Control: 990,
			Uplift: []desk.Uplift{{Conversion: "ordered", Entered: 29_000, Converted: 933, ControlEntered: 990, ControlConverted: 9, Difference: .023, Low: .015, High: .027, Shown: true}},
		}, mailCounts{29_000, 12_000, 4_000, 290}},
		{demoJourney{id: "win-back", goal: "ordered", begins: "2026-12-01 09:32"}, desk.Counts{Steps: []desk.StepCounts{{Step: "offer"}}}, mailCounts{}},
	}
	now := time.UnixMilli(1_700_000_000_000)
	for i := range 3 {
		d.pushed.Store(int64(i) * 2000)
		stats := api.Stats{Names: map[string]int64{"custom": int64(i) * 2000}}
		d.view.draw(d.frame(seen, d.eventsLine(stats, d.view.rate.at(d.stored(stats), now.Add(time.Duration(i)*time.Second)))))
	}
	text := out.String()
	lines := strings.Split(text[strings.LastIndex(text, "A"):], "\n")
	if strings.Count(text, fmt.Sprintf("\x1b[%dA", strings.Count(text, "\n")/3)) != 2 || !strings.Contains(text, "2,000/s") || len(lines) > 24 {
		t.Errorf("%q", text)
	}
	for _, want := range []string{
		"abandoned-cart    29,990    29,000    12,000     4,000       290       933",
		"  at a            20,000 " + strings.Repeat("#", 30), "  at b            10,000 " + strings.Repeat("#", 15) + "\x1b", "  at c                 0 \x1b",
		"  ordered 3.2 %, without mail 0.9 % of 990: +2.3 points (+1.5 to +2.7)", "win-back         begins at 2026-12-01 09:32 UTC",
		"sluice journey status welcome --data sluice-demo",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}
