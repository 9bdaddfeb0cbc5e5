package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"sluice"
	"sluice/mail"
	"sluice/mail/suppress"
	"sluice/ops/transfer"
	"sluice/store"
	"sluice/store/sqlstore"
	"sluice/user/profile"
)

const suppressionLong = `
Addresses that are not mailed, and why. An ENTRY is an address, a domain, or a dot and a
domain, which is that domain and all below it (*.example.com is the same as .example.com).
A change is in force in every process within a second.

    sluice suppression add ann@example.com .bad.example --reason bad_domain
    sluice suppression remove ann@example.com
    sluice suppression list                  all that hold; --entry: of one, removed ones too
    sluice suppression check ann@example.com --class transactional
    sluice suppression import bad.txt.gz --reason hard_bounce

A line of an imported file is an entry, or an entry, a comma and a reason, or a JSON
object: {"entry": "...", "reason": "...", "scope": "marketing", "app_id": "...", "ends":
"2027-01-31T00:00:00Z"}, as list --json prints them. A file whose first line names
columns, as SendGrid, Mailgun, Postmark, Mailchimp and others export it, is read by
these names. The file may be packed with gzip or zstd; - is standard input. Lines that
are none of these are reported, and the exit code is 1. A second run does no harm:
existing entries count as repeats.

Reasons: complaint, unsubscribe, hard_bounce, soft_bounces, bad_domain, manual. An
unsubscribe is about marketing mail alone, unless --scope says all. A top-level domain
(.com, .co.uk) is refused without --force.
`

var suppressionFlags = []flagSpec{
	{name: "reason", value: "REASON", help: "add, import: why (manual); remove: only those for this reason", check: aReason},
	{name: "scope", value: "SCOPE", help: "add, import: all (without it, but for unsubscribe) or marketing; remove: only those of this scope", check: oneOf("all", "marketing")},
	{name: "app-id", value: "APP", help: "only this app's mail", check: atMostBytes(sluice.MaxAppIDBytes)},
	{name: "ends", value: "TIME", help: "add: it holds until then, such as 2027-01-31T00:00:00Z"},
	{name: "force", help: "add, import: take top-level domains too, such as .com"},
	{name: "class", value: "CLASS", preset: "marketing", help: "check: marketing or transactional", check: oneOf("marketing", "transactional")},
	{name: "entry", value: "ENTRY", help: "list: only those of this one"},
	{name: "json", help: "list, check: one JSON object a line"},
}

func aReason(s string) error {
	if _, ok := mail.ParseSuppressReason(s); !ok {
		return fmt.Errorf("want one of %v", mail.SuppressReasons)
	}
	return nil
}

// suppressing is the command at work.
type suppressing struct {
	*call
	store *sqlstore.Store
	clock sluice.Clock
}

func runSuppression(ctx context.Context, c *call) error {
	what, args, err := c.word("add", "remove", "list", "import", "check")
	switch {
	case err != nil:
		return err
	case what == "list" && len(args) > 0:
		return usagef("suppression list: takes no arguments, but %q is one", args[0])
	case what == "import" && len(args) != 1:
		return usagef("suppression import: want one file, or - for standard input")
	case what != "list" && len(args) == 0, len(args) > mail.MaxSuppressChanges:
		return usagef("suppression %s: want 1 to %d, not %d; a file takes more: `sluice suppression import`", what, mail.MaxSuppressChanges, len(args))
	}
	store, err := c.store(ctx)
	if err != nil {
		return err
	}
	s := &suppressing{call: c, store: store, clock: c.clock(ctx)}
	return map[string]func(context.Context, []string) error{
		"add": s.add, "remove": s.remove, "list": s.list, "import": s.imported, "check": s.check,
	}[what](ctx, args)
}

// reader reads those that are added, by the flags.
func (s *suppressing) reader() *suppress.Reader {
	return &suppress.Reader{Preset: s.preset(), Scoped: s.given.has("scope"), Reasoned: s.given.has("reason"), Force: s.given.has("force")}
}

