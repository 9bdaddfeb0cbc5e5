package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"sluice"
	"sluice/mail"
)

// Limits of a dead letter's columns. What exceeds one is cut, but for the
// payload, which goes on in dead_chunks.
const (
	maxChunkBytes  = 1 << 20
	maxReasonBytes = 8 << 10
	maxSourceBytes = 255
	maxFormBytes   = 16
)

// splitDead separates the letters whose payload fits into one value.
func splitDead(letters []sluice.DeadLetter) (small, large []sluice.DeadLetter) {
	at := 0
	for at < len(letters) && len(letters[at].Payload) <= maxChunkBytes {
		at++
	}
	if at == len(letters) {
		return letters, nil // nearly always: nothing is copied
	}
	small = append(small, letters[:at]...)
	for _, l := range letters[at:] {
		if len(l.Payload) <= maxChunkBytes {
			small = append(small, l)
		} else {
			large = append(large, l)
		}
	}
	return small, large
}

// storable returns a letter as its columns take it: a dead letter is never
// refused, there is no further place to put it.
func storable(l *sluice.DeadLetter, nowMillis int64) sluice.DeadLetter {
	c := *l
	c.Source, c.Form, c.Reason = mail.Clip(l.Source, maxSourceBytes), sluice.Form(mail.Clip(string(l.Form), maxFormBytes)), mail.Clip(l.Reason, maxReasonBytes)
	if c.TimeMillis <= 0 || c.TimeMillis > sluice.MaxEventTimeMillis {
		c.TimeMillis = nowMillis
	}
	if c.Place.Partition < 0 || c.Place.Partition > 1<<16-1 {
		c.Place.Partition = 0
	}
	if c.Place.Index < 0 || c.Place.Index > 1<<32-1 {
		c.Place.Index = 0
	}
	return c
}

// addDead writes dead letters, the small ones by the bulk path.
func (t *txn) addDead(ctx context.Context, letters []sluice.DeadLetter) error {
	small, large := splitDead(letters)
	if len(small) > 0 {
		sec := &section{target: deadTarget, dead: small, nowMillis: t.store.clock.Now().UnixMilli()}
		if err := t.loadSection(ctx, sec); err != nil {
			return fmt.Errorf("write dead letters: %w", err)
		}
	}
	return t.addLargeDead(ctx, large)
}

// addLargeDead writes letters in pieces.
func (t *txn) addLargeDead(ctx context.Context, letters []sluice.DeadLetter) error {
	d := t.store.d
	insert := d.placeholders("INSERT INTO dead_letters (" + strings.Join(deadColumns, ", ") + ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")
	for i := range letters {
		l := storable(&letters[i], t.store.clock.Now().UnixMilli())
		id, err := d.insertID(ctx, t.conn, insert, d.text(l.Source), d.text(string(l.Form)), l.Place.Partition,
			d.number(l.Place.Position.Major), d.number(l.Place.Position.Minor), l.Place.Index, d.text(l.Reason),
			len(l.Payload), l.Payload[:maxChunkBytes], d.millis(l.TimeMillis))
		if err != nil {
			return fmt.Errorf("write dead letter of %d bytes: %w", len(l.Payload), err)
		}
		rest := l.Payload[maxChunkBytes:]
		for n := 1; len(rest) > 0; n++ {
			size := min(len(rest), maxChunkBytes)
			if err := t.exec(ctx, "dead_chunk_add", id, n, rest[:size]); err != nil {
				return fmt.Errorf("write piece %d of a dead letter of %d bytes: %w", n, len(l.Payload), err)
			}
			rest = rest[size:]
		}
	}
	return nil
}

// DeadLetters lists dead letters without their payloads.
func (s *Store) DeadLetters(ctx context.Context, after int64, limit int) ([]sluice.DeadLetter, error) {
	letters, err := list(ctx, s.d, s.reads, func(scan scanner, l *sluice.DeadLetter) error { return scan(s.letter(l)...) }, rawQuery(s.d, "dead_list"), after, limit)
	return letters, s.failed(err, "list dead letters in")
}

// letter returns what the columns of a letter are scanned into, without its payload.
func (s *Store) letter(l *sluice.DeadLetter) []any {
	return []any{
		&l.ID, &l.Source, &l.Form, &l.Place.Partition, (*number)(&l.Place.Position.Major),
		(*number)(&l.Place.Position.Minor), &l.Place.Index, &l.Reason, s.instant(&l.TimeMillis),
	}
}

// DeadLetter returns one with its payload.
func (s *Store) DeadLetter(ctx context.Context, id int64) (sluice.DeadLetter, error) {
	read := func(scan scanner, l *sluice.DeadLetter) error {
		var size int64
		err := scan(append(s.letter(l), &size, &l.Payload)...)
		if err == nil {
			l.Payload, err = s.readChunks(ctx, id, l.Payload, size)
		}
		return err
	}
	return one(ctx, s, read, notFound("there is no dead letter %d", id), fmt.Sprintf("dead letter %d", id), "dead_get", id)
}

// readChunks reads the rest of a payload of size bytes.
func (s *Store) readChunks(ctx context.Context, id int64, payload []byte, size int64) ([]byte, error) {
	if int64(len(payload)) == size {
		return payload, nil
	}
	whole := append(make([]byte, 0, size), payload...)
	err := s.each(ctx, rawQuery(s.d, "dead_chunks_get"), []any{id}, func(scan scanner) error {
		var piece sql.RawBytes
		err := scan(&piece)
		whole = append(whole, piece...)
		return err
	})
	if err == nil && int64(len(whole)) != size {
		err = fmt.Errorf("its pieces have %d bytes together, it had %d", len(whole), size)
	}
	return whole, err
}

// DropDeadLetter removes one.
func (s *Store) DropDeadLetter(ctx context.Context, id int64) error {
	err := s.write(ctx, func(tx *txn) error { return tx.dropLetter(ctx, id) })
	return s.failed(err, "drop dead letter %d in", id)
}

func (t *txn) dropLetter(ctx context.Context, id int64) error {
	if err := t.exec(ctx, "dead_chunks_drop", id); err != nil {
		return err
	}
	return t.exec(ctx, "dead_drop", id)
}

// CountDeadLetters returns how many there are.
func (s *Store) CountDeadLetters(ctx context.Context) (int64, error) {
	return s.count(ctx, "count dead letters in", rawQuery(s.d, "dead_count"))
}
