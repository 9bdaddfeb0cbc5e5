package main

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"sluice"
	"sluice/ops/transfer"
	"sluice/store"
	"sluice/store/sqlstore"
)

const exportLong = `
Writes events, in the order of (time, id), the series, in the order of app, name, kind and
time, or the users, as they are at the moment it begins; what comes later is not in. It
works beside a running program and needs the memory of one row. To standard output, or to the
file of --output.

    sluice export events --from 2026-11-01 --to 2026-12-01 --gzip --output november.gz
    sluice export events --name opened --format csv
    sluice export series --by day --format csv
    sluice export users --gzip --output users.gz

` + "`sluice import events --exported FILE`" + ` puts them back as they were: an event that had
no id of its own has the one that the table gave it. ` + "`sluice import users FILE`" + ` reads
users: attributes and subscription groups under the external id or, of who has none, one
alias, the e-mail address or the phone number. Their other aliases, what is counted of them
and who was merged into them is in a backup only. In a CSV all is text, also what is a
list or an object: take lines of JSON to import it again.
`

var exportFlags = []flagSpec{
	{name: "from", value: "TIME", help: "events from then on: 2026-11-21, or 2026-11-21T05:30:00Z; UTC", check: aTime},
	{name: "to", value: "TIME", help: "events before then", check: aTime},
	{name: "kind", value: "KIND", help: "only mail, custom, purchase or system events; of the series also counter", check: oneOf("mail", "custom", "purchase", "system", "counter")},
	{name: "by", value: "WIDTH", help: "series: hour, which is the default, or day (of UTC)", check: oneOf("hour", "day")},
	{name: "name", value: "NAME", help: "only events of this name, such as clicked"},
	{name: "app-id", value: "APP", help: "only events of this app"},
	{name: "format", value: "FORMAT", preset: string(transfer.NDJSON), help: "ndjson, one JSON object a line, or csv", check: oneOf(string(transfer.NDJSON), string(transfer.CSV))},
	{name: "gzip", help: "pack the output"},
	{name: "output", value: "FILE", help: "write to a new file instead of standard output"},
}

// aTime checks a flag that is a time.
func aTime(s string) error {
	_, err := parseFlagTime(s)
	return err
}

func parseFlagTime(s string) (time.Time, error) {
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if t, err := time.Parse(layout, s); err == nil && t.UnixMilli() > sluice.MinEventTimeMillis {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is no time, such as 2026-11-21 or 2026-11-21T05:30:00Z", s)
}

// millis returns the value of a flag that is a time; 0: it was not given.
func (g given) millis(name string) int64 {
	if !g.has(name) {
		return 0
	}
	t, _ := parseFlagTime(g.text(name)) // checked by aTime
	return t.UnixMilli()
}

func runExport(ctx context.Context, c *call) error {
	what := strings.Join(c.given.args, " ")
	switch {
	case what != "events" && what != "series" && what != "users":
		return usagef("export: want events, series or users, not %q", what)
	case what == "events" && c.given.has("by"):
		return usagef("export events: --by is for series")
	}
	for _, flag := range []string{"from", "to", "kind", "by", "name", "app-id"} {
		if what == "users" && c.given.has(flag) {
			return usagef("export users: it takes no --%s", flag)
		}
	}
	store, err := c.store(ctx)
	if err != nil {
		return err
	}
	out, finish, err := c.exportTo()
	if err != nil {
		return err
	}
	n, err := c.exportRows(ctx, what, store, out)
	if err = errors.Join(err, finish(err == nil)); err != nil {
		return fmt.Errorf("export %s, after %s rows: %w", what, grouped(n), err)
	}
	fmt.Fprintf(c.main.Stderr, "%s %s\n", grouped(n), what)
	return nil
}

// exportTo opens the output. finish completes it, or removes a file that is
// not whole.
func (c *call) exportTo() (out io.Writer, finish func(whole bool) error, err error) {
	out = c.main.Stdout
	var file *os.File
	if name := c.given.text("output"); name != "" {
		if file, err = os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600); err != nil {
			return nil, nil, fmt.Errorf("make the output: %w; name a file that is not there yet", err)
		}
		out = file
	}
	buffered := bufio.NewWriterSize(out, 1<<16)
	out = buffered
	var packed *gzip.Writer
	if c.given.has("gzip") {
		packed = gzip.NewWriter(buffered)
		out = packed
	}
	return out, func(whole bool) error {
		var errs []error
		if packed != nil {
			errs = append(errs, packed.Close())
		}
		errs = append(errs, buffered.Flush())
		if file != nil {
			errs = append(errs, file.Sync(), file.Close())
			if !whole || errors.Join(errs...) != nil {
				errs = append(errs, os.Remove(file.Name()))
			}
		}
		return errors.Join(errs...)
	}, nil
}

// exportRows writes the events, rows of the series, or users that the flags ask for,
// and counts them.
func (c *call) exportRows(ctx context.Context, what string, db *sqlstore.Store, out io.Writer) (n int64, err error) {
	snapshot, err := db.Snapshot(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, snapshot.Close()) }()
	g := c.given
	filter := store.EventFilter{
		FromMillis: g.millis("from"), ToMillis: g.millis("to"),
		Kind: g.text("kind"), Name: g.text("name"), App: g.text("app-id"),
	}
	format := transfer.Format(g.text("format"))
	if what == "users" {
		return transfer.ExportUsers(ctx, snapshot, format, out)
	}
	if what == "series" {
		table := transfer.SeriesTables["hour"]
		if g.has("by") {
			table = transfer.SeriesTables[g.text("by")]
		}
		return transfer.ExportSeries(ctx, snapshot, table, filter, format, out)
	}
	w := transfer.NewEventWriter(out, format)
	err = snapshot.Events(ctx, filter, func(e *store.StoredEvent) error {
		n++
		return w.Write(&e.Event)
	})
	return n, errors.Join(err, w.Flush())
}
