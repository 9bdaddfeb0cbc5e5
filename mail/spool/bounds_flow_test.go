package spool_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice"
	"sluice/lib/faults"
	"sluice/mail"
	"sluice/test/clocktest"
	"sluice/test/servers"
	"sluice/test/spooltest"
	"sluice/user"
)

// bulk makes messages of so many recipients with so many bytes of metadata, which
// each send has.
func bulk(messages, recipients, bytesEach int) []mail.Draft {
	drafts := make([]mail.Draft, messages)
	for m := range drafts {
		d := &drafts[m]
		*d = draft("", mail.PriorityNormal, mail.ClassMarketing)
		d.To = nil
		for r := range recipients {
			d.To = append(d.To, fmt.Sprintf("u%d-%d@example.com", m, r))
		}
		d.Metadata = `{"a":"` + strings.Repeat("x", bytesEach-8) + `"}`
	}
	return drafts
}

// A request of many recipients is worked off, whatever the bytes of its sends in
// one partition, and so is what comes behind it.
func TestManyRecipientsOfOneRequest(t *testing.T) {
	b := newBed(t)
	w := newWire(nil)
	w.window = 64
	o := b.open(&spooltest.OneRoute{Transport: w}, nil)
	o.leases.Timeout = time.Minute // a busy machine is no dead process
	o.run()
	o.submit(bulk(4, 1000, mail.MaxMetadataBytes)...)
	o.submit(draft("behind@example.com", mail.PriorityHigh, mail.ClassTransactional))
	o.awaitTotals("sent 4001")
	for send, n := range w.times() {
		if n != 1 {
			t.Errorf("send %s went out %d times", send, n)
		}
	}
}

// So is one under a name, also if its first half was written before the process
// died: a repeat writes the rest, and nothing again.
func TestManyRecipientsOfARequestWithAName(t *testing.T) {
	b := newBed(t)
	w := newWire(nil)
	w.window = 64
	o := b.start(w, nil)
	drafts := bulk(2, 500, mail.MaxMetadataBytes)
	for i := range drafts {
		drafts[i].ID = sluice.NamedMessageID(1, "name", i)
	}
	disarm := must(faults.Arm("submit-part=error,2"))
	if _, err := o.intake.Submit(t.Context(), "name", drafts); err == nil {
		t.Error("the failpoint was not met")
	}
	disarm()
	for range 2 {
		must(o.intake.Submit(t.Context(), "name", drafts))
	}
	o.awaitTotals("sent 1000")
	if n := len(w.times()); n != 1000 {
		t.Errorf("%d sends went out", n)
	}
}

// stand puts a batch of any size at the end of a log, as programs did that did not
// cut.
func (o *office) stand(partition int, batch []byte) {
	o.b.Helper()
	_, err := o.logs[partition].Append(o.b.Context(), fmt.Sprintf("test%d", time.Now().UnixNano()), "", "1", batch, false)
	o.b.must(err)
}

// largest makes the send number n with the largest values that a field may have.
func largest(n int) mail.Send {
	fill := func(length int) string { return strings.Repeat("\"", length) } // what JSON makes more of
	to := fmt.Sprintf("u%d@", n)
	s := mail.Send{
		Message: fmt.Sprintf("%032x", n+1), Number: sluice.MaxRecipients - 1, Recipients: sluice.MaxRecipients, Priority: mail.PriorityLow, Class: mail.ClassMarketing, Form: mail.ContentMIME,
		AcceptedMillis: 1_760_000_000_000, ExpiresMillis: sluice.MaxEventTimeMillis, Attempts: 9,
		From: strings.Repeat("f", sluice.MaxEmailBytes-12) + "@example.com", To: to + strings.Repeat("d", sluice.MaxEmailBytes-len(to)-4) + ".com",
		User: fill(sluice.MaxReferenceBytes), App: fill(sluice.MaxAppIDBytes), Route: "",
		Tags:     strings.Repeat(fill(mail.MaxTagBytes)+",", mail.MaxTags-1) + fill(mail.MaxTagBytes),
		Metadata: `{"a":"` + strings.Repeat("m", mail.MaxMetadataBytes-8) + `"}`,
		Content:  "Subject: x\r\n\r\n" + strings.Repeat("x", mail.MaxInlineBytes-16),
	}
	s.Count(fill(32), sluice.MaxMessageBytes)
	return s
}

