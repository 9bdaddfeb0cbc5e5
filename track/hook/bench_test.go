package hook

import (
	"fmt"
	"strings"
	"testing"
)

// BenchmarkSendGrid reads a batch of 1,000, and makes elements of it.
func BenchmarkSendGrid(b *testing.B) {
	const events = 1000
	var text strings.Builder
	for i := range events {
		fmt.Fprintf(&text, `,{"email":"user%d@example.com","event":"delivered","timestamp":%d,"sg_event_id":"ZGVsaXZlcmVkLTAtMTIzNDU2NzgtYWJj%08d","sg_message_id":"abcDEF%08d.recvd-5f54b5d587-4f2xh-1-5E6B1A2B-4D.0","smtp-id":"<m%d.0@news.example.com>","ip":"192.0.2.1","response":"250 2.0.0 OK  %d abc.123 - gsmtp","tls":1,"category":["newsletter","weekly"],"send":"0123456789abcdef%08d.0","campaign":"autumn"}`,
			i, 1700000000+i, i, i, i, 1700000000+i, i)
	}
	body := []byte("[" + text.String()[1:] + "]")
	p, err := Find("sendgrid")
	if err != nil {
		b.Fatal(err)
	}
	var out []byte
	b.ReportAllocs()
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		found, err := p.Parse(&Request{Body: body})
		if err != nil || len(found.Events) != events {
			b.Fatalf("%d events, %v", len(found.Events), err)
		}
		out = out[:0]
		for i := range found.Events {
			out = found.Events[i].AppendElement(out, "main")
		}
	}
}
