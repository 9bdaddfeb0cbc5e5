package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"sluice/engine"
	"sluice/flow"
	"sluice/ingest"
	"sluice/mail/spool"
	"sluice/ops/transfer"
	"sluice/store/sqlstore"
)

const backupLong = `
Writes the standard tables, as they are at one moment, and the entries of the logs
behind them to one file. It is DIR/sluice-TIME.tar, in an existing directory, or a new
FILE. It works beside running programs and slows them a little. The file holds personal
data and the hashes of keys: restrict access to it, and encrypt it where it is kept.

    sluice backup /var/backups/sluice
    sluice backup /var/backups/sluice --passphrase-file /etc/sluice/passphrase
    sluice restore --check /var/backups/sluice/sluice-20261121T053000Z.tar

The secret that signs links in mails is in it only with a passphrase, which seals it;
else it is left out. Not in it either: tables of your own (back them up with the
database's tools), elements of lists that are not held yet, counts in hashes, the
configuration. A list whose server does not answer is left out and named, and the exit
code is 1 though the file is whole. docs/backup.md says more.
`

const restoreLong = `
Puts a backup back: into an empty database and an empty Redis, of any supported kind.
All programs must be stopped. Killed in the middle, it is run again: until it is done,
no program starts.

    sluice restore FILE                      the database and the logs
    sluice restore --only database FILE      under the Redis that is there: what its logs
                                             still have is stored again, once
    sluice restore --only redis FILE         the logs, under the database that is there
    sluice restore --check FILE              only read it through and say what is in it

It reports what is lost for good: the time between the backup and what the logs still
have, for each partition. docs/backup.md says when to use which.
`

var passphraseFlag = flagSpec{name: "passphrase-file", value: "FILE", help: "a file whose first line is the passphrase that seals the secret of links, 16 characters or more"}

var backupFlags = []flagSpec{passphraseFlag}

var restoreFlags = []flagSpec{
	passphraseFlag,
	{name: "without-secrets", help: "leave out what is sealed: links in mails of before need the secret in the configuration"},
	{name: "only", value: "WHAT", help: "database: keep what is in Redis; redis: keep the database", check: oneOf("database", "redis")},
	{name: "replace", help: "empty what has something in it, and lose that"},
	{name: "list-cursors", help: "tables of your own that lists fill are as they were when the backup was taken, or empty"},
	{name: "take-lists", help: "the installation that the backup is of is gone for good: its lists and hashes are drained by this one"},
	{name: "events-from", value: "TIME", help: "leave out older events, such as those beyond your retention", check: aTime},
	{name: "check", help: "change nothing: read the backup through and say what is in it"},
}

func runBackup(ctx context.Context, c *call) error {
	if len(c.given.args) != 1 {
		return usagef("backup: want one directory or new file")
	}
	cfg := c.config
	store, err := c.storeAsItIs(ctx)
	if err != nil {
		return err
	}
	redis, lists, missing, stop, err := engine.OpenForBackup(ctx, cfg)
	if err != nil {
		return err
	}
	c.later(stop)
	progress := c.progress()
	b := &transfer.Backup{Database: store, Redis: redis, Lists: lists, Missing: slices.Sorted(maps.Keys(missing)), Clock: c.clockOf(ctx, redis), Program: version, Progress: progress.say}
	if b.Passphrase, err = c.passphrase(); err != nil {
		return err
	}
	file, err := b.ArchiveName(c.given.args[0])
	if err != nil {
		return err
	}
	m, err := b.Run(ctx, file)
	if err != nil {
		return err
	}
	c.print("%s", file)
	c.showManifest(m)
	if m.Secrets == transfer.SecretsLeftOut && cfg.Secret == "" {
		c.print("NOT in it: the secrets that are kept in the database, by which links in mails and posts to webhooks are signed. Back up with --passphrase-file to have them sealed in the file, or set `secret` for links and keep the configuration; restored without them on a new database, links in mails of before are no good, and webhooks stay off until their secrets are rotated")
	}
	var errs []error
	for _, name := range m.Missing {
		errs = append(errs, fmt.Errorf("backup: %s is whole, but for what is held of list %s: %w", file, name, missing[name]))
	}
	return errors.Join(errs...)
}

// passphrase reads the file of --passphrase-file: its first line.
func (c *call) passphrase() (string, error) {
	file := c.given.text("passphrase-file")
	if file == "" {
		return "", nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("read the passphrase: %w", err)
	}
	first, _, _ := strings.Cut(string(text), "\n")
	first = strings.TrimSuffix(first, "\r")
	if len(first) < transfer.MinPassphraseBytes || len(first) > transfer.MaxPassphraseBytes {
		return "", fmt.Errorf("read the passphrase: the first line of %s has %d bytes, want %d to %d: head -c 24 /dev/urandom | base64 makes one", file, len(first), transfer.MinPassphraseBytes, transfer.MaxPassphraseBytes)
	}
	return first, nil
}

// showManifest says what is in a backup.
func (c *call) showManifest(m *transfer.Manifest) {
	c.print("deployment %s, %d partitions, schema %d of %s, by sluice %s", m.Deployment, m.Partitions, m.Schema, m.Dialect, m.Program)
	c.print("tables as at %s, logs up to %s", showTime(m.Snapshot), showTime(m.Ended))
	for _, t := range m.Tables {
		c.print("  %-17s %15s rows", t.Name, grouped(t.Rows))
	}
	entries := int64(0)
	for _, l := range m.Logs {
		entries += l.Entries
	}
	c.print("  %-17s %15s entries", "logs", grouped(entries))
	held := 0
	for _, member := range m.Members {
		if strings.HasPrefix(member.Name, "held.") {
			held += member.Lines
		}
	}
	c.print("  %-17s %15s pages held", "lists", grouped(int64(held)))
	c.showMissing(m)
}

