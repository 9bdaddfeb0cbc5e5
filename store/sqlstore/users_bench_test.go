package sqlstore_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice"
	"sluice/store/sqlstore"
	"sluice/user"
	"sluice/user/profile"
	"sluice/user/users"
)

// benchUsers is about how many users a transaction changes under load.
const benchUsers = 8192

// computed is how long this process and a server have computed; pid 0: there is
// no server.
func computed(b *testing.B, pid int) (own, server time.Duration) {
	b.Helper()
	var usage syscall.Rusage
	must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	own = time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	if pid == 0 {
		return own, 0
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	must(b, err)
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')'):])) // proc(5): from the state on
	for _, field := range fields[12:14] {
		ticks, err := strconv.Atoi(field)
		must(b, err)
		server += time.Duration(ticks) * time.Second / 100
	}
	return own, server
}

// benchmarkUsers reads users by their external ids and writes them again.
func benchmarkUsers(b *testing.B, s *sqlstore.Store, pid int) {
	changes := &user.Changes{Numbers: map[int]user.Numbers{0: {User: benchUsers}}}
	var query user.Query
	for i := range benchUsers {
		key := user.Key{Kind: user.KeyExternal, Name: fmt.Sprintf("user-%x", uint32(i)*0x9e3779b9)}
		id := user.ID{Partition: 0, Number: int64(i) + 1}
		text := fmt.Sprintf(`{"external_id":"%s","created":1760000000000,"active":20370,"fields":{"country":"DE","email":"user%d@example.com","first_name":"First%d","language":"de","last_name":"Last%d"},`+
			`"custom":{"city":"Hamburg","member_since":"2024-05-01T00:00:00Z","newsletter":true,"plan":"gold","score":%d.5,"tags":["a","b","c"],"visits":%d},"events":{"opened_article":[12,1760000000000,1760000100000]}}`, key.Name, i, i, i, i%89, i%977)
		changes.Put = append(changes.Put, user.Row{ID: id, UpdatedMillis: 1_760_000_000_000, Profile: text})
		changes.AddKeys = append(changes.AddKeys, user.KeyRow{Key: key, ID: id})
		query.Keys = append(query.Keys, key)
	}
	e := effectTo(1, nil)
	e.Users = changes
	must(b, apply(b.Context(), s, e))
	var times [4]time.Duration
	b.ResetTimer()
	for i := range b.N {
		own, server := computed(b, pid)
		for from := 0; from < benchUsers; from += user.MaxQuery {
			a, err := s.Users(b.Context(), user.Query{Keys: query.Keys[from:min(from+user.MaxQuery, benchUsers)]})
			must(b, err)
			if len(a.Users) == 0 {
				b.Fatal("nobody was found")
			}
		}
		own2, server2 := computed(b, pid)
		e := effectTo(uint64(i)+2, nil)
		e.Users = &user.Changes{Put: changes.Put}
		for j := range e.Users.Put {
			e.Users.Put[j].UpdatedMillis++
		}
		must(b, apply(b.Context(), s, e))
		own3, server3 := computed(b, pid)
		for j, d := range [...]time.Duration{own2 - own, server2 - server, own3 - own2, server3 - server2} {
			times[j] += d
		}
	}
	for j, unit := range [...]string{"read-µs", "read-server-µs", "write-µs", "write-server-µs"} {
		if pid > 0 || j%2 == 0 {
			b.ReportMetric(float64(times[j].Nanoseconds())/1000/float64(b.N*benchUsers), unit)
		}
	}
}

func BenchmarkMariaDBUsers(b *testing.B) { benchmarkUsers(b, mariadbStore(b), mariadb.Pid()) }

func BenchmarkSQLiteUsers(b *testing.B) {
	s, _ := sqliteStore(b)
	benchmarkUsers(b, s, 0)
}

// newUsers are the updates that make so many users after some others, in so many
// partitions, as an import has them.
func newUsers(b *testing.B, after, many int) []users.Update {
	b.Helper()
	all := make([]users.Update, 0, many)
	for i := after; i < after+many; i++ {
		r := uint64(i+1) * 0x9e3779b97f4a7c15
		r ^= r >> 29
		r *= 0xbf58476d1ce4e5b9
		body, err := profile.Check(fmt.Sprintf(`{"email":"first.%x@example.com","first_name":"First","last_name":"Last%d","country":"AT","language":"de","time_zone":"Europe/Vienna",`+
			`"email_subscribe":"opted_in","plan":"gold","score":%d.5,"visits":%d,"paying":true,"tags":["t%d","t%d"],"signed_up":"2026-05-01"}`, uint32(r>>32), i%1000, i%100, i%1000, i%20, 20+i%20))
		must(b, err)
		key := user.Key{Kind: user.KeyExternal, Name: fmt.Sprintf("%x", r)}
		place := sluice.Place{Partition: key.Partition(16), Position: sluice.Position{Major: uint64(i)}}
		all = append(all, users.Update{Update: user.Update{Op: user.OpAttributes, Key: key, TimeMillis: 1_760_000_000_000, Body: body}, Place: place})
	}
	return all
}

// timedReader adds up what reading users costs.
type timedReader struct {
	*sqlstore.Store
	b    *testing.B
	took time.Duration
}

func (r *timedReader) Users(ctx context.Context, q user.Query) (user.Answer, error) {
	began, _ := computed(r.b, 0)
	a, err := r.Store.Users(ctx, q)
	ended, _ := computed(r.b, 0)
	r.took += ended - began
	return a, err
}

// BenchmarkSQLiteNewUsers makes new users, 16,384 a transaction, in a table
// that grows: -benchtime 40x makes 655,360.
func BenchmarkSQLiteNewUsers(b *testing.B) {
	const many = 16_384
	s, _ := sqliteStore(b)
	reader := &timedReader{Store: s, b: b}
	var times [3]time.Duration // read, change, write
	for i := range b.N {
		updates := newUsers(b, i*many, many)
		reader.took = 0
		began, _ := computed(b, 0)
		done, err := users.Apply(b.Context(), reader, nil, 16, 1_760_000_000_000, updates)
		must(b, err)
		changed, _ := computed(b, 0)
		e := effectTo(uint64(i)+1, done.Events)
		e.Users, e.Counts = done.Changes, done.Counts
		must(b, apply(b.Context(), s, e))
		written, _ := computed(b, 0)
		for j, d := range [...]time.Duration{reader.took, changed - began - reader.took, written - changed} {
			times[j] += d
		}
	}
	for j, unit := range [...]string{"read-µs", "change-µs", "write-µs"} {
		b.ReportMetric(float64(times[j].Nanoseconds())/1000/float64(b.N*many), unit)
	}
}
