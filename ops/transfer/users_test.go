package transfer

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"sluice"
	"sluice/lib/jsonscan"
	"sluice/store"
	"sluice/user/profile"
)

func TestUserCells(t *testing.T) {
	const file = "\ufeffexternal_id,first_name,n,ok,zip,text,email_open_tracking_disabled,current_location,list\n" +
		"007,123,-1.50,true,0815,\"a, \"\"b\"\"\",true,\"{\"\"longitude\"\":1,\"\"latitude\"\":2}\",[1]\n" +
		"8,,, ,1e3,,,,\n"
	r, err := NewLineReader(strings.NewReader(file), LineOptions{Cell: UserCell})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, want := range []string{
		`{"external_id":"007","first_name":"123","n":-1.50,"ok":true,"zip":"0815","text":"a, \"b\"","email_open_tracking_disabled":true,"current_location":{"longitude":1,"latitude":2},"list":"[1]"}`,
		`{"external_id":"8","ok":" ","zip":1e3}`,
	} {
		line, err := r.Next()
		if err != nil || line.Refused != nil || line.Text != want {
			t.Fatalf("got  %s (%v, %v)\nwant %s", line.Text, err, line.Refused, want)
		}
		if _, err := profile.Check(line.Text); err != nil {
			t.Errorf("%s: %v", line.Text, err)
		}
	}
}

// usersTable is a snapshot of users alone.
type usersTable struct {
	store.Snapshot
	profiles []string // empty: merged into another
}

func (s usersTable) Tables() []store.DumpTable {
	return []store.DumpTable{{Name: "users", Columns: []store.DumpColumn{{Name: "part"}, {Name: "number"}, {Name: "to_number"}, {Name: "profile"}}}}
}

func (s usersTable) Rows(_ context.Context, _ string, fn func([]store.Cell) error) error {
	for _, p := range s.profiles {
		to := "0"
		if p == "" {
			to = "1"
		}
		if err := fn([]store.Cell{{Text: "0"}, {Text: "9"}, {Text: to}, {Text: p}}); err != nil {
			return err
		}
	}
	return nil
}

var exportedUsers = usersTable{profiles: []string{
	`{"external_id":"a\"ä","aliases":[["l","x"]],"created":5,"fields":{"current_location":{"longitude":1,"latitude":2},"email":"a@example.com"},"custom":{"n":1.50,"o":{"p":[true]},"t":"x,\ny"},"events":{"e":[1,2,3]},"groups":{"g":["subscribed",7]}}`,
	``,
	`{"aliases":[["l","b"],["l","c"]],"custom":{"n":2}}`,
	`{"external_id":"008","fields":{"first_name":"12"}}`,
}}

// keyOf is by what a line names its user.
func keyOf(line string) (key string) {
	for m := jsonscan.Read(line); m.Next(); {
		switch m.Key {
		case "external_id":
			return m.Value.Text()
		case "user_alias":
			key = m.Value.Raw
		}
	}
	return key
}

// An exported user is the same after an import.
func TestExportedUsersComeBack(t *testing.T) {
	for _, format := range []Format{NDJSON, CSV} {
		var b bytes.Buffer
		n, err := ExportUsers(t.Context(), exportedUsers, format, &b)
		if err != nil || n != 3 {
			t.Fatalf("%d users, %v", n, err)
		}
		if format == CSV && !strings.HasPrefix(b.String(), "external_id,user_alias,current_location,email,first_name,subscription_groups,n,o,t\n") {
			t.Errorf("header: %s", b.String())
		}
		r, err := NewLineReader(&b, LineOptions{Cell: UserCell})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for {
			line, err := r.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			body, err := profile.Check(line.Text)
			if err != nil {
				t.Fatal(err)
			}
			p := &profile.Profile{}
			p.SetAttributes(body, 7)
			got = append(got, keyOf(line.Text)+" "+string(p.Append(nil)))
		}
		r.Close()
		object := `{"p":[true]}`
		if format == CSV {
			object = profile.Quoted(object) // a text
		}
		want := []string{
			`a"ä {"fields":{"current_location":{"longitude":1,"latitude":2},"email":"a@example.com"},"custom":{"n":1.50,"o":` + object + `,"t":"x,\ny"},"groups":{"g":["subscribed",7]}}`,
			`{"alias_name":"b","alias_label":"l"} {"custom":{"n":2}}`,
			`008 {"fields":{"first_name":"12"}}`,
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s:\n%s\nwant\n%s", format, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// A user's profile may be larger than a line that is imported has room for. It then
// has several lines, and all of them together are the user.
func TestExportedUsersHaveLinesThatAreImported(t *testing.T) {
	many, long := &profile.Profile{ExternalID: "many"}, &profile.Profile{}
	for i := range profile.MaxCustomAmount {
		many.Custom.Set(fmt.Sprint("a", i), "1")
	}
	for i := range 60 {
		long.Custom.Set(fmt.Sprint("a", i), profile.Quoted(strings.Repeat("\"", 25_000-10)))
	}
	for _, p := range []*profile.Profile{many, long} {
		p.Fields.Set("email", `"a@example.com"`)
		p.Fields.Set("first_name", `"Ann"`)
		p.SetGroup("g", true, 7)
		var b bytes.Buffer
		if n, err := ExportUsers(t.Context(), usersTable{profiles: []string{string(p.Append(nil))}}, NDJSON, &b); err != nil || n != 1 {
			t.Fatalf("%d users, %v", n, err)
		}
		got := &profile.Profile{ExternalID: p.ExternalID}
		lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
		for i, line := range lines {
			body, err := profile.Check(line)
			if err != nil || len(line) > sluice.MaxElementBytes {
				t.Fatalf("line %d has %d bytes: %v", i, len(line), err)
			}
			if who := keyOf(line); who != p.ExternalID || who == "" && !strings.Contains(line, `"email":"a@example.com"`) {
				t.Errorf("line %d is of %q", i, who)
			}
			got.SetAttributes(body, 7)
		}
		if len(lines) < 3 || string(got.Append(nil)) != string(p.Append(nil)) {
			t.Errorf("%d lines make a profile of %d bytes, it had %d", len(lines), len(got.Append(nil)), len(p.Append(nil)))
		}
	}
}
