package transfer

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"sluice"
	"sluice/store"
)

func readLines(t *testing.T, text string, options LineOptions) []store.Line {
	t.Helper()
	r, err := NewLineReader(strings.NewReader(text), options)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var all []store.Line
	for {
		line, err := r.Next()
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, line)
	}
}

func checkLines(t *testing.T, got []store.Line, want ...store.Line) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d lines, want %d: %.500v", len(got), len(want), got)
	}
	for i := range want {
		if got[i].Number != want[i].Number || got[i].Text != want[i].Text || (got[i].Refused == nil) != (want[i].Refused == nil) {
			t.Errorf("line %d:\ngot  %.300v\nwant %.300v", i, got[i], want[i])
		}
	}
}

func TestLinesOfNDJSON(t *testing.T) {
	long := `{"a":"` + strings.Repeat("x", sluice.MaxElementBytes) + `"}`
	lines := readLines(t, "\uFEFF"+`{"a":1}`+"\r\n\n  \n"+long+"\n"+`{"b":{"a":2}}`+"\nbroken\n"+`{"last":true}`, LineOptions{Columns: map[string]string{"a": "event", "b": "c"}})
	checkLines(t, lines,
		store.Line{Number: 1, Text: `{"event":1}`},
		store.Line{Number: 4, Text: long[:sluice.MaxElementBytes+2], Refused: io.EOF},
		store.Line{Number: 5, Text: `{"c":{"a":2}}`},
		store.Line{Number: 6, Text: "broken"},
		store.Line{Number: 7, Text: `{"last":true}`})
	checkLines(t, readLines(t, "", LineOptions{}))
	if _, err := NewLineReader(strings.NewReader(` [{"a":1}]`), LineOptions{}); err == nil || !strings.Contains(err.Error(), "JSON array") {
		t.Errorf("an array: %v", err)
	}
}

func TestLinesOfCSV(t *testing.T) {
	const text = "name,when,note\r\nopen,1760000000,\"two\nlines \"\"q\"\"\"\n\nclick,,\nshort\na,b,c,d\nx\"y,1,2\nlast,2,3"
	checkLines(t, readLines(t, text, LineOptions{Columns: map[string]string{"name": "event", "when": "time"}}),
		store.Line{Number: 2, Text: `{"event":"open","time":"1760000000","note":"two\u000alines \"q\""}`},
		store.Line{Number: 5, Text: `{"event":"click"}`},
		store.Line{Number: 6, Text: `{"event":"short"}`},
		store.Line{Number: 7, Text: `{"event":"a","time":"b","note":"c"}`, Refused: io.EOF},
		store.Line{Number: 8, Text: `x"y,1,2`, Refused: io.EOF},
		store.Line{Number: 9, Text: `{"event":"last","time":"2","note":"3"}`})
	if _, err := NewLineReader(strings.NewReader(text), LineOptions{Columns: map[string]string{"name": "event", "wen": "time"}}); err == nil || !strings.Contains(err.Error(), `no column "wen" to be taken for time; there are name, when, note`) {
		t.Errorf("a column that is not there: %v", err)
	}
	checkLines(t, readLines(t, "event;app_id\nopen;x\n", LineOptions{Delimiter: ';'}), store.Line{Number: 2, Text: `{"event":"open","app_id":"x"}`})
	for header, want := range map[string]string{"event;app_id": "x;y", "event\tapp_id": "x\ty", "event|app_id": "x|y", `"event;a",app_id`: "x,y"} {
		lines := readLines(t, header+"\n"+want+"\n", LineOptions{})
		if len(lines) != 1 || !strings.Contains(lines[0].Text, `:"x","app_id":"y"}`) {
			t.Errorf("under the header %q: %v", header, lines)
		}
	}
}

// What a stray quote takes for its record is named line by line, and what is
// behind it is read.
func TestLinesOfStrayQuotes(t *testing.T) {
	refused := func(number int64, text string) store.Line {
		return store.Line{Number: number, Text: text, Refused: io.EOF}
	}
	lines := readLines(t, "a,b\n1,\"open\n2,x\n3,\"y\"\n4,z\n5,\"to the end\n6,x\n7,", LineOptions{})
	checkLines(t, lines, refused(2, `1,"open`), refused(3, "2,x"), refused(4, `3,"y"`), store.Line{Number: 5, Text: `{"a":"4","b":"z"}`},
		refused(6, `5,"to the end`), refused(7, "6,x"), refused(8, "7,"))
	for i, want := range map[int]string{0: `extraneous or missing " in quoted-field`, 1: "part of the record of line 2", 4: "the quote that opens in line 6 is not closed", 5: "of line 6"} {
		if got := lines[i].Refused; got == nil || !strings.Contains(got.Error(), want) {
			t.Errorf("line %d: %v, want %s", lines[i].Number, got, want)
		}
	}
	const behind = maxRecordBytes / 5 // of 11 bytes: twice what a record may have
	lines = readLines(t, "a,b\n1,\"never closed\n"+strings.Repeat("0123456789\n", behind)+"2,\"\n3,read\n", LineOptions{})
	if len(lines) != behind+3 || lines[0].Number != 2 || lines[behind+1].Refused == nil {
		t.Fatalf("behind a quote that is never closed: %d lines", len(lines))
	}
	if got := lines[0].Refused; got == nil || !strings.Contains(got.Error(), "the quote that opens in line 2 is not closed") {
		t.Errorf("a quote that is never closed: %v", got)
	}
	if got := lines[behind].Refused; got == nil || !strings.Contains(got.Error(), "behind the quote of line 2") {
		t.Errorf("a line behind it: %v", got)
	}
	checkLines(t, lines[behind+2:], store.Line{Number: behind + 4, Text: `{"a":"3","b":"read"}`})
	long := strings.Repeat("x", maxRecordBytes+1)
	checkLines(t, readLines(t, "a,b\n"+long+",1\n2,y\n", LineOptions{}), refused(2, long[:maxRecordBytes]), store.Line{Number: 3, Text: `{"a":"2","b":"y"}`})
}

func TestLinesOfPackedFiles(t *testing.T) {
	const text = "{\"a\":1}\n{\"a\":2}\n"
	var gz, zs bytes.Buffer
	g := gzip.NewWriter(&gz)
	z, err := zstd.NewWriter(&zs)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range []io.WriteCloser{g, z} {
		if _, err := io.WriteString(w, text); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, packed := range []string{gz.String(), zs.String()} {
		checkLines(t, readLines(t, packed, LineOptions{}), store.Line{Number: 1, Text: `{"a":1}`}, store.Line{Number: 2, Text: `{"a":2}`})
	}
	r, err := NewLineReader(strings.NewReader(gz.String()[:gz.Len()-4]), LineOptions{})
	for err == nil {
		_, err = r.Next()
	}
	if err == io.EOF {
		t.Error("a file that is cut short ends as if it were whole")
	}
}

// A column has no name of any size: each line has it again.
func TestLongNameOfAColumn(t *testing.T) {
	long := strings.Repeat("n", maxColumnBytes)
	if _, err := NewLineReader(strings.NewReader("a,"+long+"\n1,2\n"), LineOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := NewLineReader(strings.NewReader("a,"+long+"n\n1,2\n"), LineOptions{}); err == nil || !strings.Contains(err.Error(), "the name of column 2 has 1025 bytes") {
		t.Errorf("got %v", err)
	}
}
