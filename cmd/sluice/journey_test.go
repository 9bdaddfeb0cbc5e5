package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice/test/servers"
)

const helloJourney = `# people who sign up
id: hello
name: Hel 🌍
entry: {when: {event: signup}, again_after: 0s}
steps:
  - {id: soon, delay: {for: 2s}, next: mail}
  - {id: mail, message: {template: welcome, from: us@example.org}, next: long}
  - {id: long, delay: {for: 10d}}
exit_when: {event: gone}
`

// Journeys are checked, applied and published from files beside a running program, which
// moves people by them; where they are is seen by the command and by the API. A paused
// journey lets nobody in, a stopped one has nobody inside.
func TestJourneyCommand(t *testing.T) {
	t.Parallel()
	s := startServe(t, t.TempDir(), "SLUICE_ROOT_KEY="+testRoot)
	file := filepath.Join(s.dir, "hello.yaml")
	write(t, file, helloJourney)
	if got := mustRun(t, s.dir, "journey", "list"); got.stdout != "" || !strings.Contains(got.stderr, "no journeys") {
		t.Errorf("%+v", got)
	}
	if got := sluiceRun(t, s.dir, "journey", "validate", file); got.code != exitFailed || !strings.Contains(got.stderr, file+": line 7: steps.mail.message.template: there is no template welcome") {
		t.Errorf("%+v", got)
	}
	if got := mustRun(t, s.dir, "journey", "validate", "--alone", file).stdout; got != "journey hello: nothing is wrong; templates, segments and other journeys were not looked up\n" {
		t.Errorf("%q", got)
	}
	mail := filepath.Join(s.dir, "welcome.mail")
	write(t, mail, welcomeFile)
	mustRun(t, s.dir, "template", "put", mail)
	if got := mustRun(t, s.dir, "journey", "validate", file).stdout; got != "journey hello: nothing is wrong\n" {
		t.Errorf("%q", got)
	}
	if got := mustRun(t, s.dir, "journey", "apply", "--publish", file).stdout; got != "journey hello: the draft is written, revision 0\njourney hello: version 1 is published, it is live\n" {
		t.Errorf("%q", got)
	}
	does := func(name string) {
		t.Helper()
		s.sent(t, 201, "/users/track/sync", fmt.Sprintf(`{"events":[{"external_id":"u-7","name":%q,"time":%q}]}`, name, time.Now().UTC().Format(time.RFC3339)))
	}
	s.sent(t, 201, "/users/track/sync", `{"attributes":[{"external_id":"u-7","email":"u-7@example.com"}]}`)
	does("signup")
	awaitPlace(t, s, "u-7", `"state":"inside","step":"long"`)
	awaitStatus(t, s.dir, "long  entered 1  waiting 1  passed 0  exited 0")
	awaitStatus(t, s.dir, "mail  entered 1  waiting 0  passed 1  exited 0  sent 1")
	if got := mustRun(t, s.dir, "journey", "status", "hello").stdout; !strings.HasPrefix(got, "journey hello is live, version 1, 1 in use\nsoon  entered 1  waiting 0  passed 1  exited 0\nmail  ") {
		t.Error(got)
	}
	if got := mustRun(t, s.dir, "journey", "people", "hello", "--step", "long").stdout; strings.Count(got, "\n") != 1 || !strings.Contains(got, "  u-7  inside  long") {
		t.Errorf("people: %q", got)
	}
	if got := sluiceRun(t, s.dir, "journey", "people", "hello", "--step", "lomg"); got.code != exitFailed || !strings.Contains(got.stderr, `journey hello has no step "lomg"; did you mean long?`) {
		t.Errorf("people at a step that there is not: %+v", got)
	}
	if got := mustRun(t, s.dir, "journey", "why", "hello", "--user", "u-7", "--step", "mail").stdout; !strings.Contains(got, "is at step long") || !strings.Contains(got, "went on from step mail") {
		t.Errorf("why: %q", got)
	}
	does("gone")
	awaitPlace(t, s, "u-7", `"state":"exited","step":"long"`)
	awaitStatus(t, s.dir, "long  entered 1  waiting 0  passed 0  exited 1")
	if got := mustRun(t, s.dir, "journey", "why", "hello", "--user", "u-7").stdout; !strings.Contains(got, "by exit_when[0]: event gone\nwhat happened then: gone\n") {
		t.Errorf("why the person left: %q", got)
	}

	for _, x := range [][2]string{{"pause", "paused"}, {"resume", "live"}, {"stop", "stopped"}, {"archive", "archived"}} {
		if got := mustRun(t, s.dir, "journey", x[0], "hello").stdout; got != "journey hello is "+x[1]+"\n" {
			t.Errorf("%s: %q", x[0], got)
		}
	}
	if got := mustRun(t, s.dir, "journey", "list").stdout; got != "" {
		t.Error(got)
	}
	if got := mustRun(t, s.dir, "journey", "list", "--archived", "--json").stdout; !strings.Contains(got, `"id":"hello"`) || !strings.Contains(got, `"status":"archived","version":1`) {
		t.Error(got)
	}
}

