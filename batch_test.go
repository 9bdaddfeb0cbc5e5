package sluice

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
)

func sampleEvents(n int) []Event {
	all := make([]Event, n)
	for i := range all {
		all[i] = Event{
			Kind: KindMail, TimeMillis: 1760000000000 + int64(i)*37, ID: fmt.Sprintf("ev-%016x", i*2654435761),
			Name: [...]string{EventSent, EventDelivered, EventOpened, EventClicked}[i%4], App: "shop",
			Email: fmt.Sprintf("user%d@example.com", i%500), User: fmt.Sprintf("user-%d", i%500), Message: fmt.Sprintf("m-%d", i/4),
			Properties: fmt.Sprintf(`{"ip":"192.0.2.%d","campaign":"spring","link":"https://example.com/p/%d"}`, i%256, i),
		}
	}
	return all
}

func TestBatchRoundTrip(t *testing.T) {
	long := strings.Repeat("ü\x00\n", 100_000)
	events := append(sampleEvents(300), Event{}, Event{Kind: KindCustom, Apart: true}, Event{Kind: 31, Apart: true, Origin: OriginOwnRepeat, TimeMillis: math.MinInt64, ID: long, Name: long, App: long, Email: long, User: long, Message: long, Properties: long}, Event{Origin: OriginTrusted, TimeMillis: math.MaxInt64, Name: "\xff\xfe"})
	letters := []DeadLetter{{}, {Source: "list:q", Form: FormElement, Reason: "not JSON", Payload: []byte("\x00\xff"), TimeMillis: 17}, {Payload: []byte(long)}}
	batch := NewBatch(0)
	for i := range events {
		batch = AppendEvent(batch, &events[i])
	}
	for i := range letters {
		batch = AppendDead(batch, &letters[i])
	}
	counts := []Count{{}, {Kind: KindCounter, TimeMillis: math.MinInt64, By: math.MaxInt64, App: long, Name: "ä\x00"}}
	for i := range counts {
		batch = AppendCount(batch, &counts[i])
	}
	batch = AppendItem(batch, ItemMarker, func(b []byte) []byte { return b })
	batch = AppendItem(batch, 200, func(b []byte) []byte { return append(b, "of tomorrow"...) })

	r, err := ReadBatch(batch)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range events {
		var got Event
		if !r.Next() || r.Index != i || r.Item.Kind != ItemEvent {
			t.Fatalf("item %d: index %d, kind %d, %v", i, r.Index, r.Item.Kind, r.Err())
		}
		if err := DecodeEvent(r.Item.Payload, &got); err != nil || got != want {
			t.Fatalf("event %d: %.200v, %v; want %.200v", i, got, err, want)
		}
	}
	for i, want := range letters {
		var got DeadLetter
		if !r.Next() || r.Item.Kind != ItemDead {
			t.Fatalf("letter %d: kind %d, %v", i, r.Item.Kind, r.Err())
		}
		if err := DecodeDead(r.Item.Payload, &got); err != nil || got.Source != want.Source || got.Form != want.Form || got.Reason != want.Reason || got.TimeMillis != want.TimeMillis || !bytes.Equal(got.Payload, want.Payload) {
			t.Fatalf("letter %d: %.200v, %v; want %.200v", i, got, err, want)
		}
	}
	for i, want := range counts {
		var got Count
		if !r.Next() || r.Item.Kind != ItemCount {
			t.Fatalf("count %d: kind %d, %v", i, r.Item.Kind, r.Err())
		}
		if err := DecodeCount(r.Item.Payload, &got); err != nil || got != want {
			t.Fatalf("count %d: %.200v, %v; want %.200v", i, got, err, want)
		}
	}
	if !r.Next() || r.Item.Kind != ItemMarker || len(r.Item.Payload) != 0 {
		t.Fatalf("marker: %v, %v", r.Item, r.Err())
	}
	if !r.Next() || r.Item.Kind != 200 || string(r.Item.Payload) != "of tomorrow" {
		t.Fatalf("item of an unknown kind: %v, %v", r.Item, r.Err())
	}
	if r.Next() || r.Err() != nil {
		t.Fatalf("behind the end: %v, %v", r.Item, r.Err())
	}
}

