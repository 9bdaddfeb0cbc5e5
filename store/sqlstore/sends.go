package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"sluice"
	"sluice/journey"
	"sluice/mail"
	"sluice/store"
	"sluice/user"
)

// The ledger of sends.
//
// The idea. A transaction reads the rows that its sends and outcomes name,
// under lock. Their new state is decided here, in memory
// (mail.SendRow.Record). Then the new rows are inserted. The changed ones are
// written once each, however many outcomes they had. The totals move by the
// actual changes. Under load a send and its outcome often come in one
// transaction: its row is then written once.
//
// The invariants. Rows of a partition are written by the process that moves its
// cursor, and the cursor comes first in the transaction. So no row is inserted
// between our reading and our writing. Only retention removes one, which the
// lock prevents. Rows, bodies and totals are each locked in the order of their
// keys, and always one kind after the other.
//
// A send that is there already is a repeat. An outcome without a send (its row
// is past its retention) becomes a dead letter. A row made up for it would
// count the send twice, and to drop it would hide that a send itself was lost.
// But where the database has gone back and its later state is given up, rows
// and totals have gone back together. There it gets a row.

// byNumber returns the messages of keys: nearly all have the number 0.
func byNumber(keys []mail.SendKey) map[int][]string {
	messages := make(map[int][]string)
	for _, k := range keys {
		messages[k.Number] = append(messages[k.Number], k.Message)
	}
	return messages
}

// ledgerRow is a row of the ledger in a transaction.
type ledgerRow struct {
	mail.SendRow
	stored  bool // it was there before
	changed bool
	was     mail.SendState // of a stored one
	ended   bool           // it had ended before

	// Of the last outcome that changed it: whether it has a body, and how many
	// sends share that.
	body       bool
	recipients int
}

// ledger is what a transaction does to the ledger.
type ledger struct {
	rows    map[mail.SendKey]*ledgerRow
	repeats int
	letters []sluice.DeadLetter

	attempts map[routeDay]int64
	received []mailed // what was sent by this transaction
	counts   []sluice.Count
	sums     reactionSums
}

// applySends writes an effect's sends and outcomes, and returns as dead letters
// those that cannot be written.
func (t *txn) applySends(ctx context.Context, e *store.Effect, applied *store.Applied) ([]sluice.DeadLetter, error) {
	if len(e.Sends)+len(e.Outcomes) == 0 {
		return nil, t.react(ctx, e, &ledger{sums: make(reactionSums)}, applied)
	}
	l := &ledger{rows: make(map[mail.SendKey]*ledgerRow, len(e.Sends)+len(e.Outcomes)), sums: make(reactionSums)}
	if err := t.readLedger(ctx, e, l); err != nil {
		return nil, fmt.Errorf("read sends: %w", err)
	}
	l.apply(e, t.store.clock.Now().UnixMilli())
	var added, changed []*ledgerRow
	for _, key := range slices.SortedFunc(maps.Keys(l.rows), mail.SendKey.Compare) {
		switch r := l.rows[key]; {
		case r == nil:
		case !r.stored:
			added = append(added, r)
		case r.changed:
			changed = append(changed, r)
		}
	}
	if err := t.findUsers(ctx, added); err != nil {
		return nil, fmt.Errorf("find the users of sends: %w", err)
	}
	if err := t.addSends(ctx, added); err != nil {
		return nil, err
	}
	if err := t.changeSends(ctx, changed); err != nil {
		return nil, err
	}
	if err := t.countDown(ctx, added, changed); err != nil {
		return nil, fmt.Errorf("count bodies down: %w", err)
	}
	if err := t.addSendTotals(ctx, added, changed, e.Stripe); err != nil {
		return nil, err
	}
	if err := t.addRouteDays(ctx, l.attempts, e.Stripe); err != nil {
		return nil, err
	}
	applied.Rows += len(added)
	applied.Duplicates += l.repeats
	return l.letters, t.react(ctx, e, l, applied)
}