// What people wrote into a profile or a document reaches no terminal as it is, and the
// document that is shown is still the same one.
func TestJourneyShowsNothingUnprintable(t *testing.T) {
	t.Parallel()
	const odd = "\u007f\u009b2J\u202e" // delete, CSI, and text from right to left
	s := startServe(t, t.TempDir(), "SLUICE_ROOT_KEY="+testRoot)
	s.sent(t, 201, "/users/track/sync", `{"attributes":[{"external_id":"u-7","city":"Wien`+odd+`"}]}`)
	file := filepath.Join(s.dir, "odd.json")
	write(t, file, `{"id":"odd","entry":{"when":{"event":"signup"},"who":{"attribute":"city","is":"equals","value":"Graz`+odd+`"}},"steps":[{"id":"long","delay":{"for":"10d"}}]}`)
	mustRun(t, s.dir, "journey", "apply", "--publish", file)
	printed := func(want string, args ...string) string {
		t.Helper()
		got := mustRun(t, s.dir, append([]string{"journey"}, args...)...).stdout
		if !strings.Contains(got, want) || strings.ContainsFunc(got, func(r rune) bool { return r != '\n' && !strconv.IsPrint(r) }) {
			t.Errorf("journey %v: %q, want %s in it", args, got, want)
		}
		return got
	}
	await(t, "it is known where people are", func() bool {
		return !strings.Contains(sluiceRun(t, s.dir, "journey", "why", "odd", "--user", "u-7").stdout, "is not known yet")
	})
	printed(`: "Wien\x7f\u009b2J\u202e"`, "why", "odd", "--user", "u-7")
	write(t, file, printed(`"Graz\u007f\u009b2J\u202e"`, "show", "odd"))
	if got := printed("", "diff", file); got != "journey odd: nothing would change\n" {
		t.Errorf("what was shown is another document: %q", got)
	}
}

// awaitPlace waits until a user is somewhere.
func awaitPlace(t *testing.T, s *served, user, want string) {
	t.Helper()
	await(t, "user "+user+" has "+want, func() bool {
		status, body := s.get(t, "/v1/users/"+user+"/journeys")
		return status == 200 && strings.Contains(body, want)
	})
}

// awaitStatus waits until a line of the status of hello is there.
func awaitStatus(t *testing.T, dir, want string) {
	t.Helper()
	await(t, want, func() bool {
		return strings.Contains(mustRun(t, dir, "journey", "status", "hello").stdout, want+"\n")
	})
}

