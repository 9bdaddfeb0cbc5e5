package baseline

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// Table is how an old program writes an element into a table. It is the head of
// an INSERT, and the values of one row, decoded with encoding/json, which is
// what such programs use.
type Table struct {
	Insert string // "INSERT INTO t (a, b) VALUES "
	Tuple  func(dst []byte, raw string, place Place) ([]byte, error)
}

// Place numbers a row for the columns of the standard table that give its place
// in a log. These designs have no log, but write the same columns.
type Place struct {
	Batch int64
	Item  int
}

// PepiEvent is the table of the published design: the event's id and name.
var PepiEvent = Table{
	Insert: "INSERT INTO pepi_event (id, event_name) VALUES ",
	Tuple: func(dst []byte, raw string, _ Place) ([]byte, error) {
		var e struct {
			ID    int64  `json:"id"`
			Event string `json:"event"`
		}
		if err := json.Unmarshal([]byte(raw), &e); err != nil {
			return dst, fmt.Errorf("decode element: %w", err)
		}
		dst = strconv.AppendInt(append(dst, '('), e.ID, 10)
		return append(appendQuoted(append(dst, ','), e.Event), ')'), nil
	},
}

// Events is the standard table: the normalised event, its rest as JSON.
var Events = Table{
	Insert: "INSERT INTO events (event_id, kind, name, app_id, time, email, user_ref, message_ref, properties, part, pos_major, pos_minor, item) VALUES ",
	Tuple:  eventTuple,
}

type properties struct {
	IP       string `json:"ip"`
	UA       string `json:"ua"`
	Campaign string `json:"campaign"`
}

var storedNames = map[string]string{
	"open": "opened", "click": "clicked", "bounce": "bounced", "unsubscribe": "unsubscribed", "spam": "complained",
}

func eventTuple(dst []byte, raw string, place Place) ([]byte, error) {
	var e struct {
		ID        int64  `json:"id"`
		Event     string `json:"event"`
		Email     string `json:"email"`
		Timestamp int64  `json:"timestamp"`
		properties
	}
	if err := json.Unmarshal([]byte(raw), &e); err != nil {
		return dst, fmt.Errorf("decode element: %w", err)
	}
	name := e.Event
	if stored, ok := storedNames[name]; ok {
		name = stored
	}
	rest, err := json.Marshal(e.properties)
	if err != nil {
		return dst, fmt.Errorf("encode properties: %w", err)
	}
	dst = strconv.AppendInt(append(dst, "('"...), e.ID, 10)
	dst = appendQuoted(append(dst, "','mail',"...), name)
	dst = time.UnixMilli(e.Timestamp).UTC().AppendFormat(append(dst, ",'','"...), "2006-01-02 15:04:05.000")
	dst = appendQuoted(append(dst, "',"...), e.Email)
	dst = appendQuoted(append(dst, ",NULL,NULL,"...), string(rest))
	dst = strconv.AppendInt(append(dst, ",0,"...), place.Batch, 10)
	dst = strconv.AppendInt(append(dst, ",0,"...), int64(place.Item), 10)
	return append(dst, ')'), nil
}

// appendQuoted appends a text as a literal of MySQL's default sql_mode.
func appendQuoted(dst []byte, s string) []byte {
	dst = append(dst, '\'')
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '\'', '\\':
			dst = append(dst, '\\', c)
		case 0:
			dst = append(dst, '\\', '0')
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '\'')
}