// showMissing says of which lists a backup has nothing.
func (c *call) showMissing(m *transfer.Manifest) {
	if len(m.Missing) > 0 {
		c.print("NOT in it: what was held of lists whose servers did not answer: %s", safeText(strings.Join(m.Missing, ", ")))
	}
}

func showTime(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000Z") }

func runRestore(ctx context.Context, c *call) error {
	if len(c.given.args) != 1 {
		return usagef("restore: want one backup file")
	}
	progress := c.progress()
	archive, err := transfer.OpenArchive(c.given.args[0], func(read, size int64) {
		progress.at(partOf(read, size), fmt.Sprintf("reading it through: %d of %d MB", read>>20, size>>20))
	})
	if err != nil {
		return err
	}
	c.later(archive.Close)
	if c.given.has("check") {
		c.print("the backup is whole")
		c.showManifest(&archive.Manifest)
		return nil
	}
	return c.restore(ctx, archive, progress)
}

func (c *call) restore(ctx context.Context, archive *transfer.Archive, progress *progress) error {
	cfg, err := c.load(nil)
	if err != nil {
		return err
	}
	if !cfg.Named("partitions") {
		cfg.Partitions = archive.Partitions
	}
	if cfg.Partitions != archive.Partitions {
		return fmt.Errorf("restore: the backup has %d partitions, the configuration says %d; set partitions: %d", archive.Partitions, cfg.Partitions, archive.Partitions)
	}
	if err := os.MkdirAll(cfg.Data, 0o700); err != nil {
		return fmt.Errorf("make the data directory: %w; choose another with --data", err)
	}
	store, err := sqlstore.Open(ctx, cfg.Database.Reveal(), sqlstore.Options{Exclusive: true})
	if err != nil {
		return err
	}
	c.later(store.Close)
	redis, lists, stop, err := engine.OpenRedis(ctx, cfg)
	if err != nil {
		return err
	}
	c.later(stop)
	if err := migrateAlone(ctx, store, redis); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	passphrase, err := c.passphrase()
	if err != nil {
		return err
	}
	only := c.given.text("only")
	r := &transfer.Restore{
		Database: store, Redis: redis, Archive: archive,
		Tables: only != "redis", Logs: only != "database",
		Replace: c.given.has("replace"), ListCursors: c.given.has("list-cursors"), EventsFromMillis: c.given.millis("events-from"),
		LogFollowers: []string{ingest.StoreRole}, LaneFollower: spool.QueueCursor, Lists: lists, TakeLists: c.given.has("take-lists"), Progress: progress.say,
		Passphrase: passphrase, WithoutSecrets: c.given.has("without-secrets"),
	}
	done, err := r.Run(ctx)
	if err != nil {
		return err
	}
	c.showRestored(done, archive, redis)
	return nil
}

// migrateAlone brings the schema up, if nobody runs whom that could leave behind. On
// tables that stay as they are, the restore itself looks.
func migrateAlone(ctx context.Context, store *sqlstore.Store, redis *flow.Redis) error {
	have, want, err := store.SchemaVersion(ctx)
	if err == nil && have > 0 && have < want {
		err = transfer.NobodyRuns(ctx, redis, true)
	}
	if err != nil {
		return err
	}
	return store.Migrate(ctx)
}

func (c *call) showRestored(done *transfer.Restored, archive *transfer.Archive, redis *flow.Redis) {
	for _, name := range slices.Sorted(maps.Keys(done.Rows)) {
		c.print("  %-17s %15s rows", name, grouped(done.Rows[name]))
	}
	if done.LeftOut > 0 {
		c.print("  %-17s %15s events left out as too old", "", grouped(done.LeftOut))
	}
	c.print("  %-17s %15s entries", "logs", grouped(done.Entries))
	c.print("  %-17s %15s elements held", "lists", grouped(done.Elements))
	c.showMissing(&archive.Manifest)
	if done.HeldLeftOut > 0 {
		c.print("LEFT OUT: of lists without a table %s elements that the backup held; the database has stored something since, which cannot be told from them", grouped(done.HeldLeftOut))
	}
	c.print("  %-17s %15s wait in the database, %s in the lanes of redis", "sends", grouped(done.SendsWaiting), grouped(done.InLanes))
	if done.SendsWaiting+done.InLanes > 0 {
		c.print("before the program sends anything, it compares both: what waits in the database and in no lane is in doubt then; `sluice sending show` says what was found")
	}
	var kept []string
	for _, k := range done.KeptCursors {
		kept = append(kept, strings.TrimPrefix(k.Follower, "list:"))
	}
	if len(kept) > 0 {
		c.print("tables of your own are not touched, and their lists go on where they were: %s", safeText(strings.Join(kept, ", ")))
	}
	for _, g := range done.Gaps {
		if g.Follower != ingest.StoreRole {
			c.print("LOST, %s: elements behind %s, up to %s (chunk-element), are neither in Redis nor in the backup", safeText(g.Follower), g.From, g.To)
			continue
		}
		c.print("LOST, partition %d: what was accepted from %s to %s (behind %s, up to %s)", g.Partition,
			showTime(time.UnixMilli(int64(g.From.Major))), showTime(time.UnixMilli(int64(g.To.Major))), g.From, g.To)
	}
	if _, put := done.Rows["secrets"]; !put && archive.Secrets != "" && c.given.text("only") != "redis" {
		c.print("the secret that signs links in mails was not put back: the database keeps the one it had, or the next start makes one. If the configuration had it (secret), nothing is lost; else links in mails of before are no good")
	}
	if len(done.Gaps) == 0 {
		c.print("no gap: the logs of redis %s go on from the tables as at %s", redis, showTime(archive.Snapshot))
	}
}
