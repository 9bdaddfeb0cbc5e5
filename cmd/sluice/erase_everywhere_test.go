package main

import (
	"bytes"
	"database/sql"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A deleted user is nowhere afterwards: not in the file of the database, its free
// pages and its log, not in Redis, not in the program's own log. That holds for mail
// in doubt too, which is not sent again, and for dead letters. The table erasures has
// the name for an hour. Applied entries stay in the logs of Redis for a while, and in
// its append-only file until that is rewritten. So the test ends the hour by hand, and
// leaves out logs and that file. Mail that was to leave later has left Redis when its
// row is erased; other mail of that time stays.
func TestErasedUserStandsNowhere(t *testing.T) {
	t.Parallel()
	const local = "zq7deleted"
	address := local + "@example.com"
	s, provider, sends := serveDoubts(t, nil, address, "bob@example.com")
	s.sent(t, 201, "/users/track", `{"attributes":[{"external_id":"u-`+local+`","email":"`+address+`","first_name":"`+local+`"}],"events":[{"external_id":"u-`+local+`","name":"seen","time":"2026-01-01T00:00:00Z","properties":{"who":"`+address+`"}}]}`)
	large := strings.Repeat("many words to "+address+" ", 2000)
	later := s.mails(t, "marketing", address, `,"subject":"s","send_at":"2027-06-01T00:00:00Z","text":"`+large+`"`)
	s.mails(t, "marketing", "carl@example.com", `,"subject":"s","send_at":"2027-06-01T00:00:00Z","text":"x"`)
	s.accepted(t, 1, `{"event":"opened","email":"`+address+`","who":"`+local+`"}`)
	s.begin(t, `{"event":"e","time":"`+address+`"}`, `"kind":"events"`).all(t, 64<<10) // its one line is refused
	await(t, "all is stored", func() bool {
		return len(s.texts(t, "SELECT part FROM user_addresses")) == 1 && len(s.texts(t, "SELECT name FROM events WHERE name IN ('opened', 'seen')")) == 2 && len(s.texts(t, "SELECT message FROM bodies")) > 0
	})
	s.sent(t, 201, "/users/delete", `{"external_ids":["u-`+local+`"]}`)
	s.became(t, later, "cancelled")
	await(t, "mail in doubt of the deleted user is given up, and no send has the user", func() bool {
		return strings.Join(s.texts(t, "SELECT to_address || ' ' || state FROM sends ORDER BY state"), "; ") == " cancelled;  failed; bob@example.com in_doubt; carl@example.com waiting"
	})
	// At once, not when a restart compares lanes and ledger.
	if found := s.redisWith(t, local); slices.ContainsFunc(found, func(key string) bool { return strings.Contains(key, ":later:") }) {
		t.Errorf("the erased user stands in what waits for a time: %q", found)
	}
	if status, text := s.ask(t, http.MethodPost, "/v1/ledger/doubts/"+sends[address], `{"decision":"again"}`); status != http.StatusConflict {
		t.Errorf("it is sent again: %d %s", status, text)
	}
	dir, logs := s.dir, s.log.String()
	environ := "SLUICE_ROOT_KEY=" + testRoot
	restart := func() {
		t.Helper()
		if code := s.stop(t); code != 0 {
			t.Fatalf("ended with %d", code)
		}
		logs += s.log.String()
	}
	restart()
	s = serveConfigured(t, dir, environ) // a new holder passes all names at once
	await(t, "the user is in no event", func() bool {
		return len(s.texts(t, "SELECT email FROM events WHERE email LIKE '%"+local+"%' OR user_ref LIKE '%"+local+"%'")) == 0
	})
	restart()
	db, err := sql.Open("sqlite", "file:"+s.database())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), "UPDATE erasures SET created = created - 3700000"); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	s = serveConfigured(t, dir, environ)
	await(t, "the name of the deleted user is forgotten", func() bool { return len(s.texts(t, "SELECT name FROM erasures")) == 0 })
	await(t, "the user is in no file", func() bool { return len(filesWith(t, filepath.Dir(s.database()), local)) == 0 })
	if found := s.redisWith(t, local); len(found) != 0 {
		t.Errorf("the deleted user is in Redis: %q", found)
	}
	if found := s.redisWith(t, "carl@"); !slices.ContainsFunc(found, func(key string) bool { return strings.Contains(key, ":later:") }) {
		t.Errorf("mail to somebody else that leaves at the same time stands in %q", found)
	}
	restart()
	if strings.Contains(logs, local) {
		t.Errorf("the deleted user is in the program's log:\n%s", logs)
	}
	if n := provider.times(address); n != 1 {
		t.Errorf("the deleted user was mailed %d times", n)
	}
}

// filesWith returns which files of a data directory have a text, but those of Redis.
func filesWith(t *testing.T, dir, text string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == "appendonlydir":
			return fs.SkipDir
		case !d.Type().IsRegular():
			return nil
		}
		content, err := os.ReadFile(path)
		if bytes.Contains(content, []byte(text)) {
			names = append(names, d.Name())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// redisWith returns which keys of Redis have a text, but those of logs.
func (s *served) redisWith(t *testing.T, text string) (found []string) {
	t.Helper()
	c := s.redis(t)
	do := func(words ...string) string {
		t.Helper()
		answer, err := c.Do(t.Context(), c.B().Arbitrary(words...).Build()).ToAny()
		if err != nil {
			t.Fatalf("%s: %v", words, err)
		}
		return fmt.Sprint(answer)
	}
	keys, err := c.Do(t.Context(), c.B().Keys().Pattern("*").Build()).AsStrSlice()
	if err != nil || len(keys) < 10 {
		t.Fatalf("%d keys, %v", len(keys), err)
	}
	for _, key := range keys {
		if strings.HasSuffix(key, ":log") {
			continue
		}
		content := ""
		switch kind := do("TYPE", key); kind {
		case "string":
			content = do("GET", key)
		case "hash":
			content = do("HGETALL", key)
		case "set":
			content = do("SMEMBERS", key)
		case "zset":
			content = do("ZRANGE", key, "0", "-1")
		case "list":
			content = do("LRANGE", key, "0", "-1")
		case "stream":
			content = do("XRANGE", key, "-", "+")
		case "none": // it has just gone
		default:
			t.Fatalf("%s is a %s, which this test cannot read", key, kind)
		}
		if strings.Contains(key+content, text) {
			found = append(found, key)
		}
	}
	return found
}
