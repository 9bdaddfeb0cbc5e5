package bench

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"sluice/bench/baseline"
)

// table is where the events of a bench go, and all that writes them there.
type table struct {
	name     string
	columns  []string
	old      baseline.Table
	settings string // of the list in the program's configuration

	appendRow func(dst []byte, e *element) []byte       // as LOAD DATA reads it
	setRow    func(row []any, e *element, buf []byte)   // as SQLite's driver takes it
	check     string                                    // SELECT: see verify
	texts     func(e *element) int                      // bytes that check sums
	from      func(s database, elements elements) []any // arguments of check
}

const (
	createPepiEvent = "CREATE TABLE pepi_event (id BIGINT, event_name VARCHAR(32))"
	// pepi_live is what the bench of real time watches: its key makes MAX(id)
	// a look at one page.
	createPepiLive = "CREATE TABLE pepi_live (id BIGINT PRIMARY KEY, event_name VARCHAR(32))"
)

// The times of two ranges of elements overlap by the jitter: checks of the
// standard table go by time, so ranges lie this far apart.
const rangeGap = 2 * jitterMillis * arrivalsPerMilli

var pepiEvent = &table{
	name:     "pepi_event",
	columns:  []string{"id", "event_name"},
	old:      baseline.PepiEvent,
	settings: "table: pepi_event, columns: {id: id, event_name: event}",
	appendRow: func(dst []byte, e *element) []byte {
		return append(append(strconv.AppendInt(dst, e.id, 10), '\t'), e.event...)
	},
	setRow: func(row []any, e *element, _ []byte) { row[0], row[1] = e.id, e.event },
	check:  "SELECT COUNT(*), COUNT(DISTINCT id), MIN(id), MAX(id), SUM(LENGTH(event_name)) FROM pepi_event",
	texts:  func(e *element) int { return len(e.event) },
	from:   func(database, elements) []any { return nil },
}

var standard = &table{
	name: "events",
	columns: []string{"event_id", "kind", "name", "app_id", "time", "email", "user_ref", "message_ref",
		"properties", "part", "pos_major", "pos_minor", "item"},
	old:       baseline.Events,
	settings:  "dedupe: id",
	appendRow: appendStandardRow,
	setRow:    setStandardRow,
	check:     "SELECT COUNT(*), COUNT(DISTINCT event_id), MIN(event_id), MAX(event_id), SUM(LENGTH(name)) + SUM(LENGTH(email)) FROM events WHERE time >= ?",
	texts:     func(e *element) int { return len(e.stored) + len(e.appendEmail(make([]byte, 0, 64))) },
	from: func(s database, elements elements) []any {
		return []any{s.millis(elementsBegin + floorDiv(elements.first, arrivalsPerMilli))}
	},
}

// Where a log would have placed a row: 16 partitions, batches of 1,000.
const (
	somePartitions = 16
	someBatchItems = 1000
)

func place(e *element) (part uint64, major, item int64) {
	i := e.id - idBase
	batch := floorDiv(i, someBatchItems)
	return mix(e.user) % somePartitions, elementsBegin + batch, i - batch*someBatchItems
}

func appendStandardRow(dst []byte, e *element) []byte {
	dst = append(append(strconv.AppendInt(dst, e.id, 10), "\tmail\t"...), e.stored...)
	dst = append(append(append(dst, "\t\t"...), datetime(e.timeMillis)...), '\t')
	dst = append(e.appendEmail(dst), "\t\\N\t\\N\t{"...)
	part, major, item := place(e)
	dst = strconv.AppendUint(append(e.appendRest(dst), "}\t"...), part, 10)
	dst = strconv.AppendInt(append(dst, '\t'), major, 10)
	return strconv.AppendInt(append(dst, "\t0\t"...), item, 10)
}

func setStandardRow(row []any, e *element, buf []byte) {
	part, major, item := place(e)
	rest := string(append(e.appendRest(append(buf[:0], '{')), '}'))
	copy(row, []any{strconv.FormatInt(e.id, 10), "mail", e.stored, "", e.timeMillis, string(e.appendEmail(buf[:0])),
		nil, nil, rest, int64(part), major, int64(0), item})
}

// verify reads the table and fails unless it holds exactly the elements. It
// wants as many rows, as many different ids, the first and the last of them,
// and texts of the right length altogether.
func verify(ctx context.Context, s database, t *table, elements elements) error {
	var rows, ids, first, last, texts int64
	if err := s.handle().QueryRowContext(ctx, strings.Replace(t.check, "?", s.placeholder(), 1), t.from(s, elements)...).Scan(&rows, &ids, &first, &last, &texts); err != nil {
		return fmt.Errorf("verify table %s: %w", t.name, err)
	}
	var wantTexts int64
	for i := elements.first; i < elements.first+elements.count; i++ {
		x := at(i)
		wantTexts += int64(t.texts(&x))
	}
	wantFirst := idBase + elements.first
	wantLast := wantFirst + elements.count - 1
	if rows != elements.count || ids != elements.count || first != wantFirst || last != wantLast || texts != wantTexts {
		return fmt.Errorf("verify table %s: the run is void: %d rows with %d ids from %d to %d and %d bytes of text; wanted %d rows and ids from %d to %d and %d bytes",
			t.name, rows, ids, first, last, texts, elements.count, wantFirst, wantLast, wantTexts)
	}
	return nil
}