// apply decides what becomes of the rows.
func (l *ledger) apply(e *store.Effect, nowMillis int64) {
	deadLetter := func(place sluice.Place, reason string, item []byte) {
		l.letters = append(l.letters, sluice.DeadLetter{
			Source: "log", Form: sluice.FormItem, Place: place, Reason: reason, Payload: item, TimeMillis: nowMillis,
		})
	}
	for i := range e.Sends {
		s := &e.Sends[i]
		key := s.Key()
		if err := checkSend(s); err != nil {
			deadLetter(s.Place, err.Error(), mail.AppendSend(nil, &s.Send))
		} else if l.rows[key] != nil {
			l.repeats++
		} else {
			l.rows[key] = &ledgerRow{SendRow: mail.NewSendRow(s)}
		}
	}
	for i := range e.Outcomes {
		o := &e.Outcomes[i]
		r := l.rows[mail.SendKey{Message: o.Message, Number: o.Number}]
		err := checkOutcome(o)
		if err == nil && r == nil && o.Restored {
			row := mail.RestoredRow(o)
			r = &ledgerRow{SendRow: row}
			l.rows[mail.SendKey{Message: o.Message, Number: o.Number}] = r
		}
		if err == nil && r == nil {
			err = fmt.Errorf("the ledger has no send %s.%d: it is past its retention, or a dead letter itself", o.Message, o.Number)
		}
		if err != nil {
			deadLetter(o.Place, err.Error(), mail.AppendOutcome(nil, &o.Outcome))
			continue
		}
		before := r.State
		switch r.Record(&o.Outcome) {
		case mail.RecordedChange:
			if r.changed, r.body, r.recipients = true, o.HasBody, o.Recipients; r.State != before {
				l.ended(r, o)
			}
			l.attempt(&o.Outcome)
		case mail.RecordedLate:
			r.changed = true
			l.attempt(&o.Outcome)
		}
	}
}

// ended counts what a send became: it was sent, or bounced at once.
func (l *ledger) ended(r *ledgerRow, o *mail.StoredOutcome) {
	of := countedMail{campaign: mail.CampaignOf(cmp.Or(o.Metadata, r.Metadata), cmp.Or(o.Tags, r.Tags)), journey: r.Journey, step: r.Step, variant: r.Variant}
	switch {
	case r.State == mail.SendSent:
		l.received = append(l.received, mailed{SendKey: mail.SendKey{Message: o.Message, Number: o.Number}, event: journey.MailReceived, millis: o.TimeMillis, place: o.Place})
		l.counts = append(l.counts, mailCount(r.Journey, r.Step, journey.MailReceived, o.TimeMillis)...)
		l.sums.add(of, mail.ReactionSent, o.TimeMillis)
	case r.State == mail.SendFailed && o.Bounced != 0:
		l.sums.add(of, o.Bounced, o.TimeMillis)
		l.sums.add(of, mail.ReactionRefused, o.TimeMillis)
	}
}

// checkSend checks what no column takes. Texts are cut to their columns.
func checkSend(s *mail.StoredSend) error {
	switch {
	case !sluice.ValidMessageID(s.Message):
		return fmt.Errorf("message %.64q of a send is no id of a message", s.Message)
	case s.Priority.String() == "unknown" || s.Class.String() == "unknown":
		return fmt.Errorf("priority %d or class %d of a send is unknown", s.Priority, s.Class)
	}
	return checkTimes(s.AcceptedMillis, s.DueMillis)
}

func checkOutcome(o *mail.StoredOutcome) error {
	switch {
	case !sluice.ValidMessageID(o.Message):
		return fmt.Errorf("message %.64q of an outcome is no id of a message", o.Message)
	case o.Was.String() == "unknown" || o.State.String() == "unknown":
		return fmt.Errorf("state %d or %d of an outcome is unknown", o.Was, o.State)
	}
	return checkTimes(o.TimeMillis, o.DueMillis)
}

func checkTimes(times ...int64) error {
	for _, ms := range times {
		if ms < sluice.MinEventTimeMillis || ms > sluice.MaxEventTimeMillis {
			return fmt.Errorf("time %d ms is outside the years 1970 to 9999", ms)
		}
	}
	return nil
}

// readLedger reads the rows that an effect names, and locks them.
func (t *txn) readLedger(ctx context.Context, e *store.Effect, l *ledger) error {
	want := func(message string, number int) {
		if sluice.ValidMessageID(message) {
			l.rows[mail.SendKey{Message: message, Number: number}] = nil
		}
	}
	for i := range e.Sends {
		want(e.Sends[i].Message, e.Sends[i].Number)
	}
	for i := range e.Outcomes {
		want(e.Outcomes[i].Message, e.Outcomes[i].Number)
	}
	return t.lockLedger(ctx, slices.SortedFunc(maps.Keys(l.rows), mail.SendKey.Compare), l)
}

