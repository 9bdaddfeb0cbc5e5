package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// keptStop returns when the database has that mail of a tag is stopped, as backups take it.
func (p *postOffice) keptStop(tag string) {
	p.t.Helper()
	await(p.t, "the database has what is stopped", func() bool {
		kept := strings.Join(p.texts(p.t, "SELECT stops FROM mail_stops"), "")
		return strings.Contains(kept, `"tag:`+tag+`"`) && !strings.Contains(kept, "marketing") // heeded has let that go on
	})
}

// What was stopped when a backup was taken is stopped behind its restore: in another
// deployment, and beside what is stopped now in the one that the backup is of.
func TestRestoreOfWhatIsStopped(t *testing.T) {
	t.Parallel()
	p := openPostOffice(t)
	p.pause("spring")
	p.keptStop("spring")
	file := filepath.Join(p.dir, "b.tar")
	mustRun(t, p.dir, "backup", file)
	p.resume("spring")
	p.pause("autumn")
	p.keptStop("autumn")
	p.stop()
	other := openPostOffice(t)
	other.stop()

	for name, of := range map[string]struct {
		*postOffice
		stopped, sent []string
	}{"in another deployment": {other, []string{"spring"}, []string{"autumn"}}, "in its own": {p, []string{"spring", "autumn"}, nil}} {
		mustRun(t, of.dir, "restore", "--replace", file)
		of.start()
		shown := mustRun(t, of.dir, "sending", "show").stdout
		for _, tag := range of.stopped {
			if !strings.Contains(shown, "tag "+tag) {
				t.Errorf("%s: mail of %s is not stopped: %s", name, tag, shown)
			}
			of.mail(tag, few, `,"tags":["`+tag+`"]`)
		}
		for _, tag := range append(of.sent, "plain") { // behind the others
			of.mail(tag, few, `,"tags":["`+tag+`"]`)
			of.awaitStates(tag, "sent", few)
		}
		for _, tag := range of.stopped {
			of.awaitStates(tag, "waiting", few)
			of.wantGot(tag, few, 0)
		}
	}
}