// The bytes are stored, and written by Lua as well: they must not change.
func TestBatchBytes(t *testing.T) {
	batch := AppendEvent(NewBatch(0), &Event{Kind: KindMail, TimeMillis: 0x0102030405, ID: "i", Name: "open", Properties: "{}"})
	batch = AppendDead(batch, &DeadLetter{TimeMillis: 1, Source: "s", Form: FormItem, Reason: "r", Payload: []byte("p")})
	batch = AppendCount(batch, &Count{Kind: KindCounter, TimeMillis: 0x0102030405, By: 7, App: "a", Name: "n"})
	want := "\x01" +
		"\x18\x00\x00\x00\x01" + "\x01" + "\x05\x04\x03\x02\x01\x00\x00\x00" + "\x01i\x04open\x00\x00\x00\x00\x02{}" +
		"\x13\x00\x00\x00\x02" + "\x01\x00\x00\x00\x00\x00\x00\x00" + "\x01s\x04item\x01r" + "p" +
		"\x16\x00\x00\x00\x04" + "\x05" + "\x05\x04\x03\x02\x01\x00\x00\x00" + "\x07\x00\x00\x00\x00\x00\x00\x00" + "\x01a\x01n"
	if string(batch) != want {
		t.Fatalf("got  %q\nwant %q", batch, want)
	}
}

func TestBatchHostileBytes(t *testing.T) {
	item := func(n uint32, rest string) []byte {
		return append(binary.LittleEndian.AppendUint32([]byte{BatchVersion}, n), rest...)
	}
	for name, tc := range map[string]struct {
		batch []byte
		items int
		want  error
	}{
		"nil":                      {nil, 0, ErrBatchBroken},
		"empty":                    {[]byte{}, 0, ErrBatchBroken},
		"version 0":                {[]byte{0}, 0, ErrBatchVersion},
		"newer version":            {[]byte{2, 1, 2, 3}, 0, ErrBatchVersion},
		"no items":                 {[]byte{1}, 0, nil},
		"header cut short":         {[]byte{1, 1, 0, 0, 0}, 0, ErrBatchBroken},
		"length 0":                 {item(0, "\x01"), 0, ErrBatchBroken},
		"length beyond the end":    {item(3, "\x01a"), 0, ErrBatchBroken},
		"greatest length":          {item(math.MaxUint32, "\x01abc"), 0, ErrBatchBroken},
		"one item, then a remnant": {append(item(1, "\x03"), 0), 1, ErrBatchBroken},
	} {
		n := 0
		r, err := ReadBatch(tc.batch)
		if err == nil {
			for r.Next() {
				n++
			}
			if err = r.Err(); err != nil && r.Next() {
				t.Errorf("%s: there is an item behind the error", name)
			}
		}
		if n != tc.items || !errors.Is(err, tc.want) {
			t.Errorf("%s: %d items, %v; want %d, %v", name, n, err, tc.items, tc.want)
		}
	}
}