// lockLedger reads and locks rows, in the order of their keys.
func (t *txn) lockLedger(ctx context.Context, keys []mail.SendKey, l *ledger) error {
	for piece := range slices.Chunk(keys, maxUserRows) {
		statement, args := t.store.d.lockSends(piece)
		err := t.each(ctx, statement, args, func(scan scanner) error {
			r := &ledgerRow{stored: true}
			var state, class string
			err := scan(&r.Message, &r.Number, &state, &class, &r.Attempts, &r.Route, &r.Reply, &r.Reason, t.store.instant(&r.UpdatedMillis), t.store.instant(&r.DueMillis), &r.Life, &r.Journey, &r.Step, &r.Variant)
			r.State, r.Class = parseState(state), parseClass(class)
			r.was, r.ended = r.State, r.Ended()
			l.rows[r.Key()] = r
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// parseState returns 0 for a word that we have not written.
func parseState(word string) mail.SendState {
	s, _ := mail.ParseSendState(word)
	return s
}

func parseClass(word string) mail.Class {
	c, _ := mail.ParseClass(word)
	return c
}

// lockSends names the messages of a number in one list, since nearly all have
// the number 0. An OR of all keys would be compared with each row that is found,
// from its beginning: half as slow again, all in all. (message, number) IN (...)
// looks through the whole table.
func (d *mysqlDialect) lockSends(keys []mail.SendKey) (string, []any) {
	messages := byNumber(keys)
	var conditions []string
	args := make([]any, 0, len(keys)+len(messages))
	for _, n := range slices.Sorted(maps.Keys(messages)) {
		conditions = append(conditions, "number = ? AND message IN ("+marks(len(messages[n]))+")")
		args = append(append(args, n), anys(messages[n])...)
	}
	return strings.Replace(rawQuery(d, "sends_lock"), "$KEYS", strings.Join(conditions, " OR "), 1), args
}

func (d *sqliteDialect) lockSends(keys []mail.SendKey) (string, []any) {
	args := make([]any, 0, 2*len(keys))
	for _, k := range keys {
		args = append(args, k.Message, k.Number)
	}
	return withRows(rawQuery(d, "sends_lock"), 2, len(keys)), args
}

// lockSends gives the keys as two arrays: one statement for any number of them.
func (d *postgresDialect) lockSends(keys []mail.SendKey) (string, []any) {
	messages, numbers := make([]string, len(keys)), make([]int32, len(keys))
	for i, k := range keys {
		messages[i], numbers[i] = k.Message, int32(k.Number)
	}
	return rawQuery(d, "sends_lock"), []any{messages, numbers}
}

// addSends goes by the bulk path: rows that are not there cannot be refused, nor
// be duplicates.
func (t *txn) addSends(ctx context.Context, rows []*ledgerRow) error {
	if len(rows) == 0 {
		return nil
	}
	d := t.store.d
	into := &table{target: target{name: "sends", columns: sendColumns}, spec: store.TableSpec{Table: "sends", Columns: sendColumns}, classes: classesOf(d, standardTableOf("sends").columns)}
	cells := make([]store.Cell, 0, len(sendColumns)*len(rows))
	for _, r := range rows {
		cells = t.sendCells(cells, r)
	}
	sec := &section{target: &into.target, table: into, rows: &store.TableRows{Table: into, Cells: cells}}
	if err := t.loadSection(ctx, sec); err != nil {
		return fmt.Errorf("insert %d sends: %w", len(rows), err)
	}
	return nil
}

// classesOf are the classes of columns of ours.
func classesOf(d dialect, columns []store.DumpColumn) []class {
	classes := make([]class, 0, len(columns))
	for _, c := range columns {
		switch c.Kind {
		case store.DumpNumber, store.DumpPosition:
			classes = append(classes, classNumber)
		case store.DumpTime:
			classes = append(classes, d.timeClass())
		default:
			classes = append(classes, classText)
		}
	}
	return classes
}

// timeCell is a time as a column of ours has it.
func timeCell(d dialect, millis int64) store.Cell {
	if d.timeClass() == classText {
		var clock datetime
		return store.Cell{Kind: store.CellText, Text: string(clock.append(nil, millis))}
	}
	return store.Cell{Kind: store.CellNumber, Text: strconv.FormatInt(millis, 10)}
}

// sendCells appends the cells of a row, in the order of the columns.
func (t *txn) sendCells(cells []store.Cell, r *ledgerRow) []store.Cell {
	d := t.store.d
	text := func(s string, limit int) {
		cells = append(cells, store.Cell{Kind: store.CellText, Text: d.text(mail.Clip(s, limit))})
	}
	number := func(n int64) {
		cells = append(cells, store.Cell{Kind: store.CellNumber, Text: strconv.FormatInt(n, 10)})
	}
	millis := func(ms int64) { cells = append(cells, timeCell(d, ms)) }
	metadata := mail.Clip(r.Metadata, mail.MaxMetadataBytes)
	if metadata != r.Metadata {
		metadata = "" // a part of an object is none
	}
	text(r.Message, sluice.MessageIDBytes)
	number(int64(r.Number))
	number(int64(r.Partition))
	text(r.State.String(), maxWordBytes)
	text(r.Priority.String(), maxWordBytes)
	text(r.Class.String(), maxWordBytes)
	text(r.From, sluice.MaxEmailBytes)
	text(r.To, sluice.MaxEmailBytes)
	text(r.User, sluice.MaxReferenceBytes)
	text(r.App, sluice.MaxAppIDBytes)
	text(r.Route, mail.MaxRouteBytes)
	text(r.Tags, maxTagsBytes)
	text(metadata, mail.MaxMetadataBytes)
	number(int64(r.Attempts))
	text(r.Reply, mail.MaxReplyBytes)
	text(r.Reason, mail.MaxReasonBytes)
	millis(r.AcceptedMillis)
	millis(r.UpdatedMillis)
	if r.DueMillis == 0 {
		cells = append(cells, store.Cell{})
	} else {
		millis(r.DueMillis)
	}
	text(r.Life, 2*mail.MaxLifeBytes)
	if r.UserID.IsZero() {
		cells = append(cells, store.Cell{}, store.Cell{})
	} else {
		number(int64(r.UserID.Partition))
		number(r.UserID.Number)
	}
	text(r.Journey, journey.MaxIDBytes)
	text(r.Step, journey.MaxIDBytes)
	text(r.Variant, journey.MaxIDBytes)
	number(int64(r.Occurrence))
	cells = append(cells, store.Cell{}, store.Cell{}, store.Cell{}) // nobody has opened it yet
	caps := int64(0)
	if r.IgnoresCaps {
		caps = 1
	}
	number(caps)
	cells = append(cells, store.Cell{}) // nor clicked a link
	text("", 0)
	return cells
}

// maxWordBytes is how long a word of ours may be.
const maxWordBytes = 16

const maxTagsBytes = mail.MaxTags * (mail.MaxTagBytes + 1)

// maxSendBytes bounds the texts of one statement.
const maxSendBytes = 1 << 20

// changeSends writes rows that are there: the accepted of the statement is one
// that the row never gets.
func (t *txn) changeSends(ctx context.Context, rows []*ledgerRow) error {
	const columns = 11
	d := t.store.d
	args := make([]any, 0, columns*min(len(rows), maxUserRows))
	bytes := 0
	for i, r := range rows {
		updated := d.millis(r.UpdatedMillis)
		args = append(args, r.Message, r.Number, r.State.String(), r.Attempts, d.text(r.Route), d.text(r.Reply), d.text(r.Reason), updated, updated, t.store.millisOrNull(r.DueMillis), r.Life)
		bytes += len(r.Life) + len(r.Metadata) + len(r.Tags) + 1024
		if bytes < maxSendBytes && i < len(rows)-1 {
			continue
		}
		if _, err := t.rows(ctx, "send_change", columns, args); err != nil {
			return err
		}
		args, bytes = args[:0], 0
	}
	return nil
}

// sendTotal names a total.
type sendTotal struct{ class, state string }

func (a sendTotal) compare(b sendTotal) int {
	return cmp.Or(strings.Compare(a.class, b.class), strings.Compare(a.state, b.state))
}

// addSendTotals moves the totals from where rows stood to where they stand.
func (t *txn) addSendTotals(ctx context.Context, added, changed []*ledgerRow, stripe int) error {
	moved := make(map[sendTotal]int64)
	for _, r := range added {
		moved[sendTotal{r.Class.String(), r.State.String()}]++
	}
	for _, r := range changed {
		if r.was != r.State {
			moved[sendTotal{r.Class.String(), r.was.String()}]--
			moved[sendTotal{r.Class.String(), r.State.String()}]++
		}
	}
	return t.putSendTotals(ctx, moved, nil, stripe)
}

// putSendTotals adds to totals, and to how many of them have no row any more.
func (t *txn) putSendTotals(ctx context.Context, counts, removed map[sendTotal]int64, stripe int) error {
	keys := slices.Collect(maps.Keys(counts))
	for k := range removed {
		if _, ok := counts[k]; !ok {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, sendTotal.compare)
	var args []any
	for _, k := range keys {
		if counts[k] != 0 || removed[k] != 0 {
			args = append(args, k.class, k.state, stripe, counts[k], removed[k])
		}
	}
	_, err := t.rows(ctx, "send_total_add", 5, args)
	return err
}

var _ mail.SendStore = (*Store)(nil)

// MessageSends implements mail.SendStore.
func (s *Store) MessageSends(ctx context.Context, message string) ([]mail.SendRow, error) {
	list, err := s.sendRows(ctx, "sends_of", message)
	return list, s.failed(err, "read the sends of message %.64q in", message)
}

// OpenDoubts implements mail.SendStore.
func (s *Store) OpenDoubts(ctx context.Context) (int64, error) {
	return s.count(ctx, "count sends in doubt in", rawQuery(s.d, "sends_open_doubts"))
}

// LostSends implements mail.SendStore.
func (s *Store) LostSends(ctx context.Context) (int64, error) {
	return s.count(ctx, "count sends that no lane has in", rawQuery(s.d, "sends_lost"), mail.ReasonLost, mail.MaxLostCount)
}

// sendRows reads whole rows.
func (s *Store) sendRows(ctx context.Context, name string, args ...any) ([]mail.SendRow, error) {
	return s.scanSends(ctx, rawQuery(s.d, name), args)
}

func (s *Store) scanSends(ctx context.Context, statement string, args []any) ([]mail.SendRow, error) {
	return list(ctx, s.d, s.reads, func(scan scanner, r *mail.SendRow) error {
		var state, priority, class, clicks string
		var person [2]sql.NullInt64
		var caps int
		err := scan(&r.Message, &r.Number, &r.Partition, &state, &priority, &class, &r.From, &r.To, &r.User, &r.App, &r.Route, &r.Tags, &r.Metadata,
			&r.Attempts, &r.Reply, &r.Reason, s.instant(&r.AcceptedMillis), s.instant(&r.UpdatedMillis), s.instant(&r.DueMillis), &r.Life, &person[0], &person[1],
			&r.Journey, &r.Step, &r.Variant, &r.Occurrence, s.instant(&r.FirstOpenMillis), s.instant(&r.FirstHumanOpenMillis), s.instant(&r.FirstClickMillis), &caps, s.instant(&r.FirstHumanClickMillis), &clicks)
		r.State, r.Class, r.IgnoresCaps = parseState(state), parseClass(class), caps != 0
		r.Priority, _ = mail.ParsePriority(priority)
		r.UserID = user.ID{Partition: int(person[0].Int64), Number: person[1].Int64}
		return err
	}, strings.Replace(statement, "$COLUMNS", strings.Join(sendColumns, ", "), 1), args...)
}

// sendColumns are the columns of sends, in their order.
var sendColumns = columnNames(standardTableOf("sends").columns)

// SendTotals implements mail.SendStore.
func (s *Store) SendTotals(ctx context.Context) ([]mail.SendTotal, error) {
	statement := strings.Replace(rawQuery(s.d, "send_totals"), "$SUM", s.d.sumCount(), 1)
	totals, err := list(ctx, s.d, s.reads, func(scan scanner, t *mail.SendTotal) error {
		var class, state string
		var count sql.NullInt64
		err := scan(&class, &state, &count)
		*t = mail.SendTotal{Class: parseClass(class), State: parseState(state), Count: count.Int64}
		return err
	}, statement)
	return totals, s.failed(err, "add up the totals of sends in")
}
