package config

import (
	"slices"
	"testing"
	"time"

	"sluice/journey"
	"sluice/mail"
)

// Caps are read as they are written; what the ledger would not have any more is refused.
func TestCaps(t *testing.T) {
	c := mustLoad(t, "caps:\n  weekly: {within: 7d}\n  promo: {messages: 1, within: 1d12h, tag: promo, class: all}\n  codes: {messages: 9, within: 1m, class: transactional}\nretention: {sends: 7}", nil, nil)
	want := []journey.Cap{
		{Name: "weekly", Class: mail.ClassMarketing, Messages: 3, Window: 7 * 24 * time.Hour},
		{Name: "promo", Tag: "promo", Messages: 1, Window: 36 * time.Hour},
		{Name: "codes", Class: mail.ClassTransactional, Messages: 9, Window: time.Minute},
	}
	if got := c.JourneyCaps(); !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := mustLoad(t, "caps: {a: {within: 30d}}", nil, nil).JourneyCaps(); len(got) != 1 {
		t.Errorf("sends are kept for ever, and a cap of 30 days is %v", got)
	}
	for yaml, want := range map[string]string{
		"caps:\n  a: {within: 8d}\nretention: {sends: 7}": "sluice.yaml:2: caps.a.within is 8d, and retention.sends is 7 days: ...",
		"caps:\n  a: {messages: 2}":                       "sluice.yaml:2: caps.a.within is \"\", want a time of 1m to 30d, such as 7d",
		"caps: {a: {within: 31d}}":                        "...caps.a.within is \"31d\", want a time of 1m to 30d, such as 7d",
		"caps: {a: {within: 59s}}":                        "...caps.a.within is \"59s\", want a time of 1m to 30d, such as 7d",
		"caps: {a: {within: 1d, messages: 0}}":            "...caps.a.messages is 0, want 1 to 1000",
		"caps: {a: {within: 1d, class: mails}}":           "...caps.a.class is \"mails\", want marketing, transactional or all",
		"caps: {a: {within: 1d, tag: 'a,b'}}":             "...caps.a.tag is \"a,b\", want a tag of 1 to 128 bytes without commas",
		"caps: {A b: {within: 1d}}":                       "...caps.A b is no name of a cap, want 1 to 64 lower-case letters, digits and hyphens",
		"caps: {a: {within: 1d, messages: 1, per: 7d}}":   "...caps.a.per: unknown key...",
	} {
		if _, err := load(t, yaml, nil, nil); err == nil || !matches(err.Error(), want) {
			t.Errorf("%s:\ngot  %v\nwant %s", yaml, err, want)
		}
	}
}
