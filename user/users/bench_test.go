package users

import (
	"context"
	"fmt"
	"testing"

	"sluice"
	"sluice/journey"
	"sluice/user"
)

// benchReader answers with what it has, as a database without a delay.
type benchReader struct{ all user.Answer }

func (r benchReader) Users(_ context.Context, q user.Query) (user.Answer, error) {
	a := user.Answer{ByKey: make(map[user.Key][]user.ID, len(q.Keys)), Users: make(map[user.ID]user.Row, len(q.Keys)), Numbers: map[int]user.Numbers{}}
	for _, k := range q.Keys {
		if ids, ok := r.all.ByKey[k]; ok {
			a.ByKey[k] = ids
			a.Users[ids[0]] = r.all.Users[ids[0]]
		}
	}
	for _, p := range q.Numbers {
		a.Numbers[p] = r.all.Numbers[p]
	}
	return a, nil
}

func (r benchReader) Stored(context.Context, []sluice.EventKey) (map[sluice.EventKey]bool, error) {
	return nil, nil
}

// benchPeople are so many users with profiles of some 350 bytes.
func benchPeople(many int) benchReader {
	r := benchReader{user.Answer{ByKey: make(map[user.Key][]user.ID), Users: make(map[user.ID]user.Row), Numbers: map[int]user.Numbers{0: {User: int64(many)}}}}
	for i := range many {
		id, key := user.ID{Number: int64(i) + 1}, external(fmt.Sprint("user-", i))
		r.all.ByKey[key] = []user.ID{id}
		r.all.Users[id] = user.Row{ID: id, Profile: fmt.Sprintf(`{"external_id":"user-%d","created":1760000000000,"active":20370,"fields":{"country":"DE","email":"user%d@example.com","first_name":"First","language":"de"},`+
			`"custom":{"city":"Hamburg","member_since":"2024-05-01T00:00:00Z","newsletter":true,"plan":"gold","score":%d.5,"tags":["a","b","c"],"visits":%d},"events":{"opened_article":[12,1760000000000,1760000100000]}}`, i, i, i%89, i)}
	}
	return r
}

// benchUpdates are events of those users, of seven names in turn, and every eighth
// update is one of attributes.
func benchUpdates(many, people int) []Update {
	all := make([]Update, many)
	for i := range all {
		up := user.Update{Op: user.OpSeen, Key: external(fmt.Sprint("user-", i*7%people)), TimeMillis: 1_760_000_200_000 + int64(i), Name: fmt.Sprint("event-", i%7), Body: `{"items":3,"total":9.5}`}
		if i%8 == 7 {
			up.Op, up.Body = user.OpAttributes, fmt.Sprintf(`{"visits":%d,"plan":"%s"}`, i, []string{"gold", "free"}[i/8%2])
		}
		all[i] = Update{Update: up, Place: sluice.Place{Position: sluice.Position{Major: uint64(i/100) + 1}, Index: i % 100}}
	}
	return all
}

// BenchmarkApply is what a transaction of events and attributes costs beside the
// database: without journeys, and where journeys ask for two of seven names of events
// and for an attribute.
func BenchmarkApply(b *testing.B) {
	const many, people = 16_384, 4096
	reader, updates := benchPeople(people), benchUpdates(many, people)
	for name, names := range map[string][]journey.Names{"none": nil, "two of seven": {{Events: []string{"event-1", "event-4"}, Attributes: []string{"plan"}}}} {
		registered := journey.NewRegistered(1, names)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Apply(b.Context(), reader, registered, 1, 1_760_000_300_000, updates); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*many), "ns/update")
		})
	}
}
