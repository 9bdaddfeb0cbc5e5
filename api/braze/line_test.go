package braze

import (
	"strings"
	"testing"

	"sluice/user"
)

// A line of an import says who it is about and is checked as a call is.
func TestUserLine(t *testing.T) {
	for _, tt := range []struct{ line, key, body, wrong string }{
		{line: `{"external_id":"u-1","email":"Ann@Example.com","n":1.50,"x":[1,"a"]}`, key: "1u-1", body: `{"email":"ann@example.com","n":1.50,"x":[1,"a"]}`},
		{line: `{"external_id":7,"n":{"inc":1}}`, key: "17", body: `{"n":{"inc":1}}`},
		{line: `{"external_id":"","user_alias":{"alias_name":"a","alias_label":"l"},"first_name":null}`, key: `2["l","a"]`, body: `{"first_name":null}`},
		{line: `{"external_id":null,"email":" A@example.com"}`, key: "3a@example.com", body: `{"email":"a@example.com"}`},
		{line: `{"phone":"+43 (1) 234-567"}`, key: "4+431234567", body: `{"phone":"+431234567"}`},
		{line: `{"external_id":"u","_update_existing_only":true}`, key: "1u", body: `{}`},
		{line: `{"first_name":"Ann"}`, wrong: "'external_id'"},
		{line: `{"external_id":1.5}`, wrong: "external_id"},
		{line: `{"external_id":["u"]}`, wrong: "external_id"},
		{line: `{"external_id":"a\nb"}`, wrong: "control"},
		{line: `{"external_id":"` + strings.Repeat("x", 256) + `"}`, wrong: "255"},
		{line: `{"external_id":"u","n":99999999999999999999}`, wrong: "number"},
		{line: `{"user_alias":{"alias_name":"a","alias_label":"l"},"_update_existing_only":true}`, key: `2["l","a"]`, body: `{}`},
		{line: `{"user_alias":{"alias_name":"a"}}`, wrong: "alias_label"},
		{line: `{"user_alias":"a"}`, wrong: "user_alias"},
		{line: `{"external_id":"u","email":"nobody"}`, wrong: "'email'"},
		{line: `{"external_id":"u","email_subscribe":"maybe"}`, wrong: "'email_subscribe'"},
		{line: `{"external_id":"u","_update_existing_only":1}`, wrong: "_update_existing_only"},
		{line: `{"external_id":"u","a\u0007":1}`, wrong: "name of an attribute"},
		{line: `{"external_id":"u"`, wrong: "not JSON"},
		{line: `["u"]`, wrong: "not"},
	} {
		var u user.Update
		err := UserLine(tt.line, &u)
		if tt.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), tt.wrong) {
				t.Errorf("%s: %v, want %q", tt.line, err, tt.wrong)
			}
			continue
		}
		if got := string('0'+rune(u.Key.Kind)) + u.Key.Name; err != nil || got != tt.key || u.Body != tt.body || u.Op != user.OpAttributes {
			t.Errorf("%s: key %q, body %s, %v", tt.line, got, u.Body, err)
		}
		if u.ExistingOnly != strings.Contains(tt.line, "only") {
			t.Errorf("%s: it creates nobody: %v", tt.line, u.ExistingOnly)
		}
	}
}
