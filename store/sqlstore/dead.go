package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"sluice"
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
	c.Source, c.Form, c.Reason = sluice.Clip(l.Source, maxSourceBytes), sluice.Form(sluice.Clip(string(l.Form), maxFormBytes)), sluice.Clip(l.Reason, maxReasonBytes)
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

// bury writes dead letters, the small ones by the bulk path.
func (t *txn) bury(ctx context.Context, letters []sluice.DeadLetter) error {
	small, large := splitDead(letters)
	if len(small) > 0 {
		sec := &section{target: deadTarget, dead: small, nowMillis: t.store.clock.Now().UnixMilli()}
		if err := t.store.d.encode(sec); err != nil {
			return fmt.Errorf("encode dead letters: %w", err)
		}
		defer t.store.d.release(sec)
		if _, _, err := t.store.d.load(ctx, t, sec); err != nil {
			return fmt.Errorf("write dead letters: %w", err)
		}
	}
	return t.buryLarge(ctx, large)
}

// buryLarge writes letters in pieces.
func (t *txn) buryLarge(ctx context.Context, letters []sluice.DeadLetter) error {
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
			if _, err := t.exec(ctx, "dead_chunk_add", id, n, rest[:size]); err != nil {
				return fmt.Errorf("write piece %d of a dead letter of %d bytes: %w", n, len(l.Payload), err)
			}
			rest = rest[size:]
		}
	}
	return nil
}

// DeadLetters lists dead letters without their payloads.
func (s *Store) DeadLetters(ctx context.Context, after int64, limit int) ([]sluice.DeadLetter, error) {
	rows, err := s.reads.QueryContext(ctx, query(s.d, "dead_list"), after, limit)
	if err != nil {
		return nil, fmt.Errorf("list dead letters in %s: %w", s.where, err)
	}
	defer rows.Close()
	var letters []sluice.DeadLetter
	for rows.Next() {
		var l sluice.DeadLetter
		if err := s.scanLetter(rows.Scan, &l); err != nil {
			return nil, fmt.Errorf("list dead letters in %s: %w", s.where, err)
		}
		letters = append(letters, l)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("list dead letters in %s: %w", s.where, err)
	}
	return letters, nil
}

func (s *Store) scanLetter(scan func(...any) error, l *sluice.DeadLetter, more ...any) error {
	var found any
	err := scan(append([]any{
		&l.ID, &l.Source, &l.Form, &l.Place.Partition, (*number)(&l.Place.Position.Major),
		(*number)(&l.Place.Position.Minor), &l.Place.Index, &l.Reason, &found,
	}, more...)...)
	if err != nil {
		return err
	}
	l.TimeMillis, err = s.d.scanMillis(found)
	return err
}

// DeadLetter returns one with its payload.
func (s *Store) DeadLetter(ctx context.Context, id int64) (sluice.DeadLetter, error) {
	var l sluice.DeadLetter
	var size int64
	var payload []byte
	row := s.reads.QueryRowContext(ctx, query(s.d, "dead_get"), id)
	err := s.scanLetter(row.Scan, &l, &size, &payload)
	if errors.Is(err, sql.ErrNoRows) {
		return l, &sluice.Error{Code: sluice.CodeNotFound, Message: fmt.Sprintf("there is no dead letter %d", id), Index: -1}
	}
	if err == nil {
		l.Payload, err = s.readChunks(ctx, id, payload, size)
	}
	if err != nil {
		return sluice.DeadLetter{}, fmt.Errorf("read dead letter %d in %s: %w", id, s.where, err)
	}
	return l, nil
}

// readChunks reads the rest of a payload of size bytes.
func (s *Store) readChunks(ctx context.Context, id int64, payload []byte, size int64) ([]byte, error) {
	if int64(len(payload)) == size {
		return payload, nil
	}
	whole := append(make([]byte, 0, size), payload...)
	rows, err := s.reads.QueryContext(ctx, query(s.d, "dead_chunks_get"), id)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var piece sql.RawBytes
		if err := rows.Scan(&piece); err != nil {
			return nil, err
		}
		whole = append(whole, piece...)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	if int64(len(whole)) != size {
		return nil, fmt.Errorf("its pieces have %d bytes together, it had %d", len(whole), size)
	}
	return whole, nil
}

// DropDeadLetter removes one.
func (s *Store) DropDeadLetter(ctx context.Context, id int64) error {
	err := s.write(ctx, func(tx *txn) error { return tx.dropLetter(ctx, id) })
	if err != nil {
		return fmt.Errorf("drop dead letter %d in %s: %w", id, s.where, err)
	}
	return nil
}

func (t *txn) dropLetter(ctx context.Context, id int64) error {
	if _, err := t.exec(ctx, "dead_chunks_drop", id); err != nil {
		return err
	}
	_, err := t.exec(ctx, "dead_drop", id)
	return err
}

// CountDeadLetters returns how many there are.
func (s *Store) CountDeadLetters(ctx context.Context) (int64, error) {
	var n int64
	if err := s.reads.QueryRowContext(ctx, query(s.d, "dead_count")).Scan(&n); err != nil {
		return 0, fmt.Errorf("count dead letters in %s: %w", s.where, err)
	}
	return n, nil
}