// smallest makes the send number n with the smallest.
func smallest(n int) mail.Send {
	const day = 24 * 60 * 60 * 1000
	s := mail.Send{Message: fmt.Sprintf("%032x", n+1), Recipients: 1, Priority: mail.PriorityHigh, Class: mail.ClassMarketing, Form: mail.ContentMIME,
		AcceptedMillis: 1_760_000_000_000, ExpiresMillis: sluice.MaxEventTimeMillis - day*int64(n), To: fmt.Sprintf("u%d@example.com", n), Content: "S: x\r\n\r\nx"}
	s.Count("", 1) // each in an account of its own
	return s
}

// outcome is one of a send, with the largest values.
func outcome(s *mail.Send, was, state mail.SendState) *mail.Outcome {
	return &mail.Outcome{
		Message: s.Message, Number: s.Number, Recipients: s.Recipients, Was: was, State: state, TimeMillis: s.AcceptedMillis + 1, Attempts: s.Attempts,
		Route: strings.Repeat("r", 64), Reply: strings.Repeat("y", mail.MaxReplyBytes), Reason: strings.Repeat("z", 64),
		To: s.To, User: s.User, App: s.App, Tags: s.Tags, Metadata: s.Metadata, HasBody: true,
	}
}

// No batch of a log stops its partition. Items of every kind, with the largest
// and the smallest values of every field, go through log, lanes and ledger,
// thousands in one batch. What comes behind them goes through too.
func TestNoBatchStopsAPartition(t *testing.T) {
	for _, open := range []struct {
		name     string
		database func(t *testing.T, name string) string
	}{
		{"sqlite", func(t *testing.T, _ string) string { return "sqlite:" + filepath.Join(t.TempDir(), "test.db") }},
		{"mariadb", func(t *testing.T, name string) string {
			s := must(servers.StartMariaDB(t.Context(), servers.MariaDBOptions{Dir: filepath.Join(t.TempDir(), "maria"), Extra: []string{"--innodb-flush-log-at-trx-commit=0", "--loose-debug-no-sync"}}))
			t.Cleanup(func() { _ = s.Kill() })
			if err := s.CreateDatabase(t.Context(), name); err != nil {
				t.Fatal(err)
			}
			return s.URL(name)
		}},
		{"postgres", func(t *testing.T, name string) string {
			s := must(servers.StartPostgres(t.Context(), servers.PostgresOptions{Dir: filepath.Join(t.TempDir(), "postgres"), Extra: []string{"-c", "fsync=off"}}))
			t.Cleanup(func() { _ = s.Kill() })
			if err := s.CreateDatabase(t.Context(), name); err != nil {
				t.Fatal(err)
			}
			return s.URL(name)
		}},
	} {
		t.Run(open.name, func(t *testing.T) {
			t.Run("largest", func(t *testing.T) { testNoBatchStops(t, open.database(t, "largest"), 150, largest) }) // more than a commit holds
			if open.name != "sqlite" {
				return // how many words a command of Redis has is the same beside every database
			}
			t.Run("smallest", func(t *testing.T) { testNoBatchStops(t, open.database(t, "smallest"), 1010, smallest) }) // more than a command has words
		})
	}
}

// updates makes user updates of every operation, of every kind of key, with values at
// their bounds and beyond them, in a partition.
func updates(partition, each int, now int64) []byte {
	random := rand.New(rand.NewPCG(uint64(each), 14))
	pick := func(from ...string) string { return from[random.IntN(len(from))] }
	long := strings.Repeat("x", sluice.MaxElementBytes-64)
	batch, large := sluice.NewBatch(0), 0
	for n := 0; n < each; {
		u := user.Update{
			Op: user.Op(random.IntN(12)), TimeMillis: []int64{now, 0, -1, sluice.MaxEventTimeMillis, sluice.MaxEventTimeMillis + 1}[random.IntN(5)], ExistingOnly: random.IntN(8) == 0, IfGone: random.IntN(8) == 0,
			Key:  user.Key{Kind: user.KeyKind(random.IntN(9)), Name: pick("", fmt.Sprint("u", n), fmt.Sprint(n, strings.Repeat("\U0001F600", 250)), fmt.Sprintf("u%d@example.com", n), `["label","name"]`, "\xff\x00")},
			Name: pick("", "1u-7", "9u-7", fmt.Sprint("u", n/2), strings.Repeat("n", sluice.MaxNameBytes), strings.Repeat("\u00e9", 600)), App: pick("", strings.Repeat("a", sluice.MaxAppIDBytes+1)),
			Body: pick("", "null", "{", `{"plan":"gold","n":1}`, `{"first_name":"`+strings.Repeat("f", 300)+`"}`, `{"currency":"EUR","price":1e308,"quantity":1000000}`, "merge", "none", "again", "subscribed", "opted_in", "unsubscribed", `["a","b"]`, "\xff\x00"),
		}
		if random.IntN(4) == 0 {
			u.Address = user.Key{Kind: user.KeyEmail, Name: fmt.Sprintf("u%d@example.com", n/2)}
		}
		if u.Key.Partition(testPartitions) != partition {
			continue
		}
		if large < 6 && u.Op == user.OpAttributes { // one user grows beyond what a profile may have
			large++
			u.Body = fmt.Sprintf(`{"a%d":"%s"}`, large, long)
		}
		n, batch = n+1, user.AppendUpdate(batch, &u)
	}
	return batch
}

