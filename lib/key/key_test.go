package key

import (
	"slices"
	"strings"
	"testing"
)

func TestKeys(t *testing.T) {
	seen := map[string]bool{}
	for range 100 {
		id, text := New()
		got, ok := ID(text)
		if !ok || got != id || !IsID(id) || len(text) != TextChars || seen[text] {
			t.Fatalf("key %q: id %q %v, want %q", text, got, ok, id)
		}
		seen[text] = true
		h := HashOf(text)
		if !h.Equal(HashOf(text)) {
			t.Fatalf("%q is not itself", text)
		}
		for i := range text {
			changed := text[:i] + string(text[i]^1) + text[i+1:]
			if h.Equal(HashOf(changed)) {
				t.Fatalf("%q passes for %q", changed, text)
			}
		}
	}
}

func TestFormOfKeys(t *testing.T) {
	_, good := New()
	for _, bad := range []string{
		"", "slk_", good[1:], good + "a", strings.ToUpper(good), "sla" + good[3:], strings.Replace(good, "_", "-", 1),
		good[:len(prefix)+IDChars] + "x" + good[len(prefix)+IDChars+1:], good[:len(good)-1] + "\n",
		good[:len(good)-1] + "1", strings.Repeat("_", TextChars), "root",
	} {
		if id, ok := ID(bad); ok {
			t.Errorf("%q has the form of a key, id %q", bad, id)
		}
	}
	if IsID(RootID) {
		t.Error("a key could be called root")
	}
}

func TestPermissions(t *testing.T) {
	for _, tt := range []struct {
		text, want, wrong string
	}{
		{"events:write", "events:write", ""},
		{" events:write , events:write ", "events:write", ""},
		{"", "", "empty"}, {"events:write,", "", "empty"}, {"events:reads", "", "unknown permission"}, {"*", "", "unknown"},
	} {
		got, err := ParsePermissions(tt.text)
		words := ""
		for _, p := range got {
			words += string(p)
		}
		if words != tt.want || (err != nil) != (tt.wrong != "") || err != nil && !strings.Contains(err.Error(), tt.wrong) {
			t.Errorf("%q: %v %v, want %q %q", tt.text, got, err, tt.want, tt.wrong)
		}
	}
	ours, braze := Words()
	for _, tt := range []struct {
		text string
		want []string
	}{{"braze", braze}, {"all", append(slices.Clone(ours), braze...)}, {"braze,users.track", braze}, {"events:write,braze", append([]string{"events:write"}, braze...)}} {
		var got []string
		permissions, err := ParsePermissions(tt.text)
		for _, p := range permissions {
			got = append(got, string(p))
		}
		slices.Sort(got)
		if want := slices.Sorted(slices.Values(tt.want)); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v %v, want %v", tt.text, got, err, want)
		}
	}
	if len(ours)+len(braze) != len(Permissions) || !slices.Contains(braze, "messages.send") || slices.Contains(braze, "messages:send") {
		t.Errorf("our own permissions: %v; of Braze's API: %v", ours, braze)
	}
	root, some, none := Root(), NewIdentity("a", "b", []string{"later:word", "events:write"}), NewIdentity("a", "b", nil)
	if !root.May(EventsWrite) || !some.May(EventsWrite) || none.May(EventsWrite) || some.May("x") {
		t.Error("who may do what is wrong")
	}
}
