package api

import "testing"

// A mail of the mailboxes is shown in the charset that it says it has, as its reader shows it.
func TestAMailIsShownInItsCharset(t *testing.T) {
	for _, tt := range []struct{ message, want string }{
		{"Content-Type: text/html; charset=iso-8859-1\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n<p>Gr=FC=DFe</p>", "<p>Grüße</p>"},
		{"Content-Type: text/html; charset=windows-1252\r\n\r\n<p>5 \x80</p>", "<p>5 €</p>"},
		{"Content-Type: text/html; charset=utf-8\r\n\r\n<p>ä</p>", "<p>ä</p>"},
		{"Content-Type: text/html; charset=nobody\r\n\r\n<p>a\xfc</p>", "<p>a�</p>"},
		{"Content-Type: multipart/alternative; boundary=b\r\n\r\n--b\r\nContent-Type: text/html; charset=Shift_JIS\r\nContent-Transfer-Encoding: base64\r\n\r\nk/qWew==\r\n--b--\r\n", "日本"},
	} {
		if got := viewOf([]byte(tt.message)); got != tt.want {
			t.Errorf("%.60q is shown as %q, want %q", tt.message, got, tt.want)
		}
	}
	if got := subjectOf([]byte("Subject: =?windows-1252?q?5_=80?=\r\n\r\n")); got != "5 €" {
		t.Errorf("a subject is %q", got)
	}
}
