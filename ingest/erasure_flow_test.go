package ingest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice"
	"sluice/ingest"
	"sluice/mail"
	"sluice/store"
	"sluice/user"
)

// Sends that have ended and are old go, and bodies that nobody needs. No body
// goes while sends may be in a log that is not stored yet.
func TestKeeperOfSends(t *testing.T) {
	onEach(t, func(b *bed) {
		k := newKept(b, ingest.Retention{Sends: 3})
		now := k.clock.Now().UnixMilli()
		send := func(n int, accepted int64) mail.Send {
			s := aSend(n, "")
			s.Message, s.AcceptedMillis = fmt.Sprintf("%012x%020x", accepted, n), accepted
			b.must(k.store.AddBodies(b.Context(), []mail.Body{{Message: s.Message, Recipients: 1, CreatedMillis: accepted, Data: []byte("x")}}))
			return s
		}
		old, young, waiting, lost := send(1, now-5*aDay.Milliseconds()), send(2, now-aDay.Milliseconds()), send(3, now-5*aDay.Milliseconds()), send(4, now-2*60*60*1000)
		fresh := send(5, now-50*60*1000)
		effect := &store.Effect{Moves: []store.Move{{Follower: ingest.StoreRole, To: sluice.Position{Major: 1}}}}
		for _, s := range []mail.Send{old, young, waiting} {
			effect.Sends = append(effect.Sends, mail.StoredSend{Send: s})
		}
		for _, s := range []mail.Send{old, young} {
			effect.Outcomes = append(effect.Outcomes, mail.StoredOutcome{Outcome: anOutcome(&s, mail.SendWaiting, mail.SendSent, "", 1)})
		}
		p, err := k.store.Prepare(effect)
		b.must(err)
		_, err = k.store.Apply(b.Context(), p)
		b.must(err)

		messages := func(table string) string {
			return strings.Join(b.query("SELECT message FROM "+table+" ORDER BY message"), " ")
		}
		want := func(what, got string, sends ...mail.Send) {
			b.Helper()
			var ids []string
			for _, s := range sends {
				ids = append(ids, s.Message)
			}
			if got != strings.Join(ids, " ") {
				b.Errorf("%s: %s, want %v", what, got, ids)
			}
		}
		behind := errors.New("the store is behind")
		k.keeper.Erasure.Settled = func(context.Context) error { return behind }
		if err := k.keeper.Pass(b.Context()); !errors.Is(err, behind) {
			b.Errorf("error %v", err)
		}
		want("sends", messages("sends"), waiting, young)
		want("bodies while the store is behind", messages("bodies"), waiting, lost, fresh)
		k.keeper.Erasure.Settled = func(context.Context) error { return nil }
		k.pass()
		want("bodies", messages("bodies"), waiting, fresh)
	})
}

// What stands in the logs is waited for.
func TestAppliedAll(t *testing.T) {
	onEach(t, func(b *bed) {
		e := newEngine(b, setup{})
		s := aSend(1, "x")
		e.write(2, "test", mail.AppendSend(sluice.NewBatch(0), &s))
		applied := &ingest.Applied{Store: e.store, Users: e.store.(user.Store), Logs: e.logs}
		ended, end := context.WithCancel(b.Context())
		end()
		if err := applied.All(ended); !errors.Is(err, context.Canceled) {
			b.Errorf("with no store follower: %v", err)
		}
		e.run()
		b.must(applied.All(b.Context()))
		if n := b.count("sends"); n != 1 {
			b.Errorf("%d sends", n)
		}
		e.stop()
	})
}

// A deleted user is erased from sends. Pending mail for the user is stopped
// before the user's row goes: if that fails, it is found again.
func TestKeeperErasesSends(t *testing.T) {
	onEach(t, func(b *bed) {
		k := newKept(b, ingest.Retention{})
		now := k.clock.Now().UnixMilli()
		effect := &store.Effect{Moves: []store.Move{{Follower: ingest.StoreRole, To: sluice.Position{Major: 1}}}}
		for n, to := range []string{"gone@example.com", "Ann@example.com", "stays@example.com"} {
			s := aSend(n, "x")
			s.AcceptedMillis, s.To = now, to
			s.User = []string{"gone", "", "stays"}[n]
			effect.Sends = append(effect.Sends, mail.StoredSend{Send: s})
		}
		effect.Users = &user.Changes{Erase: []string{"gone", store.AddressErasure("ann@example.com")}}
		p, err := k.store.Prepare(effect)
		b.must(err)
		_, err = k.store.Apply(b.Context(), p)
		b.must(err)
		k.clock.Move(time.Millisecond)
		left := func(want string) {
			b.Helper()
			if got := fmt.Sprint(b.query("SELECT to_address FROM sends ORDER BY to_address")); got != want {
				b.Errorf("left are %s, want %s", got, want)
			}
		}
		away := errors.New("redis is away")
		k.keeper.Erasure.Cancel = func(context.Context, []mail.SendRow) error { return away }
		if err := k.keeper.EraseSends(b.Context()); !errors.Is(err, away) {
			b.Errorf("error %v", err)
		}
		left("[Ann@example.com gone@example.com stays@example.com]")
		var cancelled []string
		k.keeper.Erasure.Cancel = func(_ context.Context, sends []mail.SendRow) error {
			for _, s := range sends {
				cancelled = append(cancelled, s.To)
			}
			return nil
		}
		b.must(k.keeper.EraseSends(b.Context()))
		left("[Ann@example.com gone@example.com stays@example.com]") // they may be on the wire: a row is erased when it has ended
		k.clock.Move(time.Hour)                                      // however long that takes
		b.exec("UPDATE sends SET state = 'cancelled' WHERE to_address <> 'stays@example.com'", "")
		b.must(k.keeper.EraseSends(b.Context()))
		left("[  stays@example.com]")
		if got := fmt.Sprint(cancelled); got != "[gone@example.com Ann@example.com]" {
			b.Errorf("cancelled %s", got)
		}
		b.must(k.keeper.EraseSends(b.Context()))
		k.clock.Move(2 * time.Minute)
		k.pass()
		if len(cancelled) != 2 || b.count("erasures") != 0 {
			b.Errorf("cancelled %s, and %d names are left", cancelled, b.count("erasures"))
		}
	})
}
