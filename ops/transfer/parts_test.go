package transfer

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"sluice"
)

// readWhole reads a file at once.
func readWhole(file string, options LineOptions) (all []string, err error) {
	r, err := NewLineReader(strings.NewReader(file), options)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	for {
		line, err := r.Next()
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		all = append(all, fmt.Sprint(line.Number, " ", line.Text, " ", line.Refused))
	}
}

// readParts reads a file in parts of a size, each behind what the one before has taken; one
// that has no whole line grows, up to a bound.
func readParts(t testing.TB, file string, size, most int, options LineOptions) (all []string, err error) {
	t.Helper()
	for offset, want := 0, size; offset < len(file); {
		end := min(len(file), offset+want)
		options.More = end < len(file)
		r, err := NewLineReader(strings.NewReader(file[offset:end]), options)
		if errors.Is(err, ErrUnfinished) {
			want *= 2
			continue
		}
		if err != nil {
			return all, err
		}
		for {
			line, err := r.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				return all, err
			}
			all = append(all, fmt.Sprint(line.Number, " ", line.Text, " ", line.Refused))
		}
		r.Close()
		switch taken := int(r.Taken()); {
		case taken < 0 || taken > end-offset:
			t.Fatalf("%d bytes were taken of %d", taken, end-offset)
		case taken == 0 && end == len(file):
			t.Fatalf("the end of the file is not taken, from %d on", offset)
		case taken == 0 && want >= most:
			t.Fatalf("a part of %d bytes has no line", want)
		case taken == 0:
			want *= 2
		default:
			offset, want, options.From = offset+taken, size, r.State()
		}
	}
	return all, nil
}

// partFiles are files that are hard to cut.
var partFiles = []string{
	"{\"event\":\"a\"}\n\n  \n{\"event\":\"b\"}\r\nbroken\n{\"event\":\"c\"}",
	"\uFEFFevent,time,n\r\na,1,2\r\n\r\nb,\"3\r\n,4\",5\n\n",
	"event;text\na;\"un\nclosed\nb;2\nc;\"3\"\n",
	"event,text\na,\"one\"\"\n,two\"\"\"\nb,x\"y\nc,1,2,3\nd\n,,\n",
	"event\n\"a\"x\nb\n\"c\n",
	"\n\nevent|t\n1|2\n\"",
	"a,b\n",
	"\"a\nb\",c\n1,2\n",
	"{\"event\":\"ä\uFFFD\",\"t\":\"\\n\"}\n{",
	"\n\n\n",
	"x",
}

// A file that is read in parts has the lines that it has at once, wherever it is cut.
func TestParts(t *testing.T) {
	t.Parallel()
	for _, file := range partFiles {
		for _, options := range []LineOptions{{}, {Format: NDJSON}, {Format: CSV}} {
			want, wantErr := readWhole(file, options)
			for size := 1; size <= len(file)+1; size++ {
				got, err := readParts(t, file, size, len(file), options)
				if fmt.Sprint(err) != fmt.Sprint(wantErr) || !slices.Equal(got, want) {
					t.Errorf("%q in parts of %d as %q:\n%q %v, want\n%q %v", file, size, options.Format, got, err, want, wantErr)
				}
			}
		}
	}
}

// maxPart is what a part has to have so that each has a line: a record, and a line behind it.
const maxPart = 2*maxRecordBytes + 64

// Lines and records that are too large are rejected in parts as they are at once, and
// what follows them is read.
func TestLargeParts(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 3*sluice.MaxElementBytes)
	for name, file := range map[string]string{
		"a long line":                "{\"event\":\"a\"}\n{\"event\":\"" + long + "\"}\n{\"event\":\"b\"}\n",
		"a long line at the end":     "{\"event\":\"a\"}\n" + long,
		"a long line of a CSV":       "event,text\na," + long + long + "\nb,1\n",
		"a quote that is not closed": "event,text\na,\"" + strings.Repeat("\nb,12345678901234567890", maxRecordBytes/20),
		"a record before a line":     "event,text\na,\"" + strings.Repeat("b,"+long[:1022]+"\n", maxRecordBytes/1025-1) + long[:len(long)-8] + "\n\nb,2\n",
	} {
		want, _ := readWhole(file, LineOptions{})
		for _, size := range []int{1 << 20, sluice.MaxElementBytes + 7, 3<<20 + 1} {
			got, err := readParts(t, file, size, maxPart, LineOptions{})
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("%s: %d lines in parts of %d, want %d: %v", name, len(got), size, len(want), err)
			}
		}
	}
}

// What becomes no name is left out.
func TestLeftOut(t *testing.T) {
	t.Parallel()
	columns := map[string]string{"secret": "", "action": "event"}
	for file, want := range map[string]string{
		"action,secret,n\na,b,c\n":                  `2 {"event":"a","n":"c"} <nil>`,
		"{\"secret\":1,\"action\":\"a\",\"n\":2}\n": `1 {"event":"a","n":2} <nil>`,
	} {
		if got, err := readWhole(file, LineOptions{Columns: columns}); err != nil || len(got) != 1 || got[0] != want {
			t.Errorf("%q: %q %v", file, got, err)
		}
	}
}

func FuzzParts(f *testing.F) {
	for i, file := range partFiles {
		f.Add(file, i+1)
	}
	f.Fuzz(func(t *testing.T, file string, size int) {
		if size < 1 || len(file) > 1<<16 || strings.HasPrefix(file, "\x1f\x8b") || strings.HasPrefix(file, "\x28\xb5\x2f\xfd") {
			return
		}
		want, wantErr := readWhole(file, LineOptions{})
		got, err := readParts(t, file, size, len(file), LineOptions{})
		if fmt.Sprint(err) != fmt.Sprint(wantErr) || !slices.Equal(got, want) {
			t.Errorf("in parts of %d:\n%q %v, want\n%q %v", size, got, err, want, wantErr)
		}
	})
}
