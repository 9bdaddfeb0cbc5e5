package ingest_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"sluice"
	"sluice/lib/faults"
	"sluice/mail"
)

// aSend makes the send number n, with a body of its own if it has no content.
func aSend(n int, content string) mail.Send {
	return mail.Send{
		Message: fmt.Sprintf("%012x%020x", 1_760_000_000_000, n), Recipients: 1, Priority: mail.PriorityHigh, Class: mail.ClassTransactional, Form: mail.ContentMIME,
		AcceptedMillis: 1_760_000_000_000, ExpiresMillis: 1_760_000_900_000, From: "me@example.com", To: fmt.Sprintf("u%d@example.com", n), User: "u", App: "shop",
		Tags: "a,b", Metadata: `{"order": 7}`, Content: content,
	}
}

func anOutcome(s *mail.Send, was, state mail.SendState, event string, attempt int) mail.Outcome {
	return mail.Outcome{
		Message: s.Message, Number: s.Number, Recipients: 1, Was: was, State: state, Event: event, TimeMillis: s.AcceptedMillis + int64(attempt)*1000,
		Attempts: attempt, Route: "relay", Code: 250, Reply: "2.0.0 <ok>", To: s.To, User: s.User, App: s.App, Tags: s.Tags, Metadata: s.Metadata, HasBody: s.Content == "",
	}
}

// A send and its outcomes become a row and mail events; a cancel is not the
// store's; what cannot be read is kept.
func TestStoreSends(t *testing.T) {
	onEach(t, func(b *bed) {
		s := aSend(1, "Subject: x\r\n\r\nx")
		odd := aSend(2, "x")
		odd.Metadata, odd.Tags = "none", ""
		odd.User = strings.Repeat("u", sluice.MaxReferenceBytes+1) // as an older program took it
		deferred, doubt := anOutcome(&s, mail.SendWaiting, mail.SendWaiting, sluice.EventDeferred, 1), anOutcome(&s, mail.SendWaiting, mail.SendInDoubt, "", 2)
		deferred.DueMillis, deferred.Reason = 1_760_000_060_000, "slow"
		broken := sluice.AppendItem(nil, sluice.ItemOutcome, func(x []byte) []byte { return append(x, 1, 2, 3) })
		batch := mail.AppendSend(mail.AppendSend(sluice.NewBatch(0), &s), &odd)
		batch = mail.AppendOutcome(batch, &deferred)
		batch = append(batch, broken...)
		cancel := anOutcome(&s, mail.SendWaiting, mail.SendCancelled, "", 0)
		batch = sluice.AppendItem(batch, sluice.ItemCancel, func(x []byte) []byte {
			return append(x, mail.AppendOutcome(nil, &cancel)[sluice.ItemHeaderBytes:]...)
		})
		e := newEngine(b, setup{})
		e.write(1, "test", batch, mail.AppendOutcome(sluice.NewBatch(0), &doubt))
		e.run()
		b.eventually("all is stored", func() bool {
			return strings.Join(b.query("SELECT state FROM sends ORDER BY message"), " ") == "in_doubt waiting"
		})
		letters := b.letters(e.store)
		e.stop()
		if _, ok := letters[string(broken)]; !ok || len(letters) != 1 {
			b.Errorf("dead letters: %v", letters)
		}
		want := []string{
			s.ID() + `.0.queued mail queued shop u1@example.com u ` + s.Message + ` {"send":"` + s.ID() + `","attempt":0,"tags":["a","b"],"metadata":{"order":7}}`,
			s.ID() + `.1.deferred mail deferred shop u1@example.com u ` + s.Message + ` {"send":"` + s.ID() +
				`","attempt":1,"route":"relay","code":250,"reply":"2.0.0 <ok>","reason":"slow","tags":["a","b"],"metadata":{"order":7}}`,
			odd.ID() + `.0.queued mail queued shop u2@example.com <null> ` + odd.Message + ` {"send":"` + odd.ID() + `","attempt":0}`,
		}
		var got []string
		for _, c := range []string{"event_id", "kind", "name", "app_id", "email", "user_ref", "message_ref", "properties"} {
			for i, v := range b.query("SELECT " + c + " FROM events ORDER BY event_id") {
				if c == "event_id" {
					got = append(got, v)
				} else if i < len(got) {
					got[i] += " " + v
				}
			}
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			b.Errorf("events:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if sum := b.query("SELECT count FROM series_days WHERE name = 'queued'"); strings.Join(sum, " ") != "2" {
			b.Errorf("queued: %v", sum)
		}
		if part := b.query("SELECT part FROM sends WHERE state = 'waiting'"); strings.Join(part, " ") != "1" {
			b.Errorf("partition: %v", part)
		}
	})
}

// A session ends between any two steps. Each send then has one row and one
// event of each kind, and the totals equal those of the rows.
func TestSendsWhileSessionsEnd(t *testing.T) {
	points := []string{"load", "transaction", "commit", "committed", "trim"}
	const rounds, each = 3, 40
	onEachAlone(t, func(b *bed) {
		e := newEngine(b, setup{})
		e.run()
		store := e.store.(mail.SendStore)
		for round := range rounds {
			var spec []string
			for _, p := range points {
				spec = append(spec, fmt.Sprintf("%s=error,%d", p, round%2+1))
			}
			disarm, err := faults.Arm(strings.Join(spec, ";"))
			b.must(err)
			for n := range each {
				s := aSend(round*each+n, "")
				b.must(store.AddBodies(b.Context(), []mail.Body{{Message: s.Message, Recipients: 1, CreatedMillis: s.AcceptedMillis, Data: []byte("x")}}))
				deferred := anOutcome(&s, mail.SendWaiting, mail.SendWaiting, sluice.EventDeferred, 1)
				deferred.DueMillis = s.AcceptedMillis + 60_000
				sent := anOutcome(&s, mail.SendWaiting, mail.SendSent, sluice.EventSent, 2)
				source := "test" + strconv.Itoa(round*each+n)
				e.write(n%testPartitions, source, mail.AppendSend(sluice.NewBatch(0), &s), mail.AppendOutcome(sluice.NewBatch(0), &deferred),
					mail.AppendOutcome(sluice.NewBatch(0), &sent))
			}
			b.eventually("all are sent", func() bool {
				return strings.Join(b.query("SELECT COUNT(*) FROM sends WHERE state = 'sent'"), "") == strconv.Itoa((round+1)*each)
			})
			disarm()
		}
		e.stop()
		if !e.log.has("injected failure") {
			b.Error("nothing failed: this test shows nothing")
		}
		const sends = rounds * each
		for query, want := range map[string]string{
			"SELECT COUNT(*) FROM sends":                                                    strconv.Itoa(sends),
			"SELECT COUNT(*) FROM events":                                                   strconv.Itoa(3 * sends),
			"SELECT COUNT(*) FROM bodies":                                                   "0",
			"SELECT COUNT(*) FROM dead_letters":                                             "0",
			"SELECT SUM(count) FROM send_totals WHERE state = 'sent'":                       strconv.Itoa(sends),
			"SELECT COALESCE(SUM(count), 0) FROM send_totals WHERE state = 'waiting'":       "0",
			"SELECT SUM(count) FROM series_days WHERE name = 'sent'":                        strconv.Itoa(sends),
			"SELECT COUNT(*) FROM sends WHERE attempts = 2 AND life LIKE '%deferred%sent%'": strconv.Itoa(sends),
		} {
			if got := strings.Join(b.query(query), " "); got != want {
				b.Errorf("%s: %s, want %s", query, got, want)
			}
		}
	})
}