// service changes suppressions.
func (s *suppressing) service() *suppress.Service {
	return &suppress.Service{Store: s.store, Clock: s.clock}
}

// preset is what the flags say of those that are added.
func (s *suppressing) preset() mail.Suppression {
	reason, ok := mail.ParseSuppressReason(s.given.text("reason"))
	if !ok {
		reason = mail.SuppressManual
	}
	scope, _ := mail.ParseScope(s.given.text("scope"))
	return mail.Suppression{Reason: reason, Scope: scope, App: s.given.text("app-id"), Source: "cli", TimeMillis: s.clock.Now().UnixMilli(), Said: true}
}

func (s *suppressing) add(ctx context.Context, args []string) error {
	changes, reader := make([]mail.Suppression, len(args)), s.reader()
	for i, text := range args {
		object := map[string]string{"entry": text}
		if s.given.has("ends") {
			object["ends"] = s.given.text("ends")
		}
		line, err := json.Marshal(object)
		if err == nil {
			changes[i], err = reader.Parse(string(line))
		}
		if err != nil {
			return usagef("suppression add: %w", err)
		}
	}
	n, err := s.service().Add(ctx, changes)
	if err == nil {
		s.print("%d added, %d repeats; in force in every process within a second", n, len(changes)-n)
	}
	return err
}

func (s *suppressing) remove(ctx context.Context, args []string) error {
	entries := make([]string, len(args))
	for i, text := range args {
		entry, ok := suppress.ParseEntry(text)
		if !ok {
			return usagef("suppression remove: entry is %q, %s", text, suppress.WantEntry)
		}
		entries[i] = entry
	}
	preset, which := s.preset(), suppress.Which{}
	if s.given.has("reason") {
		which.Reasons = []mail.SuppressReason{preset.Reason}
	}
	if s.given.has("scope") {
		which.Scope = &preset.Scope
	}
	if s.given.has("app-id") {
		which.App = &preset.App
	}
	n, err := s.service().Remove(ctx, entries, which, "cli")
	if err == nil {
		s.print("%d removed", n)
	}
	return err
}

// suppressionPage is how many are listed at once.
const suppressionPage = 1000

func (s *suppressing) list(ctx context.Context, _ []string) error {
	if s.given.has("entry") {
		entry, ok := suppress.ParseEntry(s.given.text("entry"))
		if !ok {
			return usagef("suppression list: --entry: %s", suppress.WantEntry)
		}
		all, err := s.store.SuppressionsOf(ctx, []string{entry})
		return errors.Join(err, s.show(all))
	}
	q := mail.SuppressionQuery{Limit: suppressionPage}
	for {
		page, err := s.store.Suppressions(ctx, q)
		if err == nil {
			err = s.show(page)
		}
		if err != nil || len(page) < suppressionPage {
			return err
		}
		q.After = page[len(page)-1].Key()
	}
}

// show prints suppressions. What --json prints, import reads: it passes over source and
// time, and refuses what was removed.
func (s *suppressing) show(all []mail.Suppression) error {
	for i := range all {
		x, ends, removed := &all[i], "", ""
		if x.EndMillis != 0 {
			ends = profile.TimeText(x.EndMillis)
		}
		if s.given.has("json") {
			err := s.printJSON(struct {
				Entry   string `json:"entry"`
				Reason  string `json:"reason"`
				Scope   string `json:"scope"`
				App     string `json:"app_id,omitempty"`
				Source  string `json:"source"`
				Time    string `json:"time"`
				Ends    string `json:"ends,omitempty"`
				Removed bool   `json:"removed,omitempty"`
			}{x.Entry, x.Reason.String(), x.Scope.String(), x.App, x.Source, profile.TimeText(x.TimeMillis), ends, x.Removed})
			if err != nil {
				return err
			}
			continue
		}
		if ends != "" {
			ends = "  until " + ends
		}
		if x.Removed {
			removed = "  removed"
		}
		s.print("%s  %s  %s  %s  %s  %s%s%s", safeText(x.Entry), x.Reason, x.Scope, safeText(x.App), profile.TimeText(x.TimeMillis), safeText(x.Source), ends, removed)
	}
	return nil
}

