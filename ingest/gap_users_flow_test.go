package ingest_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice/flow"
	"sluice/user"
)

// TestUserNumbersBehindAGap: a user who comes behind an accepted gap gets no number that one
// may have had whom the database has lost: the records of journeys name that one still, also
// where more users were lost than the jump is.
func TestUserNumbersBehindAGap(t *testing.T) {
	t.Run("no journeys", func(t *testing.T) { numbersBehindAGap(t, 0, user.NumberJump) })
	t.Run("many records", func(t *testing.T) { numbersBehindAGap(t, 200, 200*flow.ChunkRecords) })
}

func numbersBehindAGap(t *testing.T, chunks int, above int64) {
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
	if chunks > 0 {
		b.do("HSET", strings.TrimSuffix(b.logKey(0), "log")+"journeys", "7", strconv.Itoa(chunks))
	}
	e.run()
	b.eventually("who comes behind the gap is there", func() bool { return b.count("users") == 1 })
	if n, err := strconv.ParseInt(b.query("SELECT number FROM users")[0], 10, 64); err != nil || n <= above {
		t.Errorf("the number is %d, %v, and not above %d: it may be one that was given before", n, err, above)
	}
	e.stop()
}
