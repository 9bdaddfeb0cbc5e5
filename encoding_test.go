package sluice

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"testing"
	"unsafe"
)

// BenchmarkEncoding compares the encoding of batches with JSON and MessagePack
// on 1,000 typical events: ns and bytes for each event.
//
// The root package imports the standard library only, so MessagePack is written
// out by hand below, for this one type: without reflection, with texts that
// share the batch's memory. That is as fast as a generated coder gets, and
// faster than any library's general one.
func BenchmarkEncoding(b *testing.B) {
	const n = 1000
	events := sampleEvents(n)
	ours := func(dst []byte) []byte {
		dst = append(dst, BatchVersion)
		for i := range events {
			dst = AppendEvent(dst, &events[i])
		}
		return dst
	}
	pack := func(dst []byte) []byte {
		dst = append(dst, 0xdc, n>>8, n&0xff)
		for i := range events {
			dst = packEvent(dst, &events[i])
		}
		return dst
	}
	text, err := json.Marshal(events)
	if err != nil {
		b.Fatal(err)
	}
	into := make([]Event, n)
	for _, coder := range []struct {
		name   string
		data   []byte
		encode func(dst []byte) ([]byte, error)
		decode func(data []byte) error
	}{
		{"ours", ours(nil), func(dst []byte) ([]byte, error) { return ours(dst), nil }, func(data []byte) error {
			r, err := ReadBatch(data)
			if err != nil {
				return err
			}
			for r.Next() {
				if err := DecodeEvent(r.Item.Payload, &into[r.Index]); err != nil {
					return err
				}
			}
			return r.Err()
		}},
		{"json", text, func([]byte) ([]byte, error) { return json.Marshal(events) }, func(data []byte) error {
			into = into[:0]
			return json.Unmarshal(data, &into)
		}},
		{"msgpack", pack(nil), func(dst []byte) ([]byte, error) { return pack(dst), nil }, func(data []byte) error {
			data = data[3:]
			for i := range n {
				var ok bool
				if data, ok = unpackEvent(data, &into[i]); !ok {
					return fmt.Errorf("event %d is broken", i)
				}
			}
			return nil
		}},
	} {
		report := func(b *testing.B) {
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/event")
			b.ReportMetric(float64(len(coder.data))/n, "B/event")
			b.ReportMetric(0, "ns/op")
		}
		b.Run(coder.name+"/encode", func(b *testing.B) {
			dst := make([]byte, 0, len(coder.data))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := coder.encode(dst[:0]); err != nil {
					b.Fatal(err)
				}
			}
			report(b)
		})
		b.Run(coder.name+"/decode", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := coder.decode(coder.data); err != nil {
					b.Fatal(err)
				}
			}
			report(b)
			for i := range events {
				if into[i] != events[i] {
					b.Fatalf("event %d came back as %+v", i, into[i])
				}
			}
		})
	}
}

// packEvent appends an event as MessagePack: an array of its nine fields
// (https://github.com/msgpack/msgpack/blob/master/spec.md).
func packEvent(b []byte, e *Event) []byte {
	b = append(b, 0x99, byte(e.Kind), 0xd3)
	b = binary.BigEndian.AppendUint64(b, uint64(e.TimeMillis))
	for _, s := range [...]string{e.ID, e.Name, e.App, e.Email, e.User, e.Message, e.Properties} {
		switch n := len(s); {
		case n < 32:
			b = append(b, 0xa0|byte(n))
		case n < 1<<8:
			b = append(b, 0xd9, byte(n))
		case n < 1<<16:
			b = append(b, 0xda, byte(n>>8), byte(n))
		default:
			b = binary.BigEndian.AppendUint32(append(b, 0xdb), uint32(n))
		}
		b = append(b, s...)
	}
	return b
}

// unpackEvent reads what packEvent wrote.
func unpackEvent(b []byte, e *Event) ([]byte, bool) {
	if len(b) < 11 || b[0] != 0x99 || b[1] > 0x7f || b[2] != 0xd3 {
		return nil, false
	}
	e.Kind, e.TimeMillis, b = EventKind(b[1]), int64(binary.BigEndian.Uint64(b[3:])), b[11:]
	for _, s := range [...]*string{&e.ID, &e.Name, &e.App, &e.Email, &e.User, &e.Message, &e.Properties} {
		if len(b) == 0 {
			return nil, false
		}
		head, width := b[0], 0
		b = b[1:]
		switch {
		case head&0xe0 == 0xa0:
		case head >= 0xd9 && head <= 0xdb:
			width = 1 << (head - 0xd9)
		default:
			return nil, false
		}
		if len(b) < width {
			return nil, false
		}
		n := int(head & 0x1f)
		if width > 0 {
			n = 0
			for _, c := range b[:width] {
				n = n<<8 | int(c)
			}
			b = b[width:]
		}
		if n > len(b) {
			return nil, false
		}
		*s = unsafe.String(unsafe.SliceData(b), n)
		b = b[n:]
	}
	return b, true
}
