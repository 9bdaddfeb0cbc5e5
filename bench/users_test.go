package bench

import (
	"testing"

	"sluice/api/braze"
	"sluice/user"
)

// The users of the bench can be imported, are as long as is said, and differ.
func TestUsersAreRealistic(t *testing.T) {
	const n = 2000
	total, seen := 0, make(map[string]bool)
	for i := range int64(n) {
		line := string(appendUser(nil, i))
		var u user.Update
		if err := braze.UserLine(line, &u); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		total, seen[u.Key.Name] = total+len(line)+1, true
	}
	if mean := total / n; mean < 290 || mean > 310 {
		t.Errorf("mean size is %d bytes, want 300", mean)
	}
	if len(seen) != n {
		t.Errorf("%d different users of %d", len(seen), n)
	}
}
