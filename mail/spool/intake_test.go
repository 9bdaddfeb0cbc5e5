package spool

import (
	"strings"
	"testing"
	"time"

	"sluice/mail"
	"sluice/test/clocktest"
)

// A message of a request with a name has the id that its caller made. An id of
// another sort does not begin with its time, and would never reach its
// retention.
func TestNamedRequestsNameTheirMessages(t *testing.T) {
	in := Intake{Partitions: 1, Clock: clocktest.At(time.UnixMilli(1_760_000_000_000))}
	_, err := in.Submit(t.Context(), "n", []mail.Draft{{To: []string{"ann@example.com"}}})
	if err == nil || !strings.Contains(err.Error(), "NamedMessageID") {
		t.Errorf("a draft without an id: %v", err)
	}
}
