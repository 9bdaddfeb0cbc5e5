//go:build goexperiment.jsonv2

package jsonscan

import (
	"bytes"
	"encoding/json/jsontext"
	"testing"
)

// BenchmarkJSONText needs GOEXPERIMENT=jsonv2.
func BenchmarkJSONText(b *testing.B) {
	texts, size := samples()
	b.SetBytes(size)
	b.ReportAllocs()
	var in bytes.Buffer
	dec := jsontext.NewDecoder(&in)
	for i := 0; b.Loop(); i++ {
		in.Reset()
		in.WriteString(texts[i&1023])
		dec.Reset(&in)
		var id, event string
		if _, err := dec.ReadToken(); err != nil {
			b.Fatal(err)
		}
		for dec.PeekKind() != '}' {
			key, err := dec.ReadToken()
			if err != nil {
				b.Fatal(err)
			}
			name := key.String()
			value, err := dec.ReadValue()
			if err != nil {
				b.Fatal(err)
			}
			switch name {
			case "id":
				id = string(value)
			case "event":
				event = string(value)
			}
		}
		if _, err := dec.ReadToken(); err != nil || len(id) != 10 || event != `"click"` {
			b.Fatal(err, id, event)
		}
	}
}
