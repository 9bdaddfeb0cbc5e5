package run

import (
	"testing"

	"sluice/user"
)

// A mail is named as before: databases have what was made by those names.
func TestMailNameStays(t *testing.T) {
	id := user.ID{Partition: 3, Number: 65}
	if got, want := mailName(7, "hello", 2, id), "journey/7/hello/2/000000030000000000000041"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if back, ok := user.ParseID(id.String()); !ok || back != id {
		t.Errorf("%s is read as %v", id, back)
	}
}