// awaitTotals waits as long as the ledger moves.
func (o *office) awaitTotals(want string) {
	o.b.Helper()
	last, since := "", time.Now()
	for began := since; ; clocktest.Rest(began) {
		got := o.totals()
		if got == want {
			return
		}
		if got != last {
			last, since = got, time.Now()
		}
		if time.Since(since) > 3*time.Minute { // a transaction of thousands, on a busy machine
			o.b.Fatalf("the ledger has: %s; want: %s", got, want)
		}
	}
}

func testNoBatchStops(t *testing.T, database string, each int, make func(int) mail.Send) {
	const partition = 1
	b := newBedIn(t, testRedis.URL(), database)
	b.patience = time.Minute // as for the leases
	w := doubtedOnce()
	w.window = 64
	suppressed := nobody{}
	for i := range each {
		s := make(2*each + i)
		suppressed[s.To] = "bounced"
	}
	o := b.open(&spooltest.OneRoute{Transport: w}, suppressed)
	o.leases.Timeout = time.Minute // a busy machine is no dead process
	o.run()
	sends := func(from int, change func(i int, s *mail.Send)) (all []mail.Send, batch []byte) {
		batch = sluice.NewBatch(0)
		for i := range each {
			s := make(from + i)
			change(i, &s)
			all, batch = append(all, s), mail.AppendSend(batch, &s)
		}
		return all, batch
	}
	now := time.Now().UnixMilli()
	doubts, batch := sends(0, func(int, *mail.Send) {})
	o.stand(partition, batch)
	o.awaitTotals(fmt.Sprintf("in_doubt %d", each))

	batch = sluice.NewBatch(0)
	for i := range doubts { // each is to be sent again, and has arrived, says somebody
		again := outcome(&doubts[i], mail.SendInDoubt, mail.SendInDoubt)
		again.DueMillis, again.Attempts, again.Reason = now, doubts[i].Attempts+1, mail.ReasonDecided
		sent := *again
		sent.State, sent.DueMillis = mail.SendSent, 0
		batch = mail.AppendDecision(mail.AppendDecision(batch, again), &sent)
	}
	o.stand(partition, batch)

	later, batch := sends(each, func(i int, s *mail.Send) { s.DueMillis = now + 3_600_000 + 10_000*int64(i) })
	o.stand(partition, batch)
	batch = sluice.NewBatch(0)
	for i := range later {
		batch = mail.AppendCancel(batch, outcome(&later[i], mail.SendWaiting, mail.SendCancelled))
	}
	o.stand(partition, batch)
	_, batch = sends(2*each, func(int, *mail.Send) {}) // who are suppressed
	o.stand(partition, batch)

	batch = sluice.NewBatch(0)
	for i := range each {
		s := make(3*each + i)
		batch = mail.AppendOutcome(mail.AppendKnown(batch, &s), outcome(&s, mail.SendWaiting, mail.SendInDoubt))
		batch = mail.AppendOutcome(batch, outcome(&s, mail.SendInDoubt, mail.SendFailed)) // it settles
		batch = sluice.AppendCount(batch, &sluice.Count{Kind: sluice.KindCustom, TimeMillis: now, By: 1, App: strings.Repeat("a", sluice.MaxAppIDBytes), Name: strings.Repeat("n", sluice.MaxNameBytes)})
	}
	long := strings.Repeat("x", sluice.MaxElementBytes)
	for range 3 {
		batch = sluice.AppendDead(batch, &sluice.DeadLetter{Source: "test", Form: sluice.FormItem, Reason: "as it was", TimeMillis: now, Payload: []byte(long)})
		batch = sluice.AppendEvent(batch, &sluice.Event{
			Kind: sluice.KindCustom, TimeMillis: now, ID: strings.Repeat("i", sluice.MaxEventIDBytes-1) + fmt.Sprint(len(batch)%10), Name: strings.Repeat("e", sluice.MaxNameBytes),
			App: strings.Repeat("a", sluice.MaxAppIDBytes), User: strings.Repeat("u", sluice.MaxReferenceBytes), Message: strings.Repeat("m", sluice.MaxReferenceBytes),
			Properties: `{"p":"` + long[:sluice.MaxElementBytes-8] + `"}`,
		})
	}
	o.stand(partition, batch)
	o.stand(partition, updates(partition, each, now))

	behind := smallest(9 * each)
	behind.Class = mail.ClassTransactional
	o.stand(partition, mail.AppendSend(sluice.NewBatch(0), &behind))
	want := fmt.Sprintf("sent %d, failed %d, suppressed %d, cancelled %d", each+1, each, each, each)
	o.awaitTotals(want)
	o.stop()
	if log := b.log.String(); strings.Contains(log, "follower failed") || strings.Contains(log, "refused") {
		t.Error("a follower failed")
	}
}

