package engine_test

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/config"
	"sluice/engine"
	"sluice/mail"
	"sluice/test/servers"
	"sluice/track/link"
	"sluice/user"
)

const (
	linkSecret = "a-secret-of-links-0123456789abcdef"
	personsUA  = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
)

// tracked is an engine that takes in opens and clicks, and its database.
type tracked struct {
	*engine.Engine
	keys *link.Keys
	path string
	data string
}

func openTracked(t *testing.T, redis string) *tracked {
	t.Helper()
	keys, err := link.NewKeys("https://t.example.com", []byte(linkSecret))
	if err != nil {
		t.Fatal(err)
	}
	x := &tracked{keys: keys, path: filepath.Join(t.TempDir(), "sluice.db")}
	x.Engine = open(t, redis, "sqlite:"+x.path, 4, func(c *config.Config) {
		c.Track.URL, c.Track.Listen, c.Secret = "https://t.example.com", "127.0.0.1:0", linkSecret
		x.data = c.Data
	})
	return x
}

// texts returns the first column of a query.
func (x *tracked) texts(t *testing.T, query string) (all []string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+x.path+"?_pragma=busy_timeout(20000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var text sql.NullString
		if err := rows.Scan(&text); err != nil {
			t.Fatal(err)
		}
		all = append(all, text.String)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// visit asks the listener for a link of a mail.
func (x *tracked) visit(t *testing.T, method, url, agent, body string) (status int, location string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, strings.Replace(url, x.keys.Base(), "http://"+x.LandingAddress(), 1), strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("User-Agent", agent)
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	res, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		t.Error(err)
	}
	return res.StatusCode, res.Header.Get("Location")
}

// sent mails people, and returns the rows of the sends.
func (x *tracked) sent(t *testing.T, people int) []mail.SendRow {
	t.Helper()
	db := databaseOf(t, "sqlite:"+x.path)
	var names []string
	for n := range people {
		names = append(names, fmt.Sprintf(`{"external_id":"p%d","email":"p%d@example.com"}`, n, n))
	}
	track(t, x.Engine, `{"attributes":[`+strings.Join(names, ",")+`]}`)
	await(t, "the people are there", func() bool {
		return len(x.texts(t, "SELECT name FROM user_keys WHERE name LIKE 'p%'")) >= people
	})
	var messages []string
	for n := range people {
		messages = append(messages, fmt.Sprintf(`{"from":"us@example.org","to":[{"email":"p%d@example.com","user_id":"p%d"}],"subject":"News","text":"Hello","class":"marketing"}`, n, n))
	}
	call(t, x.Engine, "/v1/messages", `[`+strings.Join(messages, ",")+`]`)
	var rows []mail.SendRow
	await(t, "all mails have left", func() bool {
		rows = rows[:0]
		for n := range people {
			for _, row := range sendsOf(t, db, fmt.Sprint("p", n)) {
				if row.State == mail.SendSent {
					rows = append(rows, row)
				}
			}
		}
		return len(rows) == people
	})
	return rows
}

func placeOf(row *mail.SendRow, number int) link.Place {
	return link.Place{Partition: row.Partition, Message: row.Message, Send: row.Number, Link: number}
}

