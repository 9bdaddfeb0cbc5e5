package ingest_test

import (
	"strconv"
	"testing"
	"time"

	"sluice/flow"
	"sluice/user"
)

// TestUserNumbersBehindAGap: a user who comes behind an accepted gap gets no number that one
// may have had whom the database has lost: the records of journeys name that one still.
func TestUserNumbersBehindAGap(t *testing.T) {
	b := newBed(t, "sqlite")
	e := newEngine(b, setup{partitions: 1, acceptGaps: true})
	writer := flow.NewWriter(e.logs, "users", 1<<20)
	put := func(name string) {
		t.Helper()
		u := user.Update{Op: user.OpAttributes, Key: user.Key{Kind: user.KeyExternal, Name: name}, Body: `{"plan":"gold"}`, TimeMillis: time.Now().UnixMilli()}
		b.must(writer.Write(b.Context(), flow.Part{Items: user.AppendUpdate(nil, &u), Count: 1}))
	}
	put("lost")
	put("lost too")
	put("kept")
	at, err := e.logs[0].Last(b.Context())
	b.must(err)
	b.do("XTRIM", b.logKey(0), "MINID", at.String())
	e.run()
	b.eventually("who comes behind the gap is there", func() bool { return b.count("users") == 1 })
	if n, err := strconv.Atoi(b.query("SELECT number FROM users")[0]); err != nil || n <= user.NumberJump {
		t.Errorf("the number is %d, %v: it may be one that was given before", n, err)
	}
	e.stop()
}
