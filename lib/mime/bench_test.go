package mime

import (
	"strings"
	"testing"
)

// mail10 is a mail of 10 KB of HTML and text, as newsletters are: tables, links,
// a few letters beyond ASCII.
func mail10() (source, text string) {
	row := `<tr><td style="padding:8px;font-family:Arial,sans-serif;font-size:14px;color:#333333">` +
		`<a href="https://shop.example.com/products/12345?utm_source=mail&amp;utm_campaign=autumn">Schöne Bücher für den Herbst</a> – jetzt ab 9,99 €</td></tr>` + "\n"
	source = "<!DOCTYPE html><html><head><title>Autumn</title></head><body><table>\n" + strings.Repeat(row, 8000/len(row)) + "</table></body></html>\n"
	text = strings.Repeat("Schöne Bücher für den Herbst, jetzt ab 9,99 EUR: https://shop.example.com/12345\n", 24)
	return source, text
}

func BenchmarkBuild(b *testing.B) {
	source, text := mail10()
	for _, bb := range []struct{ name, text, html string }{{"both", text, source}, {"derived", "", source}, {"text", text, ""}} {
		b.Run(bb.name, func(b *testing.B) {
			m, err := Compile(&Common{From: mailbox(b, "Zoë's Bücher <news@example.com>"), ReplyTo: []Mailbox{mailbox(b, "service@example.com")}, Headers: []Header{{"List-Id", "<news.example.com>"}}})
			if err != nil {
				b.Fatal(err)
			}
			f := &Fields{To: []Mailbox{mailbox(b, "Ann Smith <ann@example.com>")}, Subject: "Schöne Bücher für den Herbst", Text: bb.text, HTML: bb.html, ID: testID, Date: testNow}
			var out []byte
			b.ReportAllocs()
			for b.Loop() {
				if out, err = m.Append(out[:0], f); err != nil {
					b.Fatal(err)
				}
			}
			b.SetBytes(int64(len(out)))
		})
	}
}

func BenchmarkText(b *testing.B) {
	source, _ := mail10()
	b.SetBytes(int64(len(source)))
	b.ReportAllocs()
	for b.Loop() {
		Text(source)
	}
}

func BenchmarkParseAddress(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseAddress("ann.smith@mail.example.com"); err != nil {
			b.Fatal(err)
		}
	}
}
