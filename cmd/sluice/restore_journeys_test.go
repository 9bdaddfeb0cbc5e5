package main

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// askedJourney mails who says yes within the hour.
const askedJourney = `
id: %s
entry: {when: {event: %[1]s}}
steps:
  - id: asked
    wait_for: {within: 1h, paths: [{name: said, when: {event: go}, next: mail}], otherwise: rest}
  - {id: mail, message: {template: asked, tags: %[1]s}, next: rest}
  - {id: rest, delay: {for: 30d}}
`

// journeysOf publishes the journeys, and has few people ID-N enter each.
func (p *postOffice) journeysOf(ids ...string) {
	p.t.Helper()
	write(p.t, filepath.Join(p.dir, "asked.mail"), "id: asked\nclass: marketing\nfrom: shop@example.com\nsubject: s\n--- text\nt\n")
	mustRun(p.t, p.dir, "template", "put", filepath.Join(p.dir, "asked.mail"))
	for _, id := range ids {
		write(p.t, filepath.Join(p.dir, id+".yaml"), fmt.Sprintf(askedJourney, id))
		mustRun(p.t, p.dir, "journey", "apply", "--publish", filepath.Join(p.dir, id+".yaml"))
		var people []string
		for i := range few {
			people = append(people, fmt.Sprintf(`{"external_id":"%s-%d","email":"%[1]s-%[2]d@example.com","email_subscribe":"opted_in"}`, id, i))
		}
		p.sent(p.t, http.StatusCreated, "/users/track", `{"attributes":[`+strings.Join(people, ",")+`]}`)
		p.happens(id, id)
		p.awaitSteps(id, "inside", "asked")
	}
}

// happens has an event happen to the people of a journey.
func (p *postOffice) happens(id, event string) {
	p.t.Helper()
	var events []string
	for i := range few {
		events = append(events, fmt.Sprintf(`{"external_id":"%s-%d","name":"%s","time":"2026-11-01T00:00:00Z"}`, id, i, event))
	}
	p.sent(p.t, http.StatusCreated, "/users/track", `{"events":[`+strings.Join(events, ",")+`]}`)
}

// awaitSteps waits until all people of a journey are at a step.
func (p *postOffice) awaitSteps(id, state, step string) {
	p.t.Helper()
	for i := range few {
		awaitPlace(p.t, p.served, fmt.Sprintf("%s-%d", id, i), fmt.Sprintf(`"state":"%s","step":"%s"`, state, step))
	}
}

// Who entered after the last checkpoint of a backup is inside again behind its restore,
// though the journey stands.
func TestRestoreOfWhoHasJustEntered(t *testing.T) {
	t.Parallel()
	p := openPostOffice(t)
	p.journeysOf("on", "later")
	p.stop() // a planned stop writes where people are
	p.start()
	entered := func() bool {
		return strings.Contains(mustRun(t, p.dir, "journey", "status", "later").stdout, fmt.Sprintf("  waiting %d  ", 2*few))
	}
	p.happens("on", "later")
	await(t, "they are in the other journey too", entered)
	file := filepath.Join(p.dir, "b.tar")
	mustRun(t, p.dir, "backup", file)
	p.stop()
	mustRun(t, p.dir, "restore", "--replace", file)
	p.start()
	await(t, "they are in it again", entered)
	mustRun(t, p.dir, "journey", "resume", "later", "--overdue", "send")
	await(t, "they still are", entered)
}

// So are the first who ever entered, whose partitions have a checkpoint of before.
func TestRestoreOfTheFirstWhoEntered(t *testing.T) {
	t.Parallel()
	p := openPostOffice(t)
	p.journeysOf("on")
	file := filepath.Join(p.dir, "b.tar")
	mustRun(t, p.dir, "backup", file)
	p.stop()
	mustRun(t, p.dir, "restore", "--replace", file)
	p.start()
	p.awaitSteps("on", "inside", "asked")
}

// A database of last night, with today's Redis or without it: people are in journeys, and
// have been mailed since. Nothing of journeys is sent until somebody says so, and doctor
// and status tell that. A journey that is resumed goes on where it was, one that is
// stopped sends nothing.
func TestRestoreWithPeopleInside(t *testing.T) {
	t.Parallel()
	for name, only := range map[string][]string{"database": {"--only", "database"}, "both": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := openPostOffice(t)
			p.journeysOf("on", "ended")
			p.stop() // a planned stop writes where people are
			p.start()
			file := filepath.Join(p.dir, "b.tar")
			mustRun(t, p.dir, "backup", file)
			for _, id := range []string{"on", "ended"} {
				p.happens(id, "go")
				p.awaitSteps(id, "inside", "rest")
				p.awaitStates(id, "sent", few)
			}
			p.stop()
			mustRun(t, p.dir, append(append([]string{"restore"}, only...), "--replace", file)...)
			if got := sluiceRun(t, p.dir, "journey", "resume", "on"); got.code != exitFailed || !strings.Contains(got.stderr, "--overdue send, or skip") {
				t.Errorf("resume while nothing runs: %+v", got)
			}

			p.start()
			awaitDoctor(t, p.dir, "doctor tells of the journeys that stand", func(r result) bool {
				return strings.Contains(strings.Join(strings.Fields(r.stdout), " "), "2 journeys stand until somebody decides, since a backup was restored")
			})
			if got := mustRun(t, p.dir, "journey", "status", "on").stdout; !strings.Contains(got, "it stands: ") {
				t.Errorf("status:\n%s", got)
			}
			p.happens("on", "go") // as a shop does that lost the evening too
			p.happens("ended", "go")
			p.mail("other", few, ``)
			p.awaitStates("other", "sent", few)
			p.wantGot("on", few, 1)
			mustRun(t, p.dir, "journey", "stop", "ended")
			mustRun(t, p.dir, "journey", "resume", "on", "--overdue", "send")
			p.awaitSteps("on", "inside", "rest")
			want := 2 // nobody knows of the mail since
			if only != nil {
				want = 1 // Redis does
			} else {
				p.awaitStates("on", "sent", few)
			}
			p.wantGot("on", few, want)
			p.wantGot("ended", few, 1)
			if got := sluiceRun(t, p.dir, "doctor").stdout; strings.Contains(got, "journeys stand") {
				t.Errorf("doctor still says that journeys stand:\n%s", got)
			}
		})
	}
}