// In a Redis that no program works on nobody is known to be overdue: a resume without a choice
// asks for the program first.
func TestJourneyResumeWantsAProgram(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	redis, err := servers.StartRedis(t.Context(), servers.RedisOptions{Dir: filepath.Join(dir, "redis"), Listen: "tcp"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = redis.Kill() })
	configure(t, dir, fmt.Sprintf("redis: %s\ndatabase: sqlite:%s\npartitions: 2\n", redis.URL(), filepath.Join(dir, "sluice.db")))
	mustRun(t, dir, "migrate")
	file := filepath.Join(dir, "gone.yaml")
	write(t, file, "id: gone\nentry: {when: {event: signup}}\nsteps: [{id: a, exit: {}}]\n")
	mustRun(t, dir, "journey", "apply", "--publish", file)
	mustRun(t, dir, "journey", "pause", "gone")
	if got := sluiceRun(t, dir, "journey", "resume", "gone"); got.code != exitFailed || !strings.Contains(got.stderr, "do not belong together") || !strings.Contains(got.stderr, "--overdue send, or skip") {
		t.Errorf("%+v", got)
	}
	mustRun(t, dir, "journey", "resume", "gone", "--overdue", "send")
}

// A draft is changed by what a file says, and only after somebody could see how.
func TestJourneyDiff(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	configure(t, dir, "")
	if got := mustRun(t, dir, "migrate"); got.code != exitOK {
		t.Fatal(got)
	}
	file := filepath.Join(dir, "hello.yaml")
	write(t, file, helloJourney)
	if got := mustRun(t, dir, "journey", "diff", file).stdout; !strings.HasPrefix(got, "+{\n+  \"id\": \"hello\",\n") || strings.Contains(got, "\n ") {
		t.Error(got)
	}
	mustRun(t, dir, "journey", "apply", file)
	if got := mustRun(t, dir, "journey", "diff", file).stdout; got != "journey hello: nothing would change\n" {
		t.Error(got)
	}
	shown := mustRun(t, dir, "journey", "show", "hello").stdout
	if !json.Valid([]byte(shown)) {
		t.Error(shown)
	}
	asJSON := filepath.Join(dir, "hello.json")
	write(t, asJSON, shown)
	if got := mustRun(t, dir, "journey", "diff", asJSON).stdout; got != "journey hello: nothing would change\n" {
		t.Error(got)
	}
	write(t, file, strings.NewReplacer("10d", "20d", "{for: 2s}", "{for: 2s, until: {time: \"09:00\"}}").Replace(helloJourney))
	got := mustRun(t, dir, "journey", "diff", file).stdout
	for _, want := range []string{"\n-        \"for\": \"2s\"\n+        \"for\": \"2s\",\n+        \"until\": {\n", "\n-        \"for\": \"10d\"\n+        \"for\": \"20d\"\n", "\n...\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s\nwant %q in it", got, want)
		}
	}
	if strings.Contains(got, "signup") {
		t.Errorf("a line that is far from a change is shown:\n%s", got)
	}
	mustRun(t, dir, "journey", "apply", file)
	if got := mustRun(t, dir, "journey", "diff", file).stdout; got != "journey hello: nothing would change\n" {
		t.Error(got)
	}
}

