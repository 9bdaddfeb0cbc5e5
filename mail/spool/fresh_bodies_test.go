package spool

import (
	"bytes"
	"context"
	"testing"

	"sluice"
	"sluice/mail"
	"sluice/store/sqlstore"
	"sluice/test/tables"
)

// counted counts what is read of a store.
type counted struct {
	*sqlstore.Store
	reads int
}

func (c *counted) Bodies(ctx context.Context, messages []string, mostBytes int) (map[string][]byte, error) {
	c.reads += len(messages)
	return c.Store.Bodies(ctx, messages, mostBytes)
}

func freshBodies(t *testing.T) (*FreshBodies, *counted) {
	t.Helper()
	c := &counted{Store: tables.Open(t, sqlstore.Options{})}
	return &FreshBodies{Store: c}, c
}

// give checks that a message's content comes, and with how many reads so far.
func (c *counted) give(t *testing.T, f *FreshBodies, message string, want []byte, reads int) {
	t.Helper()
	found, err := f.Bodies(t.Context(), []string{message}, 0)
	if err != nil || !bytes.Equal(found[message], want) || len(found) != 1 {
		t.Fatalf("got %d contents, %d bytes (%v), want 1 of %d", len(found), len(found[message]), err, len(want))
	}
	if c.reads != reads {
		t.Fatalf("%d contents were read of the database, want %d", c.reads, reads)
	}
}

// TestWhatWasJustStoredIsNotRead: it is given out of memory once, to several
// recipients always, and of the database after that.
func TestWhatWasJustStoredIsNotRead(t *testing.T) {
	f, store := freshBodies(t)
	one, many := sluice.NewMessageID(1), sluice.NewMessageID(2)
	data := bytes.Repeat([]byte("line\r\n"), 2000)
	add := func() {
		t.Helper()
		if err := f.AddBodies(t.Context(), []mail.Body{{Message: one, Recipients: 1, CreatedMillis: 1, Data: data}, {Message: many, Recipients: 2, CreatedMillis: 1, Data: data[6:]}}); err != nil {
			t.Fatal(err)
		}
	}
	add()
	add() // it comes again, as one does whose answer was lost
	store.give(t, f, many, data[6:], 0)
	store.give(t, f, one, data, 0)
	store.give(t, f, one, data, 1)
	store.give(t, f, many, data[6:], 1)
	if f.bytes != len(data)-6 || f.order.Len() != 1 || len(f.held) != 1 {
		t.Errorf("%d bytes in %d contents are held, %d by name; want %d in 1", f.bytes, f.order.Len(), len(f.held), len(data)-6)
	}
}

// TestWhatIsHeldIsBounded: the oldest goes first.
func TestWhatIsHeldIsBounded(t *testing.T) {
	f, store := freshBodies(t)
	data := bytes.Repeat([]byte("0123456789abcdef"), maxFreshBytes/16/4) // a quarter
	var ids []string
	for n := range 6 {
		ids = append(ids, sluice.NewMessageID(int64(n)))
		if err := f.AddBodies(t.Context(), []mail.Body{{Message: ids[n], Recipients: 1, CreatedMillis: 1, Data: data}}); err != nil {
			t.Fatal(err)
		}
	}
	if f.bytes != maxFreshBytes || f.order.Len() != 4 {
		t.Fatalf("%d bytes in %d contents are held, want %d in 4", f.bytes, f.order.Len(), maxFreshBytes)
	}
	store.give(t, f, ids[1], data, 1)
	store.give(t, f, ids[2], data, 1)
}

// TestWhatWasNotStoredIsNotHeld: only what is durable may be sent.
func TestWhatWasNotStoredIsNotHeld(t *testing.T) {
	f, _ := freshBodies(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.AddBodies(ctx, []mail.Body{{Message: sluice.NewMessageID(1), Recipients: 1, CreatedMillis: 1, Data: []byte("x")}}); err == nil {
		t.Fatal("it was stored although its context had ended")
	}
	if len(f.held) != 0 {
		t.Error("what was not stored is held")
	}
}
