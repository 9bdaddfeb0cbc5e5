package sqlstore_test

import (
	"fmt"
	"testing"

	"sluice"
	"sluice/journey"
	"sluice/mail"
	"sluice/store"
	"sluice/store/sqlstore"
	"sluice/user"
)

// Of the mail of benchPeople people, each of whom has benchMails in a ledger of
// benchLedger sends.
const (
	benchPeople = 10_000
	benchMails  = 20
	benchLedger = 50_000 * benchMails
)

// benchmarkHistory asks about the mail of 10,000 people, 512 at a time.
func benchmarkHistory(b *testing.B, open func(b *testing.B) *sqlstore.Store) {
	s := open(b)
	const now = int64(1_760_000_000_000)
	step := uint64(0)
	people := &user.Changes{}
	for n := range benchLedger / benchMails {
		people.Put = append(people.Put, user.Row{ID: user.ID{Number: int64(n) + 1}, Profile: "{}"})
	}
	write := func(e store.Effect) {
		step++
		e.Moves = effectTo(step, nil).Moves
		must(b, apply(b.Context(), s, &e))
	}
	write(store.Effect{Users: people})
	const piece = 25_000
	for from := 0; from < benchLedger; from += piece {
		var e store.Effect
		for n := from; n < from+piece; n++ {
			at := now + int64(n) // everybody in turn: a person's sends lie apart
			send := mail.Send{
				Message: fmt.Sprintf("%012x%020x", at, uint64(n)*0x9e3779b97f4a7c15), Recipients: 1, Priority: mail.PriorityNormal, Class: mail.ClassMarketing, AcceptedMillis: at,
				From: "bounce@news.example.com", To: fmt.Sprintf("somebody.%d@example.com", n), User: user.ID{Number: int64(n%(benchLedger/benchMails)) + 1}.String(), Tags: "spring,offer",
				Journey: "welcome", Step: fmt.Sprint("step-", n/(benchLedger/benchMails)), Metadata: `{"campaign":"spring-2026","variant":"b"}`,
			}
			place := sluice.Place{Position: sluice.Position{Major: uint64(now), Minor: uint64(n / 1000)}, Index: n % 1000}
			e.Sends = append(e.Sends, mail.StoredSend{Send: send, Place: place})
			e.Outcomes = append(e.Outcomes, mail.StoredOutcome{Place: place, Outcome: mail.Outcome{
				Message: send.Message, Recipients: 1, Was: mail.SendWaiting, State: mail.SendSent, TimeMillis: at + 800, Attempts: 1, Route: "relay", Remote: "mx.example.com", Code: 250, Reply: "2.0.0 OK queued as 4ZQxyz12345", To: send.To,
			}})
			if n%3 == 0 {
				e.Reactions = append(e.Reactions, mail.Reaction{SendKey: send.Key(), Kind: mail.ReactionOpened, TimeMillis: at + 60_000, Place: place})
			}
		}
		write(e)
	}
	groups := func(b *testing.B, f func(numbers []int64, ids []user.ID) error) {
		for b.Loop() {
			for from := 1; from <= benchPeople; from += store.MaxMailPeople {
				var numbers []int64
				var ids []user.ID
				for n := from; n < min(from+store.MaxMailPeople, benchPeople+1); n++ {
					numbers, ids = append(numbers, int64(n)), append(ids, user.ID{Number: int64(n)})
				}
				must(b, f(numbers, ids))
			}
		}
		b.ReportMetric(float64(b.N*benchPeople)/b.Elapsed().Seconds(), "people/s")
	}
	asked := []store.MailAsked{
		{Event: journey.MailOpened, Of: journey.MailOf{Journey: "welcome", Step: "step-7"}},
		{Event: journey.MailReceived, Of: journey.MailOf{Tag: "spring"}, SinceMillis: now}, {Event: journey.MailClicked}, {Event: journey.MailOpened, Of: journey.MailOf{Journey: "welcome", Step: "step-9"}, SinceMillis: now},
	}
	for _, n := range []int{1, 4} {
		b.Run(fmt.Sprintf("%d conditions", n), func(b *testing.B) {
			groups(b, func(_ []int64, ids []user.ID) error { _, err := s.MailKnown(b.Context(), ids, asked[:n]); return err })
		})
	}
	for _, recent := range []int{benchMails, 3} { // sends of each person that are in the window
		b.Run(fmt.Sprintf("a cap, %d of %d sends", recent, benchMails), func(b *testing.B) {
			since := now + int64(benchLedger/benchMails*(benchMails-recent))
			groups(b, func(numbers []int64, _ []user.ID) error {
				_, _, err := s.MailCounts(b.Context(), "store", 0, numbers, []store.MailCounted{{SinceMillis: since, Class: mail.ClassMarketing}})
				return err
			})
		})
	}
}

func BenchmarkMariaDBHistory(b *testing.B) { benchmarkHistory(b, mariadbStore) }

func BenchmarkPostgresHistory(b *testing.B) {
	benchmarkHistory(b, func(b *testing.B) *sqlstore.Store {
		s, _ := postgresStore(b)
		return s
	})
}

func BenchmarkSQLiteHistory(b *testing.B) {
	benchmarkHistory(b, func(b *testing.B) *sqlstore.Store {
		s, _ := sqliteStore(b)
		return s
	})
}
