package jsonscan

import (
	"encoding/json"
	"testing"
)

// The benchmarks take two members, "id" and "event", out of elements of about
// 180 bytes. One operation is one element.

func samples() (texts []string, bytes int64) {
	for i := range 1024 {
		texts = append(texts, sample(i))
		bytes += int64(len(texts[i]))
	}
	return texts, bytes / 1024
}

func BenchmarkMembers(b *testing.B) {
	texts, bytes := samples()
	b.SetBytes(bytes)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		var id, event string
		m := Read(texts[i&1023])
		for m.Next() {
			switch m.Key {
			case "id":
				id = m.Value.Text()
			case "event":
				event = m.Value.Text()
			}
		}
		if m.Err() != nil || len(id) != 10 || event != "click" {
			b.Fatal(m.Err(), id, event)
		}
	}
}

func BenchmarkScan(b *testing.B) {
	texts, bytes := samples()
	b.SetBytes(bytes)
	for i := 0; b.Loop(); i++ {
		if _, err := Scan(texts[i&1023]); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkStdStruct(b *testing.B) {
	texts, bytes := samples()
	b.SetBytes(bytes)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		var e struct {
			ID    json.Number `json:"id"`
			Event string      `json:"event"`
		}
		if err := json.Unmarshal([]byte(texts[i&1023]), &e); err != nil || e.Event != "click" {
			b.Fatal(err)
		}
	}
}

func BenchmarkStdMap(b *testing.B) {
	texts, bytes := samples()
	b.SetBytes(bytes)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		var e map[string]json.RawMessage
		if err := json.Unmarshal([]byte(texts[i&1023]), &e); err != nil || len(e) != 7 {
			b.Fatal(err)
		}
	}
}

func BenchmarkStdValid(b *testing.B) {
	texts, bytes := samples()
	b.SetBytes(bytes)
	for i := 0; b.Loop(); i++ {
		if !json.Valid([]byte(texts[i&1023])) {
			b.Fatal("not valid")
		}
	}
}