func (x *tracked) url(t *testing.T, text string, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestOpensClicksAndUnsubscribes: a mail is opened, its link is clicked, and the
// recipient unsubscribes by one click. The database shows it.
func TestOpensClicksAndUnsubscribes(t *testing.T) {
	x := openTracked(t, "embedded")
	row := x.sent(t, 1)[0]
	await(t, "a person can have read it", func() bool { return time.Now().UnixMilli() > row.UpdatedMillis+2000 })
	pixel, err := x.keys.Pixel(placeOf(&row, 0))
	pixel = x.url(t, pixel, err)
	click, err := x.keys.Click(placeOf(&row, 1), "https://shop.example/?a=1&b=2")
	click = x.url(t, click, err)
	page, err := x.keys.Page(link.KindUnsubscribe, placeOf(&row, 0), link.Subject{Address: "p0@example.com"})
	page = x.url(t, page, err)
	for _, v := range []struct {
		method, url, agent, body string
		status                   int
		location                 string
	}{
		{"GET", pixel, "Mozilla/5.0", "", 200, ""},
		{"GET", pixel, personsUA, "", 200, ""},
		{"GET", click, personsUA, "", 302, "https://shop.example/?a=1&b=2"},
		{"GET", page, personsUA, "", 200, ""},
		{"GET", page[:len(page)-4] + "AAAA", personsUA, "", 404, ""},
		{"PUT", page, personsUA, "", 405, ""},
	} {
		if status, location := x.visit(t, v.method, v.url, v.agent, v.body); status != v.status || location != v.location {
			t.Errorf("%s %.60s: %d %s, want %d %s", v.method, v.url, status, location, v.status, v.location)
		}
	}
	await(t, "three events are stored", func() bool {
		return len(x.texts(t, "SELECT name FROM events WHERE name IN ('opened', 'clicked')")) == 3
	})
	if got := x.texts(t, "SELECT entry FROM suppressions"); len(got) != 0 {
		t.Errorf("a GET has unsubscribed %v", got)
	}
	if status, _ := x.visit(t, "POST", page, "Mailbox", "List-Unsubscribe=One-Click"); status != 200 {
		t.Errorf("one click is answered %d", status)
	}
	await(t, "the address is suppressed", func() bool {
		return strings.Join(x.texts(t, "SELECT entry || ' ' || reason FROM suppressions"), ",") == "p0@example.com unsubscribe"
	})
	for query, want := range map[string]string{
		"SELECT COUNT(*) FROM events WHERE name = 'opened' AND json_extract(properties, '$.machine') = 1 AND json_extract(properties, '$.reason') = 'apple_privacy'": "1",
		"SELECT COUNT(*) FROM events WHERE name = 'opened' AND json_extract(properties, '$.machine') = 0 AND json_extract(properties, '$.ip') = '127.0.0.1'":         "1",
		"SELECT json_extract(properties, '$.url') FROM events WHERE name = 'clicked' AND json_extract(properties, '$.link') = 1":                                     "https://shop.example/?a=1&b=2",
		"SELECT COUNT(*) FROM sends WHERE first_open < first_human_open AND first_click = first_human_click":                                                         "1",
		"SELECT SUM(count) || ' ' || SUM(firsts) || ' ' || SUM(human_firsts) FROM reactions WHERE kind = 'opened'":                                                   "2 1 1",
		"SELECT link || ' ' || machine || ' ' || count FROM reactions WHERE kind = 'clicked'":                                                                        "1 0 1",
		"SELECT kind || ' ' || count FROM reactions WHERE kind IN ('sent', 'unsubscribed') ORDER BY kind":                                                            "sent 1,unsubscribed 1",
		"SELECT COUNT(*) FROM events WHERE name = 'unsubscribed' AND email = 'p0@example.com'":                                                                       "1",
		"SELECT json_extract(profile, '$.fields.email_subscribe') FROM users WHERE profile LIKE '%p0@example.com%'":                                                  "unsubscribed",
	} {
		await(t, query, func() bool { return strings.Join(x.texts(t, query), ",") == want })
	}
	if _, found := idOf(t, databaseOf(t, "sqlite:"+x.path), user.Key{Kind: user.KeyExternal, Name: "p0"}); !found {
		t.Error("the user is gone")
	}
}

// TestRedisAwayWhileMailsAreOpened: Redis stops answering, is killed, and comes back.
// Every visitor is answered, and every open is stored once.
func TestRedisAwayWhileMailsAreOpened(t *testing.T) {
	redis, err := servers.StartRedis(t.Context(), servers.RedisOptions{Dir: filepath.Join(t.TempDir(), "redis"), AppendFsync: "always"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = redis.Stop(context.Background()) })
	x := openTracked(t, redis.URL())
	rows := x.sent(t, 4)
	var answered atomic.Int64
	opens := func(n int) {
		var all sync.WaitGroup
		for each := range n {
			pixel, err := x.keys.Pixel(placeOf(&rows[each%len(rows)], 0))
			if err != nil {
				t.Fatal(err)
			}
			all.Go(func() {
				if status, _ := x.visit(t, "GET", pixel, personsUA, ""); status == 200 {
					answered.Add(1)
				} else {
					t.Errorf("answered %d", status)
				}
			})
		}
		all.Wait()
	}
	opens(100)
	if err := redis.Pause(); err != nil {
		t.Fatal(err)
	}
	opens(100) // each append is of unknown fate
	if err := redis.Continue(); err != nil {
		t.Fatal(err)
	}
	opens(100)
	if err := redis.Kill(); err != nil {
		t.Fatal(err)
	}
	opens(100)
	if err := redis.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	opens(100)
	stats := x.Stats().Landing
	if answered.Load() != 500 || stats.Opens != 500 || stats.Spilled < 100 || stats.Lost != 0 {
		t.Errorf("%d answered, %+v", answered.Load(), stats)
	}
	count := func(query string) string { return x.texts(t, query)[0] }
	await(t, "all opens are stored", func() bool { return count("SELECT COUNT(*) >= 500 FROM events WHERE name = 'opened'") == "1" })
	await(t, "no file is left", func() bool {
		left, err := filepath.Glob(filepath.Join(x.data, "spill", "*.spill"))
		return err == nil && len(left) == 0
	})
	if n := count("SELECT COUNT(*) FROM events WHERE name = 'opened'"); n != "500" {
		t.Errorf("%s opens are stored, want 500", n)
	}
	if n := count("SELECT SUM(count) FROM series_hours WHERE name = 'opened'"); n != "500" {
		t.Errorf("%s opens are counted, want 500", n)
	}
	if n := count("SELECT SUM(count) || ' of ' || SUM(firsts) FROM reactions WHERE kind = 'opened'"); n != "500 of 4" {
		t.Errorf("%s mails are counted, want 500 of 4", n)
	}
}

// TestRedisAwayWhilePeopleUnsubscribe: Redis stops answering, is killed, and comes back.
// One click is answered all the same, and each is stored once. What would have mail come
// again is not taken meanwhile.
func TestRedisAwayWhilePeopleUnsubscribe(t *testing.T) {
	redis, err := servers.StartRedis(t.Context(), servers.RedisOptions{Dir: filepath.Join(t.TempDir(), "redis"), AppendFsync: "always"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = redis.Stop(context.Background()) })
	x := openTracked(t, redis.URL())
	rows := x.sent(t, 4)
	post := func(n int, body string, want int) {
		t.Helper()
		page, err := x.keys.Page(link.KindUnsubscribe, placeOf(&rows[n], 0), link.Subject{Address: rows[n].To})
		if status, _ := x.visit(t, "POST", x.url(t, page, err), personsUA, body); status != want {
			t.Errorf("%s of %s is answered %d, want %d", body, rows[n].To, status, want)
		}
	}
	const oneClick = "List-Unsubscribe=One-Click"
	post(0, oneClick, 200)
	if err := redis.Pause(); err != nil {
		t.Fatal(err)
	}
	post(1, oneClick, 200) // its append is of unknown fate
	post(2, oneClick, 200)
	post(3, "do=save&on=mail", 503)
	if err := redis.Continue(); err != nil {
		t.Fatal(err)
	}
	if err := redis.Kill(); err != nil {
		t.Fatal(err)
	}
	post(3, oneClick, 200)
	if err := redis.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if stats := x.Stats().Landing; stats.Spilled < 2 || stats.Lost != 0 {
		t.Errorf("%+v", stats)
	}
	await(t, "all are suppressed", func() bool {
		return len(x.texts(t, "SELECT entry FROM suppressions WHERE reason = 'unsubscribe' AND removed = 0")) == 4
	})
	await(t, "no file is left", func() bool {
		left, err := filepath.Glob(filepath.Join(x.data, "spill", "*.spill"))
		return err == nil && len(left) == 0
	})
	await(t, "the profiles say so", func() bool {
		return len(x.texts(t, "SELECT number FROM users WHERE json_extract(profile, '$.fields.email_subscribe') = 'unsubscribed'")) == 4
	})
	for query, want := range map[string]string{
		"SELECT COUNT(*) FROM events WHERE name = 'unsubscribed'":         "4",
		"SELECT SUM(count) FROM series_hours WHERE name = 'unsubscribed'": "4",
	} {
		if got := x.texts(t, query)[0]; got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
}
