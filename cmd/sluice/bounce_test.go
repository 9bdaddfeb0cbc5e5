package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"sluice/track/bounce"
)

const reportOfTwo = "Subject: Undelivered\nMessage-ID: <r@mx>\nContent-Type: multipart/report; report-type=delivery-status; boundary=b\n\n" +
	"--b\nContent-Type: message/delivery-status\n\nReporting-MTA: dns; mx\n\n" +
	"Final-Recipient: rfc822; ann@example.com\nAction: failed\nStatus: 5.1.1\nDiagnostic-Code: smtp; 550 <no> & away\u202eJ\n\n" +
	"Final-Recipient: rfc822; bob@example.com\nAction: delayed\nStatus: 4.2.1\n\n--b--\n"

// bounceRun runs `sluice bounce` with a mail at its stdin.
func bounceRun(t *testing.T, stdin io.Reader, args ...string) result {
	t.Helper()
	var stdout, stderr buffer
	m := Main{Args: append([]string{"bounce"}, args...), Dir: t.TempDir(), Stdin: stdin, Stdout: &stdout, Stderr: &stderr}
	return result{m.Run(t.Context()), stdout.String(), stderr.String()}
}

// A mail gives the same lines from a file and from stdin, each with all members.
func TestBounceParsePrintsALineForEachEvent(t *testing.T) {
	file := filepath.Join(t.TempDir(), "report.eml")
	if err := os.WriteFile(file, []byte(reportOfTwo), 0o600); err != nil {
		t.Fatal(err)
	}
	got := bounceRun(t, nil, "parse", file)
	if got.code != exitOK || strings.Count(got.stdout, "\n") != 2 || got.stderr != "" {
		t.Fatalf("%+v", got)
	}
	members := []string{"click_url", "description", "event_id", "message_id", "metadata", "mta_response", "recipient", "reject_reason", "tags", "time", "type", "user_agent"}
	for line := range strings.Lines(got.stdout) {
		var event map[string]any
		if err := json.Unmarshal([]byte(line), &event); err != nil {
			t.Fatal(err)
		}
		if names := slices.Sorted(maps.Keys(event)); !slices.Equal(names, members) {
			t.Errorf("the members are %v, want %v", names, members)
		}
	}
	for _, want := range []string{`{"type":"bounced","recipient":"ann@example.com"`, `"mta_response":"550 <no> & away\u202eJ"`, `{"type":"deferred","recipient":"bob@example.com"`, `"tags":[]`} {
		if !strings.Contains(got.stdout, want) {
			t.Errorf("%s is missing in %s", want, got.stdout)
		}
	}
	for _, args := range [][]string{{"parse"}, {"parse", "-"}} {
		if piped := bounceRun(t, strings.NewReader(reportOfTwo), args...); piped != got {
			t.Errorf("%v gives %+v, a file %+v", args, piped, got)
		}
	}
}

// A pipe is read to its end, though the mail counts up to a bound only.
func TestBounceParseReadsThePipeToItsEnd(t *testing.T) {
	pipe := bytes.NewBuffer(append([]byte(reportOfTwo), make([]byte, 2*bounce.MaxMailBytes)...))
	if got := bounceRun(t, pipe, "parse"); got.code != exitOK || strings.Count(got.stdout, "\n") != 2 || pipe.Len() != 0 {
		t.Errorf("%d bytes are left; %+v", pipe.Len(), got)
	}
}

func TestBounceParseRefuses(t *testing.T) {
	for _, test := range []struct {
		stdin io.Reader
		args  []string
		code  int
		want  string
	}{
		{nil, nil, exitUsage, "want parse"},
		{nil, []string{"read"}, exitUsage, "want parse"},
		{nil, []string{"parse", "a", "b"}, exitUsage, "want parse"},
		{nil, []string{"parse", filepath.Join(t.TempDir(), "none.eml")}, exitFailed, "read the mail: open"},
		{strings.NewReader(" \r\n"), []string{"parse"}, exitFailed, "the mail is empty"},
		{iotest.ErrReader(errors.New("torn")), []string{"parse"}, exitFailed, "read the mail: torn"},
	} {
		if got := bounceRun(t, test.stdin, test.args...); got.code != test.code || !strings.Contains(got.stderr, test.want) || got.stdout != "" {
			t.Errorf("bounce %v: %+v, want %d, %s", test.args, got, test.code, test.want)
		}
	}
}
