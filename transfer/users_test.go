package transfer

import (
	"bytes"
	"context"
	"io"
	"slices"
	"strings"
	"testing"

	"sluice"
	"sluice/profile"
)

func TestParseUser(t *testing.T) {
	for _, tt := range []struct{ line, key, body, wrong string }{
		{line: `{"external_id":"u-1","email":"Ann@Example.com","n":1.50,"x":[1,"a"]}`, key: "1u-1", body: `{"email":"ann@example.com","n":1.50,"x":[1,"a"]}`},
		{line: `{"external_id":7,"n":{"inc":1}}`, key: "17", body: `{"n":{"inc":1}}`},
		{line: `{"external_id":"","user_alias":{"alias_name":"a","alias_label":"l"},"first_name":null}`, key: `2["l","a"]`, body: `{"first_name":null}`},
		{line: `{"external_id":null,"email":" A@example.com"}`, key: "3a@example.com", body: `{"email":"a@example.com"}`},
		{line: `{"phone":"+43 (1) 234-567"}`, key: "4+431234567", body: `{"phone":"+431234567"}`},
		{line: `{"external_id":"u","_update_existing_only":true}`, key: "1u", body: `{}`},
		{line: `{"first_name":"Ann"}`, wrong: "does not say who it is"},
		{line: `{"external_id":1.5}`, wrong: "external_id"},
		{line: `{"external_id":["u"]}`, wrong: "external_id"},
		{line: `{"external_id":"a\nb"}`, wrong: "control"},
		{line: `{"external_id":"` + strings.Repeat("x", 256) + `"}`, wrong: "255"},
		{line: `{"user_alias":{"alias_name":"a"}}`, wrong: "alias_label"},
		{line: `{"user_alias":"a"}`, wrong: "user_alias"},
		{line: `{"external_id":"u","email":"nobody"}`, wrong: "'email'"},
		{line: `{"external_id":"u","email_subscribe":"maybe"}`, wrong: "'email_subscribe'"},
		{line: `{"external_id":"u","_update_existing_only":1}`, wrong: "_update_existing_only"},
		{line: `{"external_id":"u","a\u0007":1}`, wrong: "name of attribute"},
		{line: `{"external_id":"u"`, wrong: "not JSON"},
		{line: `["u"]`, wrong: "not"},
	} {
		var u sluice.UserUpdate
		err := ParseUser(tt.line, &u)
		if tt.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), tt.wrong) {
				t.Errorf("%s: %v, want %q", tt.line, err, tt.wrong)
			}
			continue
		}
		if got := string('0'+rune(u.Key.Kind)) + u.Key.Name; err != nil || got != tt.key || u.Body != tt.body || u.Op != sluice.OpAttributes {
			t.Errorf("%s: key %q, body %s, %v", tt.line, got, u.Body, err)
		}
		if u.ExistingOnly != strings.Contains(tt.line, "only") {
			t.Errorf("%s: it creates nobody: %v", tt.line, u.ExistingOnly)
		}
	}
}

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
		var u sluice.UserUpdate
		if err := ParseUser(line.Text, &u); err != nil {
			t.Errorf("%s: %v", line.Text, err)
		}
	}
}

// usersTable is a snapshot of users alone.
type usersTable struct {
	sluice.Snapshot
	profiles []string // empty: merged into another
}

func (s usersTable) Tables() []sluice.DumpTable {
	return []sluice.DumpTable{{Name: "users", Columns: []sluice.DumpColumn{{Name: "part"}, {Name: "number"}, {Name: "to_number"}, {Name: "profile"}}}}
}

func (s usersTable) Rows(_ context.Context, _ string, fn func([]sluice.Cell) error) error {
	for _, p := range s.profiles {
		to := "0"
		if p == "" {
			to = "1"
		}
		if err := fn([]sluice.Cell{{Text: "0"}, {Text: "9"}, {Text: to}, {Text: p}}); err != nil {
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

// What is exported says what was known of a user, to whoever imports it.
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
			var u sluice.UserUpdate
			if err == nil {
				err = ParseUser(line.Text, &u)
			}
			if err != nil {
				t.Fatal(err)
			}
			p := &profile.Profile{}
			p.SetAttributes(u.Body, 7)
			got = append(got, u.Key.Name+" "+string(p.Append(nil)))
		}
		r.Close()
		object := `{"p":[true]}`
		if format == CSV {
			object = profile.Quoted(object) // a text
		}
		want := []string{
			`a"ä {"fields":{"current_location":{"longitude":1,"latitude":2},"email":"a@example.com"},"custom":{"n":1.50,"o":` + object + `,"t":"x,\ny"},"groups":{"g":["subscribed",7]}}`,
			`["l","b"] {"custom":{"n":2}}`,
			`008 {"fields":{"first_name":"12"}}`,
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s:\n%s\nwant\n%s", format, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}
