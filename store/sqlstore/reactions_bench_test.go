package sqlstore_test

import (
	"fmt"
	"testing"
	"time"

	"sluice"
	"sluice/mail"
	"sluice/store"
	"sluice/store/sqlstore"
)

// benchmarkReactions stores 20,000 events about as many mails that were sent: as events
// alone, as opens and as reports of delivery. They take turns on one database, so that
// the machine's load is the same for all.
func benchmarkReactions(b *testing.B, open func(b *testing.B) *sqlstore.Store) {
	s := open(b)
	step, mails := uint64(0), 0
	write := func(e store.Effect) time.Duration {
		step++
		e.Moves = effectTo(step, nil).Moves
		began := time.Now()
		must(b, apply(b.Context(), s, &e))
		return time.Since(began)
	}
	kinds := []mail.ReactionKind{0, mail.ReactionOpened, mail.ReactionDelivered}
	took := make([]time.Duration, len(kinds))
	b.ResetTimer()
	for n := range b.N * len(kinds) {
		accepted, sent := benchSends(mails)
		mails += effectRows
		write(accepted)
		write(sent)
		kind := kinds[n%len(kinds)]
		var e store.Effect
		for i := range sent.Outcomes {
			o := &sent.Outcomes[i]
			place := sluice.Place{Partition: o.Place.Partition, Position: sluice.Position{Major: o.Place.Position.Major + 1, Minor: o.Place.Position.Minor}, Index: o.Place.Index}
			at := o.TimeMillis + 60_000
			e.Events = append(e.Events, store.StoredEvent{Place: place, Event: sluice.Event{
				Kind: sluice.KindMail, Name: sluice.EventOpened, TimeMillis: at, ID: fmt.Sprintf("ld-%d-process-%d", place.Partition, mails+i), Message: o.Message, Email: o.To,
				Properties: `{"send":"` + o.Message + `.0","machine":false,"ip":"198.51.100.7","user_agent":"Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"}`,
			}})
			if kind != 0 {
				e.Reactions = append(e.Reactions, mail.Reaction{SendKey: mail.SendKey{Message: o.Message}, Kind: kind, Own: kind == mail.ReactionOpened, TimeMillis: at, Place: place})
			}
		}
		took[n%len(kinds)] += write(e)
	}
	for i, unit := range []string{"events", "opens", "deliveries"} {
		b.ReportMetric(float64(b.N*effectRows)/took[i].Seconds(), unit+"/s")
	}
}

func BenchmarkMariaDBReactions(b *testing.B) { benchmarkReactions(b, mariadbStore) }

func BenchmarkPostgresReactions(b *testing.B) {
	benchmarkReactions(b, func(b *testing.B) *sqlstore.Store {
		s, _ := postgresStore(b)
		return s
	})
}

func BenchmarkSQLiteReactions(b *testing.B) {
	benchmarkReactions(b, func(b *testing.B) *sqlstore.Store {
		s, _ := sqliteStore(b)
		return s
	})
}
