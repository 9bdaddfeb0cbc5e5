package main

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sluice/user/rule"
)

// fenced returns the blocks of a language in a page.
func fenced(page, language string) (all []string) {
	for _, m := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllStringSubmatch(page, -1) {
		all = append(all, m[1])
	}
	return all
}

// The rules of the guide are rules, and its requests are answered as it says.
func TestSegmentsGuide(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("../../docs/segments.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(content)
	rules := fenced(page, "json")
	for _, text := range rules {
		if _, err := rule.Compile(text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	s := startServe(t, t.TempDir(), "SLUICE_ROOT_KEY="+testRoot)
	for user, plan := range map[string]string{"u-7": "gold", "u-8": "free", "u-9": "gold"} {
		s.sent(t, 201, "/users/track/sync", fmt.Sprintf(`{"attributes":[{"external_id":%q,"plan":%q}]}`, user, plan))
	}
	id := ""
	requests := fenced(page, "http")
	for _, text := range requests {
		request, answer, _ := strings.Cut(strings.ReplaceAll(text, "$ID", id), "\n\n")
		first, body, _ := strings.Cut(request, "\n")
		method, path, _ := strings.Cut(first, " ")
		status, want, _ := strings.Cut(answer, "\n")
		gotStatus, got := s.ask(t, method, path, body)
		var gotValue, wantValue any
		if err := json.Unmarshal([]byte(got), &gotValue); err != nil {
			t.Fatalf("%s: %s: %v", first, got, err)
		}
		if err := json.Unmarshal([]byte(want), &wantValue); err != nil {
			t.Fatalf("%s: the guide's answer: %v", first, err)
		}
		if fmt.Sprint(gotStatus) != status || !fits(gotValue, wantValue) {
			t.Errorf("%s %s: %d %s\nthe guide says %s %s", first, body, gotStatus, got, status, want)
		}
		if made, ok := gotValue.(map[string]any)["id"].(string); ok {
			id = made
		}
	}
	if len(rules) < 3 || len(requests) < 5 {
		t.Errorf("%d rules and %d requests: the guide's form has changed, and this test shows little", len(rules), len(requests))
	}
}

// fits reports whether a value is what a guide shows, where "..." is any text.
func fits(got, shown any) bool {
	switch shown := shown.(type) {
	case map[string]any:
		object, ok := got.(map[string]any)
		for name, value := range shown {
			ok = ok && fits(object[name], value)
		}
		return ok && len(object) == len(shown)
	case []any:
		list, ok := got.([]any)
		return ok && slices.EqualFunc(list, shown, fits)
	case string:
		text, ok := got.(string)
		return ok && (shown == "..." || text == shown)
	}
	return got == shown
}
