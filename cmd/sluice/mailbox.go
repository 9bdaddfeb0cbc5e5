package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"sluice/api"
	"sluice/lib/key"
)

const mailboxLong = `
Shows the mails in the built-in mailboxes of a running program that sends: all mail with
sending: sink, the default.

    sluice mailbox list --to ann@example.com
    sluice mailbox show 12 > mail.eml

list has the newest first; show writes a mail out as it is. They are in the memory of the
process that is asked: the one at the listen address of the configuration, or at --url.
It needs a key with the permission mailboxes:read. Without --key-file the root_key of the
configuration is used, if there is one.
`

var mailboxFlags = []flagSpec{
	{name: "to", value: "ADDRESS", help: "only mails to this address"},
	{name: "limit", value: "N", help: "how many at most, 20 if not given", check: wholeNumber(1, 100_000)},
	{name: "before", value: "N", help: "only mails before this number", check: wholeNumber(1, 1_000_000_000)},
	{name: "url", value: "URL", help: "the program to be asked; https:// unless it is this machine"},
	{name: "key-file", value: "FILE", help: "a file with a key of the API, and nothing else"},
}

const (
	mailboxPage = 20

	// maxMailBytes bounds an answer with a mail: the largest that is taken, in base64.
	maxMailBytes = 128 << 20
)

func runMailbox(ctx context.Context, c *call) error {
	args := c.given.args
	show := len(args) == 2 && args[0] == "show"
	if !show && (len(args) != 1 || args[0] != "list") {
		return usagef("mailbox: want list, or show and the number of a mail")
	}
	source, err := c.topSource()
	if err != nil {
		return err
	}
	if show {
		return c.showMail(ctx, source, args[1])
	}
	return c.listMails(ctx, source)
}

// mailboxOf asks for something of the mailboxes.
func mailboxOf(ctx context.Context, s *topSource, path string, into any) error {
	status, answer, err := askUpTo(ctx, s.base+path, s.key, maxMailBytes)
	if err != nil {
		return err
	}
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return fmt.Errorf("the program answers %s with %d: %.500s; name a key with %s by --key-file", path, status, safeText(answer), key.MailboxesRead)
	case status != http.StatusOK:
		return fmt.Errorf("the program answers %s with %d: %.500s", path, status, safeText(answer))
	}
	if err := json.Unmarshal([]byte(answer), into); err != nil {
		return fmt.Errorf("read the answer to %s: %w; is it a sluice that listens there?", path, err)
	}
	return nil
}

// listMails is `sluice mailbox list`.
func (c *call) listMails(ctx context.Context, s *topSource) error {
	left, before := mailboxPage, 0
	if c.given.has("limit") {
		left = c.given.number("limit")
	}
	if c.given.has("before") {
		before = c.given.number("before")
	}
	for left > 0 {
		query := url.Values{"limit": {strconv.Itoa(min(left, 100))}}
		if to := c.given.text("to"); to != "" {
			query.Set("to", to)
		}
		if before > 0 {
			query.Set("before", strconv.Itoa(before))
		}
		var page api.MailboxPage
		if err := mailboxOf(ctx, s, "/v1/mailboxes?"+query.Encode(), &page); err != nil {
			return err
		}
		for _, m := range page.Mails {
			c.print("%6d  %s  %s -> %s  %s  (%s bytes)", m.Number, safeText(m.Time), safeText(m.From), safeText(m.To), safeText(m.Subject), grouped(int64(m.Bytes)))
		}
		left -= len(page.Mails)
		if before = int(page.Next); page.Next == 0 {
			break
		}
	}
	return nil
}

// showMail is `sluice mailbox show`: the mail as it is, for a file or a mail program.
func (c *call) showMail(ctx context.Context, s *topSource, number string) error {
	if n, err := strconv.ParseInt(number, 10, 64); err != nil || n < 1 {
		return usagef("mailbox show: %q is no number of a mail; `sluice mailbox list` has them", number)
	}
	var m api.MailboxMail
	if err := mailboxOf(ctx, s, "/v1/mailboxes/"+number, &m); err != nil {
		return err
	}
	content, err := base64.StdEncoding.DecodeString(m.Raw)
	if err == nil && len(content) == 0 {
		err = errors.New("it is empty")
	}
	if err != nil {
		return fmt.Errorf("read mail %s: %w", number, err)
	}
	_, err = c.main.Stdout.Write(content)
	return err
}
