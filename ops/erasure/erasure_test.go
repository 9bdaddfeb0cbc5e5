package erasure

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"sluice"
	"sluice/mail"
	"sluice/store"
	"sluice/store/sqlstore"
	"sluice/test/tables"
	"sluice/user"
)

// Where mail of one partition cannot be stopped, all else of all deleted users is erased,
// and the mail of others is stopped. The name stays, and is erased again.
func TestOnePartitionStandsStill(t *testing.T) {
	db := tables.Open(t, sqlstore.Options{})
	now := time.Now()
	at := now.UnixMilli()
	e := store.Effect{Users: &user.Changes{}}
	for n := range store.MaxErasures + 1 { // two pages of names
		e.Users.Erase = append(e.Users.Erase, fmt.Sprintf("u%04d", n))
	}
	for partition, name := range []string{"u0000", "u0001", fmt.Sprintf("u%04d", store.MaxErasures)} {
		e.Events = append(e.Events, store.StoredEvent{
			Place: sluice.Place{Partition: partition, Position: sluice.Position{Major: uint64(at)}},
			Event: sluice.Event{Kind: sluice.KindCustom, Name: "n", ID: name, User: name, TimeMillis: at},
		})
		e.Sends = append(e.Sends, mail.StoredSend{
			Place: sluice.Place{Partition: partition, Position: sluice.Position{Major: uint64(at)}},
			Send: mail.Send{Message: fmt.Sprintf("%012x%020x", at, partition), Recipients: 1, Priority: mail.PriorityNormal, Class: mail.ClassMarketing,
				AcceptedMillis: at, From: "s@example.com", To: name + "@example.com", User: name},
		})
	}
	prepared, err := db.Prepare(&e)
	if err == nil {
		_, err = db.Apply(t.Context(), prepared)
	}
	if err != nil {
		t.Fatal(err)
	}
	errStands := errors.New("partition 0 stands still")
	stopped := make(map[int]int)
	x := &Eraser{Store: db, Log: slog.New(slog.DiscardHandler), Cancel: func(_ context.Context, sends []mail.SendRow) error {
		for _, s := range sends {
			if s.Partition == 0 {
				return errStands
			}
			stopped[s.Partition]++
		}
		return nil
	}}
	for what, pass := range map[string]func(context.Context, time.Time) error{"a look at the mail": x.Sends, "a pass": x.Pass} {
		clear(stopped)
		if err := pass(t.Context(), now.Add(time.Minute)); !errors.Is(err, errStands) {
			t.Errorf("%s: %v", what, err)
		}
		if stopped[1] != 1 || stopped[2] != 1 {
			t.Errorf("%s stops mail of partitions %v, want 1 and 2", what, stopped)
		}
	}
	key := sluice.EventKey{Millis: at - (24 * time.Hour).Milliseconds()}
	n, _, err := db.EraseEvents(t.Context(), []store.Erasure{{Name: "u0000", CreatedMillis: at}, {Name: "u0001", CreatedMillis: at}, {Name: fmt.Sprintf("u%04d", store.MaxErasures), CreatedMillis: at}}, key, at+1)
	if err != nil || n != 0 {
		t.Errorf("%d events were left: %v", n, err)
	}
	if x.sendsTo != 0 || x.erasedTo != 0 {
		t.Errorf("names are passed no more: %d, %d", x.sendsTo, x.erasedTo)
	}
	names, err := db.Erasures(t.Context(), "", 0, now.Add(time.Hour).UnixMilli(), 1)
	if err != nil || len(names) != 1 {
		t.Errorf("%v, %v: the names are gone", names, err)
	}
}
