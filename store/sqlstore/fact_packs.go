package sqlstore

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"sluice"
	"sluice/journey"
	"sluice/store"
)

// A row of journey_facts is one fact, or a pack of them: those that one transaction writes
// into a partition, in their order. Its place is that of its last fact, its kind factPack,
// its number how many there are. Under load a transaction has hundreds of facts for a
// partition, and the database inserts, reads and deletes a row or two for them.
//
// Facts of one place lie in one pack, and the facts of a transaction come behind all that
// are there already. So who reads the rows in their order reads the facts in theirs. A
// place may be within a pack: its facts behind that are the ones that are left.
//
// The format is for good (TABLES.md): backups have it. Lengths are those of the texts as they
// are stored, so no text may become another one in a restore. None has a NUL, which
// PostgreSQL does not take: names that come in have none, and JSON has none.
//
// Few facts stay rows of their own: they are read by SQL, and cost little.
//
// The kind of a pack is more than a byte: a program of before, which still runs when another
// one migrates, fails to read the row. It does not pass over it.
const (
	factPack  journey.FactKind = 256
	packFrom                   = 16 // facts: fewer are no pack
	packFacts                  = store.MinFacts
	packBytes                  = 32 << 10 // about, of its facts
)

var errBrokenPack = errors.New("it is not a pack of facts")

// packed makes rows of facts, which are in the order of the key.
func packed(d dialect, facts []journey.Fact) (rows []journey.Fact) {
	rows = make([]journey.Fact, 0, min(len(facts), packFrom+len(facts)/packFrom))
	begin, bytes := 0, 0
	for i, end := 0, 0; i < len(facts); i = end {
		size := 0
		for end = i; end < len(facts) && facts[end].Place == facts[i].Place; end++ {
			size += len(facts[end].Name) + len(facts[end].Body)
		}
		if begin < i && (end-begin > packFacts || bytes+size > packBytes || facts[begin].Place.Partition != facts[i].Place.Partition) {
			rows = appendRows(d, rows, facts[begin:i], bytes)
			begin, bytes = i, 0
		}
		bytes += size
	}
	return appendRows(d, rows, facts[begin:], bytes)
}

// appendRows appends facts as a pack, if they may be one.
func appendRows(d dialect, rows, facts []journey.Fact, bytes int) []journey.Fact {
	if len(facts) < packFrom || len(facts) > packFacts || bytes > packBytes {
		return append(rows, facts...)
	}
	return append(rows, packOf(d, facts, bytes))
}

// packOf makes a pack.
func packOf(d dialect, facts []journey.Fact, bytes int) journey.Fact {
	last := &facts[len(facts)-1]
	return journey.Fact{Place: last.Place, Number: int64(len(facts)), Kind: factPack, TimeMillis: last.TimeMillis, Body: packText(d, facts, bytes)}
}

// packText writes facts one after the other. Each is a line of numbers (place, user,
// kind, time, and the bytes of name and body), and then name and body as they are.
func packText(d dialect, facts []journey.Fact, bytes int) string {
	const numbersBytes = 64 // about
	text := make([]byte, 0, bytes+numbersBytes*len(facts))
	for i := range facts {
		f := &facts[i]
		name, body := d.text(f.Name), d.text(f.Body)
		text = append(strconv.AppendUint(text, f.Place.Position.Major, 10), ' ')
		text = append(strconv.AppendUint(text, f.Place.Position.Minor, 10), ' ')
		for _, n := range [...]int64{int64(f.Place.Index), f.Number, int64(f.Kind), f.TimeMillis, int64(len(name))} {
			text = append(strconv.AppendInt(text, n, 10), ' ')
		}
		text = append(strconv.AppendInt(text, int64(len(body)), 10), '\n')
		text = append(append(text, name...), body...)
	}
	return string(text)
}

// unpacked appends the facts of a row: itself, or those of the pack.
func unpacked(facts []journey.Fact, row *journey.Fact) ([]journey.Fact, error) {
	if row.Kind != factPack {
		return append(facts, *row), nil
	}
	before := len(facts)
	for rest := row.Body; rest != ""; {
		f := journey.Fact{Place: sluice.Place{Partition: row.Place.Partition}}
		var err error
		if rest, err = unpackOne(&f, rest); err != nil {
			return nil, fmt.Errorf("read the facts at %s, item %d, of partition %d: %w", row.Place.Position, row.Place.Index, row.Place.Partition, err)
		}
		facts = append(facts, f)
	}
	if n := len(facts) - before; int64(n) != row.Number {
		return nil, fmt.Errorf("read the facts at %s, item %d, of partition %d: they are %d, want %d: %w", row.Place.Position, row.Place.Index, row.Place.Partition, n, row.Number, errBrokenPack)
	}
	return facts, nil
}

// unpackOne reads the first fact of the text of a pack, and returns the rest.
func unpackOne(f *journey.Fact, text string) (rest string, err error) {
	line, rest, found := strings.Cut(text, "\n")
	if !found {
		return "", errBrokenPack
	}
	var numbers [8]uint64
	for i := range numbers {
		digits, more, _ := strings.Cut(line, " ")
		if numbers[i], err = strconv.ParseUint(digits, 10, 64); err != nil {
			return "", fmt.Errorf("%w: %w", errBrokenPack, err)
		}
		line = more
	}
	name, body := numbers[6], numbers[7]
	if line != "" || name > uint64(len(rest)) || body > uint64(len(rest))-name {
		return "", errBrokenPack
	}
	f.Place.Position = sluice.Position{Major: numbers[0], Minor: numbers[1]}
	f.Place.Index, f.Number, f.Kind, f.TimeMillis = int(numbers[2]), int64(numbers[3]), journey.FactKind(numbers[4]), int64(numbers[5])
	f.Name, f.Body = rest[:name], rest[name:name+body]
	return rest[name+body:], nil
}