// What cannot be done says why.
func TestJourneyCommandRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	configure(t, dir, "")
	file := filepath.Join(dir, "hello.yaml")
	write(t, file, strings.Replace(helloJourney, "steps:", "stepz:", 1))
	if got := sluiceRun(t, dir, "journey", "validate", file); got.code != exitFailed || !strings.Contains(got.stderr, "sluice journey validate --alone") {
		t.Errorf("without a database: %+v", got)
	}
	if got := sluiceRun(t, dir, "journey", "validate", "--alone", file); got.code != exitFailed || !strings.Contains(got.stderr, file+": line 5: stepz: there is no such member; did you mean steps?") {
		t.Errorf("%+v", got)
	}
	mustRun(t, dir, "migrate")
	for args, want := range map[string]string{
		"apply " + file: file + ": line 5: stepz", "diff " + file: file + ": line 5: stepz", "publish no": `there is no journey "no"`, "show no": "there is no journey",
		"status no": "there is no journey", "apply " + file + "x": "no such file",
	} {
		if got := sluiceRun(t, dir, append([]string{"journey"}, strings.Fields(args)...)...); got.code != exitFailed || !strings.Contains(got.stderr, want) {
			t.Errorf("%s: %d %s, want %q", args, got.code, got.stderr, want)
		}
	}
	write(t, file, helloJourney)
	mustRun(t, dir, "journey", "apply", file)
	for args, want := range map[string]string{
		"publish hello": "journey hello: steps.mail.message.template: there is no template welcome", "pause hello": "journey hello is draft, and pause is for one that is live: publish it first",
		"show hello --version 1": "journey hello has no version 1",
	} {
		if got := sluiceRun(t, dir, append([]string{"journey"}, strings.Fields(args)...)...); got.code != exitFailed || !strings.Contains(got.stderr, want) {
			t.Errorf("%s: %d %s, want %q", args, got.code, got.stderr, want)
		}
	}
	for _, args := range []string{"", "lst", "list a", "show", "pause a b", "validate", "show a --version 0"} {
		if got := sluiceRun(t, dir, append([]string{"journey"}, strings.Fields(args)...)...); got.code != exitUsage {
			t.Errorf("journey %s: %d %s", args, got.code, got.stderr)
		}
	}
}

// What two texts have in common is found, and each line of both is there.
func TestDiffLines(t *testing.T) {
	for _, c := range [][3]string{
		{"", "", ""}, {"a b c", "a b c", " a  b  c"}, {"a b c", "a c", " a -b  c"}, {"a c", "a b c", " a +b  c"}, {"a b", "c d", "-a -b +c +d"},
		{"a b c d e", "a x c y e", " a -b +x  c -d +y  e"}, {"a a", "a", " a -a"}, {"x a b", "a b y", "-x  a  b +y"},
	} {
		if got := strings.Join(diffLines(strings.Fields(c[0]), strings.Fields(c[1])), " "); got != c[2] {
			t.Errorf("%q to %q: %q, want %q", c[0], c[1], got, c[2])
		}
	}
	var before, after []string
	for i := range 5000 {
		before, after = append(before, fmt.Sprint("b", i)), append(after, fmt.Sprint("a", i))
	}
	if got := diffLines(before, after); len(got) != 10_000 || got[0] != "-b0" || got[9999] != "+a4999" {
		t.Errorf("%d lines", len(got))
	}
}

// A copy is a draft of its own; the journey that was copied stays as it is.
func TestJourneyCopy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	configure(t, dir, "")
	mustRun(t, dir, "migrate")
	file := filepath.Join(dir, "hello.yaml")
	write(t, file, helloJourney)
	mustRun(t, dir, "journey", "apply", file)
	if got := mustRun(t, dir, "journey", "copy", "hello", "again").stdout; got != "journey again: the draft is written, a copy of hello\n" {
		t.Errorf("%q", got)
	}
	mustRun(t, dir, "journey", "copy", "again", "third", "--name", "The third")
	hello, third := mustRun(t, dir, "journey", "show", "hello").stdout, mustRun(t, dir, "journey", "show", "third").stdout
	if !strings.Contains(third, `"id": "third"`) || !strings.Contains(third, `"name": "The third"`) || !strings.Contains(hello, `"id": "hello"`) {
		t.Errorf("the copy is\n%s\nof\n%s", third, hello)
	}
	for _, x := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"hello"}, exitUsage, "journey copy: want the ID of a journey, and that of the new one"},
		{[]string{"hello", "again"}, exitFailed, "there is a journey"},
		{[]string{"hello", "No"}, exitFailed, "journey No: "},
		{[]string{"nothing", "new"}, exitFailed, "nothing"},
	} {
		got := sluiceRun(t, dir, append([]string{"journey", "copy"}, x.args...)...)
		if got.code != x.code || !strings.Contains(got.stderr, x.says) {
			t.Errorf("copy %v: %+v, want %q", x.args, got, x.says)
		}
	}
}
