package sqlstore_test

import (
	"fmt"
	"testing"

	"sluice"
	"sluice/mail"
	"sluice/store"
	"sluice/store/sqlstore"
)

// benchSends makes sends, each with its mail event, and what becomes of them.
func benchSends(from int) (accepted, sent store.Effect) {
	const now = int64(1_760_000_000_000)
	for i := range effectRows {
		n := from + i
		place := sluice.Place{Partition: n % 16, Position: sluice.Position{Major: uint64(now), Minor: uint64(n / 1000)}, Index: n % 1000}
		at := now + int64(n/20)
		s := mail.Send{
			Message: fmt.Sprintf("%012x%020x", at, uint64(n)*0x9e3779b97f4a7c15), Recipients: 1, Priority: mail.PriorityNormal, Class: mail.ClassMarketing,
			AcceptedMillis: at, From: "bounce@news.example.com", To: fmt.Sprintf("somebody.%d@example.com", n), User: fmt.Sprint("user-", n), App: "newsletter",
			Tags: "spring,offer", Metadata: `{"campaign":"spring-2026","variant":"b"}`,
		}
		event := sluice.Event{
			Kind: sluice.KindMail, TimeMillis: at, ID: s.ID() + ".0.queued", Name: sluice.EventQueued, App: s.App, Email: s.To, User: s.User, Message: s.Message,
			Properties: `{"send":"` + s.ID() + `","attempt":0,"tags":["spring","offer"],"metadata":{"campaign":"spring-2026","variant":"b"}}`,
		}
		accepted.Sends = append(accepted.Sends, mail.StoredSend{Send: s, Place: place})
		accepted.Events = append(accepted.Events, store.StoredEvent{Event: event, Place: place})
		o := mail.Outcome{
			Message: s.Message, Recipients: 1, Was: mail.SendWaiting, State: mail.SendSent, Event: sluice.EventSent, TimeMillis: at + 800, Attempts: 1,
			Route: "relay", Remote: "mx.example.com", Code: 250, Reply: "2.0.0 OK queued as 4ZQxyz12345", To: s.To, User: s.User, App: s.App,
		}
		place.Position.Major++
		event.TimeMillis, event.ID, event.Name = o.TimeMillis, s.ID()+".1.sent", sluice.EventSent
		sent.Outcomes = append(sent.Outcomes, mail.StoredOutcome{Outcome: o, Place: place})
		sent.Events = append(sent.Events, store.StoredEvent{Event: event, Place: place})
	}
	return accepted, sent
}

// benchmarkSends applies 20,000 sends and what becomes of them: in two
// transactions, as when mail waits, or in one, as when it leaves at once.
func benchmarkSends(b *testing.B, open func(b *testing.B) *sqlstore.Store) {
	run := func(name string, effects func(accepted, sent store.Effect) []store.Effect) {
		b.Run(name, func(b *testing.B) {
			s := open(b)
			step := uint64(0)
			b.ResetTimer()
			for i := range b.N {
				b.StopTimer()
				list := effects(benchSends(i * effectRows))
				b.StartTimer()
				for _, e := range list {
					step++
					e.Moves = effectTo(step, nil).Moves
					must(b, apply(b.Context(), s, &e))
				}
			}
			b.ReportMetric(float64(b.N*effectRows)/b.Elapsed().Seconds(), "sends/s")
		})
	}
	run("apart", func(accepted, sent store.Effect) []store.Effect { return []store.Effect{accepted, sent} })
	run("together", func(accepted, sent store.Effect) []store.Effect {
		accepted.Outcomes, accepted.Events = sent.Outcomes, append(accepted.Events, sent.Events...)
		return []store.Effect{accepted}
	})
	run("without the ledger", func(accepted, sent store.Effect) []store.Effect {
		accepted.Sends, sent.Outcomes = nil, nil
		return []store.Effect{accepted, sent}
	})
}

func BenchmarkMariaDBSends(b *testing.B) { benchmarkSends(b, mariadbStore) }

func BenchmarkPostgresSends(b *testing.B) {
	benchmarkSends(b, func(b *testing.B) *sqlstore.Store {
		s, _ := postgresStore(b)
		return s
	})
}

func BenchmarkSQLiteSends(b *testing.B) {
	benchmarkSends(b, func(b *testing.B) *sqlstore.Store {
		s, _ := sqliteStore(b)
		return s
	})
}

// benchmarkBodies stores 64 bodies of 10 KB, accepts their sends and ends them.
func benchmarkBodies(b *testing.B, s *sqlstore.Store) {
	const bodies = 64
	data := make([]byte, 10<<10)
	for i := range data {
		data[i] = byte('a' + i%26)
	}
	var storing, ending float64
	b.ResetTimer()
	for i := range b.N {
		var list []mail.Body
		var accepted, sent store.Effect
		for n := range bodies {
			message := fmt.Sprintf("%012x%020x", 1_760_000_000_000+i, n)
			list = append(list, mail.Body{Message: message, Recipients: 1, CreatedMillis: 1_760_000_000_000, Data: data})
			accepted.Sends = append(accepted.Sends, mail.StoredSend{Send: mail.Send{Message: message, Priority: mail.PriorityHigh, Class: mail.ClassTransactional}})
			sent.Outcomes = append(sent.Outcomes, mail.StoredOutcome{Outcome: mail.Outcome{
				Message: message, Recipients: 1, Was: mail.SendWaiting, State: mail.SendSent, Attempts: 1, HasBody: true,
			}})
		}
		accepted.Moves, sent.Moves = effectTo(uint64(2*i+1), nil).Moves, effectTo(uint64(2*i+2), nil).Moves
		before := b.Elapsed().Seconds()
		must(b, s.AddBodies(b.Context(), list))
		stored := b.Elapsed().Seconds()
		must(b, apply(b.Context(), s, &accepted))
		between := b.Elapsed().Seconds()
		must(b, apply(b.Context(), s, &sent))
		storing, ending = storing+stored-before, ending+b.Elapsed().Seconds()-between
	}
	b.ReportMetric(float64(b.N*bodies)/storing, "stored/s")
	b.ReportMetric(float64(b.N*bodies)/ending, "ended/s")
}

func BenchmarkMariaDBBodies(b *testing.B) { benchmarkBodies(b, mariadbStore(b)) }

func BenchmarkPostgresBodies(b *testing.B) {
	s, _ := postgresStore(b)
	benchmarkBodies(b, s)
}

func BenchmarkSQLiteBodies(b *testing.B) {
	s, _ := sqliteStore(b)
	benchmarkBodies(b, s)
}