// A batch that is queued by several commits is queued once, whichever of them is
// the last before the process ends.
func TestALargeBatchIsQueuedOnce(t *testing.T) {
	for _, crash := range []int{1, 2} {
		for _, point := range []string{"queue", "queued"} {
			b := newBed(t)
			w := newWire(nil)
			w.window = 64
			o := b.open(&spooltest.OneRoute{Transport: w}, nil)
			batch := sluice.NewBatch(0)
			const each = 200
			for i := range each {
				s := largest(i)
				batch = mail.AppendSend(batch, &s)
			}
			o.stand(1, batch)
			disarm := must(faults.Arm(fmt.Sprintf("%s=error,%d", point, crash)))
			o.run()
			o.awaitTotals(fmt.Sprintf("sent %d", each))
			disarm()
			o.stop()
			times := w.times()
			for send, n := range times {
				if n != 1 {
					t.Errorf("%s %d: send %s went out %d times", point, crash, send, n)
				}
			}
			if len(times) != each {
				t.Errorf("%s %d: %d sends went out", point, crash, len(times))
			}
		}
	}
}

// A content is held once, however many its recipients, unless it is very small.
func TestAContentIsHeldOnce(t *testing.T) {
	b := newBed(t)
	o := b.open(&spooltest.OneRoute{Transport: newWire(nil)}, nil)
	const recipients = 1000
	d := bulk(1, recipients, 8)[0]
	d.Content = append(d.Content, strings.Repeat("content ", 400)...)
	ids := o.submit(d)
	bytes := 0
	for _, l := range o.logs {
		batches, err := l.Read(t.Context(), sluice.Position{}, 100, 0)
		b.must(err)
		for _, batch := range batches {
			bytes += len(batch.Data)
		}
	}
	if each := bytes / recipients; each > 200 {
		t.Errorf("a send takes %d bytes in the log", each)
	}
	o.run()
	o.awaitTotals(fmt.Sprintf("sent %d", recipients))
	if left, err := o.store.Bodies(t.Context(), ids, 0); err != nil || len(left) != 0 {
		t.Errorf("contents are left: %d, %v", len(left), err)
	}
}

// A request that comes to too much is refused as a whole, with the message by which
// it does, and nothing of it is built.
func TestARequestIsBounded(t *testing.T) {
	b := newBed(t)
	o := b.open(&spooltest.OneRoute{Transport: newWire(nil)}, nil)
	for name, drafts := range map[string][]mail.Draft{
		"recipients": slices.Repeat(bulk(1, 1000, 8), 51),
		"bytes":      slices.Repeat(bulk(1, 1000, mail.MaxMetadataBytes), 16),
	} {
		_, err := o.intake.Submit(t.Context(), "", drafts)
		e, ok := errors.AsType[*sluice.Error](err)
		if !ok || e.Code != sluice.CodeTooLarge || e.Index != len(drafts)-1 {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, l := range o.logs {
		if n, err := l.Entries(t.Context()); err != nil || n != 0 {
			t.Errorf("partition %d has %d entries, %v", l.Partition(), n, err)
		}
	}
}