// Every payload that is cut short, or goes on too long, is refused.
func TestDecodeHostileBytes(t *testing.T) {
	e := sampleEvents(1)[0]
	payload := AppendEvent(nil, &e)[ItemHeaderBytes:]
	var got Event
	for n := range payload {
		if err := DecodeEvent(payload[:n:n], &got); !errors.Is(err, ErrBatchBroken) {
			t.Fatalf("event cut after %d of %d bytes: %v", n, len(payload), err)
		}
	}
	if err := DecodeEvent(append(bytes.Clone(payload), 0), &got); !errors.Is(err, ErrBatchBroken) {
		t.Fatalf("event with a byte too many: %v", err)
	}
	letter := AppendDead(nil, &DeadLetter{Source: "s", Form: FormItem, Reason: "r"})[ItemHeaderBytes:]
	var d DeadLetter
	for n := range letter {
		if err := DecodeDead(letter[:n:n], &d); !errors.Is(err, ErrBatchBroken) {
			t.Fatalf("dead letter cut after %d of %d bytes: %v", n, len(letter), err)
		}
	}
	head := make([]byte, 9)
	for name, length := range map[string]string{
		"beyond the end":      "\x05abcd",
		"64 bits":             "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
		"more than 64 bits":   "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
		"unending":            strings.Repeat("\x80", 30),
		"int's sign, 63 bits": "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",
	} {
		if err := DecodeEvent(append(head, length...), &got); !errors.Is(err, ErrBatchBroken) {
			t.Errorf("event, length %s: %v", name, err)
		}
		if err := DecodeDead(append(head[:8:8], length...), &d); !errors.Is(err, ErrBatchBroken) {
			t.Errorf("dead letter, length %s: %v", name, err)
		}
	}
}

// FuzzBatch reads any bytes: nothing panics, items never overlap or reach
// beyond the batch, and what can be decoded comes back the same.
func FuzzBatch(f *testing.F) {
	events := sampleEvents(3)
	batch := NewBatch(0)
	for i := range events {
		batch = AppendEvent(batch, &events[i])
	}
	f.Add(batch)
	f.Add(AppendDead(NewBatch(0), &DeadLetter{Source: "s", Form: FormElement, Reason: "r", Payload: []byte("p")}))
	f.Add([]byte{1, 255, 255, 255, 255, 1})
	f.Add([]byte{2})
	f.Fuzz(func(t *testing.T, batch []byte) {
		r, err := ReadBatch(batch)
		if err != nil {
			return
		}
		again := NewBatch(len(batch))
		for r.Next() {
			var e Event
			var d DeadLetter
			switch {
			case r.Item.Kind == ItemEvent && DecodeEvent(r.Item.Payload, &e) == nil:
				var e2 Event
				if err := DecodeEvent(AppendEvent(nil, &e)[ItemHeaderBytes:], &e2); err != nil || e2 != e {
					t.Fatalf("%+v came back as %+v, %v", e, e2, err)
				}
			case r.Item.Kind == ItemDead && DecodeDead(r.Item.Payload, &d) == nil:
				var d2 DeadLetter
				if err := DecodeDead(AppendDead(nil, &d)[ItemHeaderBytes:], &d2); err != nil || d2.Source != d.Source || d2.Form != d.Form || d2.Reason != d.Reason || d2.TimeMillis != d.TimeMillis || !bytes.Equal(d2.Payload, d.Payload) {
					t.Fatalf("%+v came back as %+v, %v", d, d2, err)
				}
			}
			again = AppendItem(again, r.Item.Kind, func(b []byte) []byte { return append(b, r.Item.Payload...) })
		}
		if r.Err() == nil && !bytes.Equal(again, batch) {
			t.Fatalf("the items are not the whole batch: %q, %q", again, batch)
		}
		if r.Err() != nil && !bytes.HasPrefix(batch, again) {
			t.Fatalf("the items before the break are not its beginning: %q, %q", again, batch)
		}
	})
}

// What is replayed counts for no profile; items of other kinds stay as they are.
func TestApart(t *testing.T) {
	item := AppendEvent(nil, &Event{Kind: KindCustom, Name: "e", User: "u"})
	var e Event
	if err := DecodeEvent(Apart(item)[ItemHeaderBytes:], &e); err != nil || !e.Apart || e.Kind != KindCustom || e.User != "u" {
		t.Errorf("%+v %v", e, err)
	}
	if err := DecodeEvent(item[ItemHeaderBytes:], &e); err != nil || e.Apart {
		t.Errorf("the item itself was changed: %+v %v", e, err)
	}
	count := AppendCount(nil, &Count{Kind: KindCustom, By: 1, Name: "n"})
	if string(Apart(count)) != string(count) {
		t.Error("a count was changed")
	}
}
