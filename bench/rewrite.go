package bench

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"sluice/bench/baseline"
	"sluice/lib/token"
	"sluice/track/link"
	"sluice/track/rewrite"
)

// `bench rewrite`: links of a newsletter replaced by signed ones, on one core.
const (
	rewriteSeconds      = 3 // a run
	rewriteSecondsQuick = 1
	rewriteRuns         = 5
	rewriteProducts     = 60

	// What is promised: megabytes of HTML a second of one core, with each mail read
	// and signed by itself.
	wantRewritten = 30
)

// newsletter is a document of some 45 KB as shops send them: 60 links, tables,
// styles, a comment for Outlook.
func newsletter() string {
	var b strings.Builder
	b.WriteString("<!DOCTYPE html><html><head><title>News</title><style>" + strings.Repeat(".a > .b{color:#123456;margin:0 auto}\n", 60) +
		"</style><!--[if mso]><xml><o:AllowPNG/></xml><![endif]--></head><body style=\"margin:0\">\n")
	for i := range rewriteProducts {
		fmt.Fprintf(&b, `<table role="presentation" width="600" cellpadding="0" cellspacing="0" style="border-collapse:collapse;width:600px"><tr><td align="left" style="font-family:Arial,Helvetica,sans-serif;font-size:14px;line-height:20px;color:#333333;padding:10px 20px">`+
			`<a href="https://shop.example.com/product/%d?utm_source=newsletter&amp;utm_medium=email&amp;utm_campaign=spring" target="_blank" style="color:#0066cc;text-decoration:none"><img src="https://cdn.example.com/img/%d.png" width="200" height="150" alt="Product %d" style="display:block;border:0"></a>`+
			`<p>The quick brown fox jumps over the lazy dog, and then some more text follows so that a paragraph looks like one that somebody wrote.</p></td></tr></table>`+"\n", i, i, i)
	}
	return b.String() + "</body></html>"
}

// rewriteWay is one way to replace links.
type rewriteWay struct {
	id, label string
	do        func(room []byte, send int) ([]byte, error)
}

// rewriteWays are those that are measured. All sign each link of each mail.
func rewriteWays(source string) ([]rewriteWay, error) {
	keys, err := link.NewKeys("https://t.example.com", bytes.Repeat([]byte("k"), token.MinSecretBytes))
	if err != nil {
		return nil, err
	}
	o := &rewrite.Options{Clicks: true, Base: keys.Base()}
	place := func(send int) link.Place {
		return link.Place{Partition: 7, Person: 42, Message: "019341d2f0a1b2c3d4e5f60718293a4b", Send: send & 0xffff}
	}
	signing := func(send int) func(b []byte, target string) []byte {
		p := place(send)
		return func(b []byte, target string) []byte {
			p.Link++
			url, err := keys.Click(p, target)
			if err != nil {
				panic(err) // the document is ours, and within all bounds
			}
			return append(b, url...)
		}
	}
	read := rewrite.Analyse(source, o)
	text := []byte(source)
	return []rewriteWay{
		{"pattern", "a regular expression", func(_ []byte, send int) ([]byte, error) {
			return baseline.RewriteByPattern(text, signing(send)), nil
		}},
		{"tokens", "the tokenizer of x/net/html", func(_ []byte, send int) ([]byte, error) {
			return baseline.RewriteByTokens(source, signing(send)), nil
		}},
		{"sluice", "Sluice, each mail read by itself", func(room []byte, send int) ([]byte, error) {
			return rewrite.Analyse(source, o).Fill(room, keys, place(send))
		}},
		{"sluice_filled", "Sluice, read once for all", func(room []byte, send int) ([]byte, error) {
			return read.Fill(room, keys, place(send))
		}},
	}, nil
}

// runRewrite is `sluice-bench rewrite`.
func runRewrite(ctx context.Context, r *run) error {
	source := newsletter()
	ways, err := rewriteWays(source)
	if err != nil {
		return err
	}
	r.report.Settings["document"] = fmt.Sprintf("%d bytes of HTML with %d links, each signed for its recipient", len(source), rewriteProducts)
	want, err := ways[len(ways)-1].do(nil, 5)
	if err != nil {
		return err
	}
	for _, way := range ways {
		if got, err := way.do(nil, 5); err != nil || !bytes.Equal(got, want) {
			return fmt.Errorf("%s makes another document of it: %w", way.label, err)
		}
	}
	for n := range pick(r, rewriteRuns, 3) {
		for _, way := range ways { // in turns
			if err := r.watchBusy(ctx); err != nil {
				return err
			}
			r.say("%s, run %d", way.label, n+1)
			speed, err := rewriteSpeed(way, len(source), pick(r, rewriteSeconds, rewriteSecondsQuick))
			if err != nil {
				return err
			}
			r.report.add(way.id, way.label, "MB/s of one core", speed)
		}
	}
	r.report.judge(target{ratio: "megabytes_a_second", value: wantRewritten}, r.report.value("sluice"))
	return nil
}

// rewriteSpeed returns how many megabytes of documents are rewritten in a second of
// computing, the collection of garbage included.
func rewriteSpeed(way rewriteWay, bytes, seconds int) (float64, error) {
	before, err := cpuTimeOf(os.Getpid())
	if err != nil {
		return 0, err
	}
	var room []byte
	mails := 0
	for end := time.Now().Add(time.Duration(seconds) * time.Second); time.Now().Before(end); mails++ {
		if room, err = way.do(room[:0], mails); err != nil {
			return 0, err
		}
	}
	after, err := cpuTimeOf(os.Getpid())
	if err != nil {
		return 0, err
	}
	return float64(mails*bytes) / 1e6 / (after - before).Seconds(), nil
}
