package bounce

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
	"unsafe"

	"sluice"
)

// dsn is a report whose delivery status is these blocks.
func dsn(status string) string {
	return "Message-ID: <r@mx>\nContent-Type: multipart/report; report-type=delivery-status; boundary=b\n\n--b\nContent-Type: message/delivery-status\n\n" + status + "\n--b--\n"
}

// shown are events in short: type, recipient, status, class and reason.
func shown(events []Event) string {
	var all []string
	for _, e := range events {
		all = append(all, strings.Join(strings.Fields(strings.Join([]string{e.Type, e.Recipient, e.Metadata["status"], e.Metadata["bounce_class"], e.RejectReason}, " ")), " "))
	}
	return strings.Join(all, "; ")
}

// What servers write beside the standard is read as far as it is plain.
func TestDeliveryStatus(t *testing.T) {
	const mta = "Reporting-MTA: dns; mx\n\n"
	for name, test := range map[string]struct{ status, want string }{
		"comments":             {mta + "Final-Recipient: rfc822 (an address); <ann@example.com> (Ann (the first))\nAction: failed (for good)\nStatus: 5.1.1 (no such user)\n", "bounced ann@example.com 5.1.1 hard invalid"},
		"no block of the mail": {"Final-Recipient: rfc822; ann@example.com\nAction: failed\nStatus: 5.1.1\n", "bounced ann@example.com 5.1.1 hard invalid"},
		"no empty line": {mta + "Original-Recipient: rfc822; ann@example.com\nFinal-Recipient: rfc822; a@x\nAction: failed\nStatus: 5.1.1\n" +
			"Original-Recipient: rfc822; bob@example.com\nFinal-Recipient: rfc822; b@x\nAction: delayed\nStatus: 4.2.1\n", "bounced ann@example.com 5.1.1 hard invalid; deferred bob@example.com 4.2.1 soft"},
		"empty lines":         {"\n\n" + mta + "\n \t\nFinal-Recipient: rfc822; ann@example.com\nAction: failed\nStatus: 5.1.1\n\n\n", "bounced ann@example.com 5.1.1 hard invalid"},
		"the first counts":    {mta + "Final-Recipient: rfc822; ann@example.com\nFinal-Recipient: rfc822; ann@example.com\nAction: failed\nAction: delayed\nStatus: 5.1.1\nStatus: 4.0.0\n", "bounced ann@example.com 5.1.1 hard invalid"},
		"folded":              {mta + "Final-Recipient:\n rfc822;\n\tann@example.com\nAction:\n  FAILED\nStatus:\n\t5.1.1\n", "bounced ann@example.com 5.1.1 hard invalid"},
		"lines without sense": {mta + " continues nothing\nno field\n more of it\nbad name: x\n: none\nFinal-Recipient : rfc822; ann@example.com\nAction: failed\nStatus: 5.1.1\n", "bounced ann@example.com 5.1.1 hard invalid"},
		"no action":           {mta + "Final-Recipient: rfc822; ann@example.com\nStatus: 4.7.1\n", "deferred ann@example.com 4.7.1 block"},
		"unknown action":      {mta + "Final-Recipient: rfc822; ann@example.com\nAction: lost\n", "unknown ann@example.com"},
		"no recipient":        {mta + "Action: failed\nStatus: 5.1.1\n", "unknown"},
		"no type":             {mta + "Final-Recipient: ann@example.com\nAction: failed\nStatus: 5.1.1\n", "bounced ann@example.com 5.1.1 hard invalid"},
		"x400":                {mta + "Final-Recipient: x400; /C=DE/S=ann/\nAction: failed\nStatus: 5.1.1\n", "bounced 5.1.1 hard invalid"},
		"the reply says more": {mta + "Final-Recipient: rfc822; ann@example.com\nAction: failed\nStatus: 5.0.0\nDiagnostic-Code: smtp; 550 5.2.1 disabled\n", "bounced ann@example.com 5.2.1 hard bounced"},
		"only the reply":      {mta + "Final-Recipient: rfc822; ann@example.com\nAction: failed\nDiagnostic-Code: smtp; 550 5.1.1 none\n", "bounced ann@example.com 5.1.1 hard invalid"},
		"three digits":        {mta + "Final-Recipient: rfc822; ann@example.com\nAction: failed\nStatus: 5.0.0\nDiagnostic-Code: smtp; 550 no such user\n", "bounced ann@example.com 5.0.0 other bounced"},
		"listed, no code":     {mta + "Final-Recipient: rfc822; ann@example.com\nAction: failed\nStatus: 5.0.0\nDiagnostic-Code: smtp; 554 on the blocklist\n", "bounced ann@example.com 5.0.0 block blocked"},
		"spam":                {mta + "Final-Recipient: rfc822; ann@example.com\nAction: failed\nStatus: 5.7.1\nDiagnostic-Code: smtp; 554 5.7.1 looks like spam\n", "bounced ann@example.com 5.7.1 block spam"},
		"the message":         {mta + "Final-Recipient: rfc822; ann@example.com\nAction: failed\nStatus: 5.3.4\n", "bounced ann@example.com 5.3.4 other other"},
		"given up":            {mta + "Final-Recipient: rfc822; ann@example.com\nAction: failed\nStatus: 4.2.1\n", "bounced ann@example.com 4.2.1 soft timed_out"},
		"delivered": {mta + "Final-Recipient: rfc822; a@example.com\nAction: delivered\nStatus: 2.1.5\n\nFinal-Recipient: rfc822; b@example.com\nAction: relayed\n\n" +
			"Final-Recipient: rfc822; c@example.com\nAction: expanded\nStatus: 2.0.0\n", "delivered a@example.com 2.1.5; delivered b@example.com; delivered c@example.com 2.0.0"},
		"twice":   {mta + strings.Repeat("Final-Recipient: rfc822; ann@example.com\nAction: failed\nStatus: 5.1.1\n\n", 2), "bounced ann@example.com 5.1.1 hard invalid"},
		"nothing": {"", "unknown"},
	} {
		if got := shown(Parse([]byte(dsn(test.status)))); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

// Mails whose parts are broken give what can be read of them.
func TestBrokenMails(t *testing.T) {
	const fields = "Final-Recipient: rfc822; ann@example.com\nAction: failed\nStatus: 5.1.1\n"
	const part = "Content-Type: message/delivery-status\n\nReporting-MTA: dns; mx\n\n" + fields
	const bounced = "bounced ann@example.com 5.1.1 hard invalid"
	for name, test := range map[string]struct{ mail, want string }{
		"no end":                  {"Content-Type: multipart/report; boundary=b\n\n--b\n" + part, bounced},
		"no boundary":             {"Content-Type: multipart/report\n\n--b\n" + part + "\n--b--\n", bounced},
		"another boundary":        {"Content-Type: multipart/report; boundary=c\n\n--b\n" + part + "\n--b--\n", bounced},
		"a broken type":           {"Content-Type: multipart/report; boundary=\"b\"; =; x; boundary=c\n\n--b\n" + part + "\n--b--\n", bounced},
		"a boundary and spaces":   {"Content-Type: multipart/report; boundary=b\n\n--b \t\n" + part + "\n--b-- \n", bounced},
		"longer boundaries":       {"Content-Type: multipart/report; boundary=b\n\n--bb\n--b\n" + part + "\n--b--\n", bounced},
		"not called a report":     {"Content-Type: multipart/mixed; boundary=b\n\n--b\n" + part + "\n--b\n\nfooter\n--b--\n", bounced},
		"the status alone":        {part, bounced},
		"base64":                  {"Content-Type: multipart/report; boundary=b\n\n--b\nContent-Type: message/delivery-status\nContent-Transfer-Encoding: BASE64 (all)\n\nRmluYWwtUmVjaXBpZW50OiByZmM4MjI7IGFubkBleGFtcGxlLmNvbQpBY3Rpb246IGZhaWxlZApT\n!dGF0dXM6IDUuMS4xCg==\n--b--\n", bounced},
		"torn base64":             {"Content-Type: message/delivery-status\nContent-Transfer-Encoding: base64\n\nRmluYWwtUmVjaXBpZW50OiByZmM4MjI7IGFubkBleGFtcGxlLmNvbQpBY3Rpb246IGZhaWxlZApTdGF0dXM6IDUuMS4xC", bounced},
		"quoted-printable":        {"Content-Type: message/delivery-status\nContent-Transfer-Encoding: quoted-printable\n\nFinal-Recipient: rfc822; ann=40example.com\nAction: fai=\nled\nStatus: 5.1.1\n", bounced},
		"broken quoted-printable": {"Content-Type: message/delivery-status\nContent-Transfer-Encoding: quoted-printable\n\nX: =ZZ\n" + fields, bounced},
		"an mbox":                 {"\n\nFrom MAILER-DAEMON Mon Nov 23 10:00:00 2026\n" + part, bounced},
		"a status inside a mail":  {"Subject: FW\nContent-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: message/rfc822\n\n" + part + "\n--b--\n", "unknown"},
		"called an answer":        {"From: Mail System <noreply@mx.example>\nAuto-Submitted: auto-replied\n" + part, bounced},
		"the head alone":          {"Subject: x", "unknown"},
		"no head":                 {"\nbody", "unknown"},
		"nothing":                 {"", "unknown"},
	} {
		for _, end := range []string{"\n", "\r\n"} {
			if got := shown(Parse([]byte(strings.ReplaceAll(test.mail, "\n", end)))); got != test.want {
				t.Errorf("%s, ends %q: %s, want %s", name, end, got, test.want)
			}
		}
	}
}

// Bytes that are no UTF-8 and words in charsets that are not known do no harm.
func TestTextsAreUTF8(t *testing.T) {
	events := Parse([]byte("Subject: =?iso-8859-1?Q?Zur=FCck?= =?utf-8?B?w7w=?= =?Windows-1252?Q?=80=81=9F=E9?=\n" + dsn("Final-Recipient: rfc822; ann@example.com\nAction: failed\nStatus: 5.1.1\nDiagnostic-Code: smtp; 550 5.1.1 kein Empf\xe4nger\x1b[2J\x00 da\nX-Name: =?koi8-r?B?8A==?=\n")))
	e := events[0]
	if e.Description != "Zurückü€\uFFFDŸé" || e.MTAResponse != "550 5.1.1 kein Empfänger [2J da" || e.Metadata["x_name"] != "=?koi8-r?B?8A==?=" {
		t.Errorf("%+v", e)
	}
}

func TestAddresses(t *testing.T) {
	for _, test := range []struct{ original, final, want string }{
		{"rfc822;ann+2Btag@example.com", "rfc822; ann@example.com", "ann+tag@example.com"},         // xtext
		{"rfc822;ann+2B2024+3Dx@example.com", "rfc822; ann@example.com", "ann+2024=x@example.com"}, // xtext
		{"rfc822;ann+2024@example.com", "rfc822; ann@example.com", "ann+2024@example.com"},         // a space needs quotes: a tag
		{"rfc822;ann+41@example.com", "rfc822; ann@example.com", "ann+41@example.com"},             // nobody encodes an A
		{"rfc822;ann+2b@example.com", "rfc822; ann@example.com", "ann+2b@example.com"},             // digits of xtext are in upper case
		{"rfc822;ann+tag@example.com", "rfc822; ann@example.com", "ann+tag@example.com"},           // decoded before
		{"rfc822;ann+2Bx@example.com", "rfc822; Ann+2Bx@example.com", "ann+2Bx@example.com"},       // alike: nothing to decode
		{"rfc822;ann+", "rfc822; ann@example.com", "ann+"},                                         // torn
		{"rfc822;ann+2B+FF@example.com", "", "ann+2B+FF@example.com"},                              // no UTF-8
		{`utf-8;j\x{F6}rg+2B@b\x{FC}cher.example`, "", "jörg+2B@bücher.example"},                   // RFC 6533, +2B as it is
		{`utf-8;a\x{0}\x{D800}\x{zz}\x{@x.example`, "", `a\x{0}\x{D800}\x{zz}\x{@x.example`},       // no characters
		{`utf-8;j\x{0000F6}rg\x{00000F6}@x.example`, "", `jörg\x{00000F6}@x.example`},              // more digits than a character has
		{`rfc822; "ann (home); x"@example.com (Ann)`, "", `"ann (home); x"@example.com`},           // no comment in quotes
		{"", "SMTP; ann@example.com", "ann@example.com"}, {"", "RFC822 ;  < ann@example.com > ", "ann@example.com"}, {"", "\t Smtp\t;<ann@example.com>", "ann@example.com"}, {"SMTP;ann@example.com", "x400; /S=ann/", "ann@example.com"},
		{"<ann@example.com>", "", "ann@example.com"}, {"rfc822; ann@example.com (", "", "ann@example.com ("},
		{"x400; /S=ann/", "rfc822; ann@example.com", "ann@example.com"}, {"", "rfc822; ann@example.com", "ann@example.com"},
	} {
		got := Parse([]byte(dsn("Original-Recipient: " + test.original + "\nFinal-Recipient: " + test.final + "\nAction: failed\n")))[0].Recipient
		if got != test.want {
			t.Errorf("%s, %s: %s, want %s", test.original, test.final, got, test.want)
		}
	}
}

// What all events keep of the returned head is made once for all of them, in each form: at
// each of 1,000 events it would take seconds for a mail of 80 KB, from anybody.
func TestReturnedHeadIsReadOnce(t *testing.T) {
	const id = "=?windows-1252?Q?=80=81?="
	head := "Feedback-ID: " + id + "\nCFBL-Feedback-ID: c " + id + "\nReturn-Path: r " + id + "\n\n"
	report := func(kind, status string) string {
		return "Content-Type: multipart/report; boundary=b\n\n--b\nContent-Type: " + kind + "\n\n" + status + "\n--b\nContent-Type: message/rfc822\n\n" + head + "--b--\n"
	}
	const a, b = "a@example.com", "b@example.com"
	for name, text := range map[string]string{
		"delivery status": report("message/delivery-status", "Final-Recipient: rfc822; "+a+"\n\nFinal-Recipient: rfc822; "+b+"\n"),
		"feedback":        report("message/feedback-report", "Feedback-Type: abuse\nOriginal-Rcpt-To: "+a+"\nOriginal-Rcpt-To: "+b+"\n"),
		"qmail":           "Subject: x\n\n" + qmailBegins[0] + "\n\n<" + a + ">:\nno\n\n<" + b + ">:\nno\n\n--- Below this line is a copy\n\n" + head,
		"exim":            "X-Failed-Recipients: " + a + ", " + b + "\n\n" + a + "\n no\n------ This is a copy\n\n" + head,
	} {
		events := Parse([]byte(text))
		if len(events) != 2 || events[0].Metadata["feedback_id"] != "€\uFFFD" {
			t.Errorf("%s: %+v", name, events)
			continue
		}
		for _, key := range []string{"feedback_id", "cfbl_feedback_id", "return_path"} {
			if one, other := events[0].Metadata[key], events[1].Metadata[key]; one == "" || unsafe.StringData(one) != unsafe.StringData(other) {
				t.Errorf("%s: %s is made again for the second event: %q, %q", name, key, one, other)
			}
		}
	}
}

// The id is of what happened, not of the report: one report read twice, and a warning
// that is repeated, are one event. Another recipient, status or mail is another event.
func TestEventID(t *testing.T) {
	id := func(message, recipient, action, status, report string) string {
		m := "Message-ID: <" + report + ">\nIn-Reply-To: <" + message + ">\nContent-Type: message/delivery-status\n\nFinal-Recipient: rfc822; " + recipient + "\nAction: " + action + "\nStatus: " + status + "\n"
		return Parse([]byte(m))[0].EventID
	}
	first := id("m", "ann@example.com", "delayed", "4.4.1", "r1")
	if again := id("m", "Ann@Example.com", "Delayed", "4.4.1", "r2"); again != first {
		t.Errorf("a repeated warning is %s, the first %s", again, first)
	}
	seen := map[string]bool{first: true}
	for _, other := range []string{
		id("n", "ann@example.com", "delayed", "4.4.1", "r1"), id("m", "bob@example.com", "delayed", "4.4.1", "r1"), id("m", "ann@example.com", "failed", "4.4.1", "r1"),
		id("m", "ann@example.com", "delayed", "4.4.7", "r1"), id("", "ann@example.com", "delayed", "4.4.1", "r1"), id("", "ann@example.com", "delayed", "4.4.1", "r2"),
		id("report:r1", "ann@example.com", "failed", "4.4.1", "x"),
	} {
		if len(other) != 2*eventIDBytes || seen[other] {
			t.Errorf("%s is no id of its own", other)
		}
		seen[other] = true
	}
}

// Which mail a report is about: the returned head says it first.
func TestMessageID(t *testing.T) {
	const status = "--b\nContent-Type: message/delivery-status\n\nX-Original-Message-ID: <gmail@x>\n\nFinal-Recipient: rfc822; a@x.example\nAction: failed\n"
	for _, test := range []struct{ head, part, want string }{
		{"In-Reply-To: <reply@x>\n", "--b\nContent-Type: text/rfc822-headers\n\nMessage-ID: (ours)\n <head@x>\nMessage-ID: <second@x>\n", "head@x"},
		{"In-Reply-To: <reply@x>\n", "--b\nContent-Type: message/rfc822\n\n\n \t\n\nMessage-ID: <head@x>\n\nbody\n", "head@x"},
		{"In-Reply-To: <reply@x>\nReferences: <a@x>\n", "", "reply@x"},
		{"References: <a@x>\n <b@x>\n", "", "b@x"},
		{"", "", "gmail@x"},
		{"", "--b\nContent-Type: text/rfc822-headers\nContent-Transfer-Encoding: base64\n\nTWVzc2FnZS1JRDogPGhlYWRAeD4K\n", "head@x"},
	} {
		m := test.head + "Content-Type: multipart/report; boundary=b\n\n" + status + test.part + "--b--\n"
		if got := Parse([]byte(m))[0].MessageID; got != test.want {
			t.Errorf("%q %q: %s, want %s", test.head, test.part, got, test.want)
		}
	}
}

func TestTimes(t *testing.T) {
	for _, test := range []struct{ last, arrival, want string }{
		{"Mon, 23 Nov 2026 10:00:05 +0100 (CET)", "x", "2026-11-23T09:00:05Z"},
		{"yesterday", "Mon, 23 Nov 2026 10:00:05 -0500", "2026-11-23T15:00:05Z"},
		{"Mon, 23 Nov 2026 10:00:05 +0100 (" + strings.Repeat("x", maxDateBytes) + ")", "", ""},
		{"Mon, 23 Nov 1926 10:00:05 +0000", "", ""},
		{"", "", ""},
	} {
		m := dsn("Arrival-Date: " + test.arrival + "\n\nFinal-Recipient: rfc822; a@x.example\nAction: failed\nLast-Attempt-Date: " + test.last + "\n")
		if got := Parse([]byte(m))[0].Time; got != test.want {
			t.Errorf("%s, %s: %s, want %s", test.last, test.arrival, got, test.want)
		}
	}
}

// An extension goes into the metadata, and is not taken for a word of ours.
func TestExtensions(t *testing.T) {
	e := Parse([]byte(dsn("X-Queue: of the mail\nReporting-MTA: dns; mx (it)\n\nFinal-Recipient: rfc822; a@x.example\nAction: failed\nStatus: 5.1.1\nX-Queue: of the recipient\nBounce-Class: soft\n" + strings.Repeat("n", maxKeyBytes+1) + ": long\n")))[0]
	if e.Metadata["x_queue"] != "of the recipient" || e.Metadata["bounce_class"] != "hard" || e.Metadata["reporting_mta"] != "mx" || len(e.Metadata) != 6 {
		t.Errorf("%v", e.Metadata)
	}
}

func TestFeedback(t *testing.T) {
	for kind, want := range map[string]string{
		"abuse": "complained", "Fraud": "complained", "virus": "complained", "other (unsure)": "complained", "opt-out": "unsubscribed", "Unsubscribe": "unsubscribed",
		"not-spam": "unknown", "auth-failure": "unknown", "": "unknown",
	} {
		m := "Content-Type: multipart/report; report-type=feedback-report; boundary=b\n\n--b\nContent-Type: message/feedback-report\n\n\n \nFeedback-Type: " + kind +
			"\nOriginal-Rcpt-To: <ann@example.com>\nOriginal-Rcpt-To: bob@example.com\n\n--b\nContent-Type: message/rfc822\n\nMessage-ID: <m@x>\nTo: ann@example.com, bob@example.com\n\n--b--\n"
		events := Parse([]byte(m))
		if len(events) != 2 || events[0].Type != want || events[0].Recipient != "ann@example.com" || events[1].Recipient != "bob@example.com" || events[0].MessageID != "m@x" {
			t.Errorf("%s: %s, want %s", kind, shown(events), want)
		}
	}
}

// A recipient that a report does not name is the one of the returned mail, if it has
// one only: of several nobody knows which has complained.
func TestRedactedRecipients(t *testing.T) {
	for head, want := range map[string]string{
		"To: Ann <ann@example.com>": "ann@example.com", "To: ann@example.com, bob@example.com": "", "X: y": "", "To: broken <": "",
		"To: =?windows-1252?Q?Ann?= <ann@example.com>": "ann@example.com", "To: Ann, Sales <ann@example.com>": "ann@example.com", "To: ann@example.com <Ann@example.com>": "Ann@example.com",
		"To: ann@example.com, Sales, Bob <bob@example.com>": "", "To: Ann, Sales <ann@example.com>, <bob@example.com>": "", "To: Ann, Sales ann@example.com": "ann@example.com",
		"To: redacted@example.com\nX-HmXmrOriginalRecipient: <ann@outlook.example>": "ann@outlook.example",
	} {
		m := "Content-Type: multipart/report; boundary=b\n\n--b\nContent-Type: message/feedback-report\n\nFeedback-Type: abuse\n\n--b\nContent-Type: text/rfc822-headers\n\n" + head + "\n\n--b--\n"
		if got := Parse([]byte(m)); len(got) != 1 || got[0].Type != sluice.EventComplained || got[0].Recipient != want {
			t.Errorf("%s: %s, want %s", head, shown(got), want)
		}
	}
}

func TestAnswers(t *testing.T) {
	for head, want := range map[string]string{
		"Auto-Submitted: auto-replied": "reply", "Auto-Submitted: Auto-Replied (vacation); owner=x": "reply", "Auto-Submitted: no": "", "Auto-Submitted: auto-generated": "",
		"Auto-Submitted: auto-generated\nSubject: Automatic reply: Sale": "reply", "Subject: Automatic reply: Sale": "", "Subject: Re: Automatic reply: Sale\nAuto-Submitted: auto-generated": "",
		"X-Auto-Response-Suppress: All\nSubject: =?utf-8?Q?R=C3=A9ponse_automatique?=": "reply", "X-Auto-Response-Suppress: All": "",
		"X-Auto-Response-Suppress: All\nSubject: =?windows-1252?Q?R=E9ponse_automatique?= x": "reply", "X-Auto-Response-Suppress: All\nSubject: =?iso-8859-1?Q?R=E9ponse_automatique?= x": "reply",
		"Auto-Submitted: auto-replied\nFrom: =?windows-1252?Q?Ann?= <ann@example.com>": "reply", "Auto-Submitted: auto-replied\nFrom: Ann, Sales <ann@example.com>": "reply",
		"Auto-Submitted: auto-replied\nFrom: Ann, a<b <ann@example.com> (away": "reply", "Auto-Submitted: auto-replied\nFrom: postmaster@x.example, Sales, Ann <ann@example.com> <none>": "reply",
		"X-Autoreply: yes": "reply", "X-Autoreply: no": "", "Precedence: Auto_Reply": "reply", "Precedence: bulk": "", "Precedence: bulk\nPrecedence: auto_reply": "reply",
		"X-Autorespond: vacation": "reply", "X-TMDA-Confirm: x@y": "challenge", "Auto-Submitted: auto-replied\nX-TMDA-Confirm: x@y": "challenge",
		"Auto-Submitted: auto-replied\nFrom: Mailer-Daemon@mx.example": "", "Auto-Submitted: auto-replied\nFrom: <postmaster@mx.example>": "",
	} {
		for _, from := range []string{"=?windows-1252?Q?Postmaster?= <postmaster@x.example>", "=?koi8-r?Q?P?= <postmaster@mx>", "Mail Delivery System, MX 1 <mailer-daemon@x.example>", "MAILER-DAEMON (Mail Delivery System)", "Mail System <MAILER-DAEMON>"} {
			if got := Parse([]byte("From: " + from + "\n" + head + "\n\nText\n"))[0]; got.Type != sluice.EventUnknown && !strings.Contains(head, "From:") {
				t.Errorf("%s, %s: %s", from, head, got.Type)
			}
		}
		if !strings.Contains(head, "From:") {
			head += "\nFrom: Ann <ann@example.com>"
		}
		e := Parse([]byte(head + "\nIn-Reply-To: <m@x>\n\nText\n"))[0]
		if e.Metadata["auto_response"] != want || (e.Type == sluice.EventAutoresponded) != (want != "") || want != "" && e.Recipient != "ann@example.com" {
			t.Errorf("%s: %s, %v, want %s", head, shown([]Event{e}), e.Metadata, want)
		}
	}
}

// What is beyond a bound is not read, and nothing takes long.
func TestBounds(t *testing.T) {
	group := func(n int) string {
		return fmt.Sprintf("Final-Recipient: rfc822; u%d@example.com\nAction: failed\nStatus: 5.1.1\n\n", n)
	}
	var many, one strings.Builder
	for n := range maxRecipients + 50 {
		many.WriteString(group(n))
		one.WriteString(strings.TrimSuffix(group(n), "\n"))
	}
	if got := len(Parse([]byte(dsn(many.String())))); got != maxRecipients {
		t.Errorf("%d events, want %d", got, maxRecipients)
	}
	if got := len(Parse([]byte(dsn(one.String())))); got == 0 || got > maxFields {
		t.Errorf("%d events of one block", got)
	}
	fields := strings.Repeat("X: y\n", maxFields)
	for name, test := range map[string]struct{ mail, want string }{
		"parts": {"Content-Type: multipart/mixed; boundary=b\n\n" + strings.Repeat("--b\n\nx\n", maxParts) + "--b\nContent-Type: message/delivery-status\n\n" + group(1) + "--b--\n", "unknown"},
		"parts of parts": {"Content-Type: multipart/mixed; boundary=b\n\n" + strings.Repeat("--b\nContent-Type: multipart/mixed; boundary=c\n\n"+strings.Repeat("--c\n\nx\n", 10), maxParts/10) +
			"--b\nContent-Type: message/delivery-status\n\n" + group(1) + "--b--\n", "unknown"},
		"levels": {nested(maxLevels+1, "Content-Type: message/delivery-status\n\n"+group(1)), "unknown"},
		"level":  {nested(maxLevels, "Content-Type: message/delivery-status\n\n"+group(1)), "bounced u1@example.com 5.1.1 hard invalid"},
		"fields": {fields + "Auto-Submitted: auto-replied\n\n", "unknown"},
		"field":  {"X: " + strings.Repeat("x", maxFieldBytes) + "\n " + strings.Repeat("y", MaxMailBytes/2) + "\n" + dsn(group(1)), "bounced u1@example.com 5.1.1 hard invalid"},
		"mail":   {"Content-Type: multipart/mixed; boundary=b\n\n--b\n\n" + strings.Repeat("x\n", MaxMailBytes/2) + "\n--b\nContent-Type: message/delivery-status\n\n" + group(1) + "--b--\n", "unknown"},
	} {
		if got := shown(Parse([]byte(test.mail))); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
	if h, _ := cutHeader([]byte("X: " + strings.Repeat("x", maxFieldBytes) + "\n y")); len(h) != 1 || len(h[0].value) > maxFieldBytes {
		t.Errorf("%d bytes of a field are kept", len(h[0].value))
	}
	warning := "From: Mailer-Daemon@mx.example\n\ncreated automatically by mail delivery software: has not yet been delivered\n\n"
	if got := len(Parse([]byte(warning + addresses(maxRecipients+50)))); got != maxRecipients {
		t.Errorf("%d events of a warning, want %d", got, maxRecipients)
	}
	var extensions strings.Builder
	for n := range 2 * maxMetadata {
		fmt.Fprintf(&extensions, "X-%d: %s\n", n, strings.Repeat("ä", maxTextBytes))
	}
	e := Parse([]byte("Subject: " + strings.Repeat("ä", maxTextBytes) + "\n" + dsn(strings.TrimSuffix(group(1), "\n")+extensions.String())))[0]
	if len(e.Metadata) > maxMetadata || len(e.Metadata) < maxMetadata-4 || len(e.Metadata["x_1"]) != maxValueBytes || len(e.Description) != maxTextBytes || !utf8.ValidString(e.Description) {
		t.Errorf("%d of metadata, %d bytes of an extension, %d of the subject", len(e.Metadata), len(e.Metadata["x_1"]), len(e.Description))
	}
}

// addresses are so many lines of an address each.
func addresses(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "  u%d@example.com\n", i)
	}
	return b.String()
}

// nested is a part inside of so many multiparts.
func nested(levels int, inner string) string {
	for n := range levels {
		inner = fmt.Sprintf("Content-Type: multipart/mixed; boundary=l%d\n\n--l%d\n%s\n--l%d--\n", n, n, inner, n)
	}
	return inner
}

// FuzzParse: no mail ends the program; all that is returned is bounded and UTF-8.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/*.eml")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		events := Parse(b)
		if len(events) == 0 || len(events) > maxRecipients {
			t.Fatalf("%d events", len(events))
		}
		again := Parse(b)
		for i, e := range events {
			if again[i].EventID != e.EventID {
				t.Errorf("the ids differ: %s, %s", e.EventID, again[i].EventID)
			}
			if len(e.Metadata) > maxMetadata || e.Tags == nil || e.Metadata == nil {
				t.Errorf("%+v", e)
			}
			texts := []string{e.Recipient, e.MessageID, e.Description, e.MTAResponse, e.UserAgent}
			for _, v := range e.Metadata {
				texts = append(texts, v)
			}
			for _, s := range texts {
				if len(s) > maxTextBytes || !utf8.ValidString(s) || strings.ContainsAny(s, "\r\n\x00\x1b") {
					t.Errorf("%q is no clean text", s)
				}
			}
		}
	})
}