func (s *suppressing) check(ctx context.Context, args []string) error {
	class, _ := mail.ParseClass(s.given.text("class"))
	for _, address := range args {
		v, suppressed, err := suppress.CheckStored(ctx, s.store, s.clock, address, class, s.given.text("app-id"))
		if err != nil {
			return fmt.Errorf("check: %w", err)
		}
		switch {
		case s.given.has("json"):
			shown := map[string]any{"address": address, "suppressed": suppressed}
			if suppressed {
				shown["reason"], shown["scope"], shown["match"] = v.Reason.String(), v.Scope.String(), v.Match.String()
			}
			if err := s.printJSON(shown); err != nil {
				return err
			}
		case suppressed:
			s.print("%s  suppressed  %s  %s  by its %s", safeText(address), v.Reason, v.Scope, v.Match)
		default:
			s.print("%s  may be mailed", safeText(address))
		}
	}
	return nil
}

// maxToldLines bounds the bad lines of a file that are told one by one.
const maxToldLines = 20

// counted counts what is read of a file.
type counted struct {
	io.Reader
	n atomic.Int64
}

// Read implements io.Reader.
func (r *counted) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.n.Add(int64(n))
	return n, err
}

func (s *suppressing) imported(ctx context.Context, args []string) (err error) {
	in, size := &counted{Reader: bufio.NewReader(s.main.Stdin)}, int64(0)
	if args[0] != "-" {
		file, err := os.Open(args[0])
		if err != nil {
			return fmt.Errorf("import suppressions: %w", err)
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
			size = info.Size()
		}
		in.Reader = file
	}
	reader := s.reader()
	lines, err := transfer.NewLineReader(in, transfer.LineOptions{Header: reader.Header})
	if err != nil {
		return fmt.Errorf("import suppressions: %w", err)
	}
	defer lines.Close()
	n, err := s.importLines(ctx, lines, reader, func() float64 { return partOf(in.n.Load(), size) })
	s.print("%s lines: %s added, %s repeats, %s lines rejected", grouped(n.read), grouped(n.added), grouped(n.repeats), grouped(n.bad))
	if err != nil {
		return fmt.Errorf("import suppressions, after %d lines: %w; run it again, which does no harm", n.read, err)
	}
	if n.bad > 0 {
		return fmt.Errorf("import suppressions: %d lines rejected", n.bad)
	}
	return nil
}

// importCount is what became of the lines of a file.
type importCount struct{ read, added, repeats, bad int64 }

// importLines brings lines in, in pieces. part says how much of the file is read.
func (s *suppressing) importLines(ctx context.Context, lines *transfer.LineReader, reader *suppress.Reader, part func() float64) (n importCount, err error) {
	bar, began := s.progress(), time.Now()
	var changes []mail.Suppression
	write := func() error {
		added, err := s.service().Add(ctx, changes)
		if err == nil {
			n.added, n.repeats = n.added+int64(added), n.repeats+int64(len(changes)-added)
		}
		changes = changes[:0]
		bar.at(part(), fmt.Sprintf("%s lines, %s lines/s", grouped(n.read), grouped(int64(float64(n.read)/max(time.Since(began).Seconds(), 0.001)))))
		return err
	}
	for err == nil {
		var line store.Line
		if line, err = lines.Next(); err != nil || line.Refused == nil && strings.TrimSpace(line.Text) == "" {
			continue
		}
		n.read++
		var some []mail.Suppression
		wrong := line.Refused
		if wrong == nil {
			some, wrong = reader.ParseLine(line.Text)
		}
		if wrong != nil {
			if n.bad++; n.bad <= maxToldLines {
				bar.end()
				fmt.Fprintf(s.main.Stderr, "line %d: %s\n", line.Number, safeText(wrong.Error()))
			}
			continue
		}
		if changes = append(changes, some...); len(changes) > mail.MaxSuppressChanges-len(mail.SuppressReasons) {
			err = write()
		}
	}
	if errors.Is(err, io.EOF) {
		err = write()
	}
	return n, err
}
