package config

import (
	"errors"
	"fmt"
	"time"

	"sluice/journey"
	"sluice/journey/plan"
	"sluice/mail"
)

// capAll is the class of a cap that counts mail of each.
const capAll = "all"

// Cap bounds how much mail a person gets.
type Cap struct {
	Name     string // the key of the mapping
	Messages int    `yaml:"messages" range:"1..1000" doc:"So many mails at most, 1 to 1000."`
	Within   string `yaml:"within" doc:"In this time, which ends when the next mail is made: 1m to 30d, as 12h, 7d, 1d12h." sample:"7d"`
	Tag      string `yaml:"tag" doc:"It counts mail that has this tag. Without one any mail." sample:"promo"`
	Class    string `yaml:"class" doc:"It counts mail of this class: marketing, transactional, or all."`
}

// newCap is one that nothing is set of.
func newCap(name string) Cap {
	return Cap{Name: name, Messages: 3, Class: mail.ClassMarketing.String()}
}

// JourneyCaps are the caps, as journeys read them. The configuration is valid.
func (c *Config) JourneyCaps() []journey.Cap {
	caps := make([]journey.Cap, 0, len(c.Caps))
	for i := range c.Caps {
		one, err := c.Caps[i].read()
		if err != nil {
			panic(err) // it was checked
		}
		caps = append(caps, one)
	}
	return caps
}

// read reads a cap. The error says what is wrong with a setting of it, and its key.
func (x *Cap) read() (journey.Cap, error) {
	one := journey.Cap{Name: x.Name, Tag: x.Tag, Messages: x.Messages}
	seconds, err := plan.ParseDuration(x.Within)
	if err != nil || time.Duration(seconds)*time.Second < journey.MinCapWindow || time.Duration(seconds)*time.Second > journey.MaxCapWindow {
		return one, &capError{"within", fmt.Errorf("is %q, want a time of 1m to 30d, such as 7d", x.Within)}
	}
	one.Window = time.Duration(seconds) * time.Second
	if x.Class != capAll {
		var ok bool
		if one.Class, ok = mail.ParseClass(x.Class); !ok {
			return one, &capError{"class", fmt.Errorf("is %q, want marketing, transactional or all", x.Class)}
		}
	}
	if x.Tag != "" {
		if _, err := mail.NewSelector(mail.SelectTag, x.Tag); err != nil {
			return one, &capError{"tag", fmt.Errorf("is %q, want a tag of 1 to %d bytes without commas", x.Tag, mail.MaxTagBytes)}
		}
	}
	return one, nil
}

// capError is what is wrong with a key of a cap.
type capError struct {
	key string
	error
}

// caps checks the caps. What they count is read from the ledger, so it must be there.
func (f *findings) caps() {
	f.most("caps", "entries", len(f.c.Caps), journey.MaxCaps)
	for i := range f.c.Caps {
		x := &f.c.Caps[i]
		wrong := f.entry(joinPath("caps", x.Name), x)
		if !journey.ValidID(x.Name) {
			wrong("", fmt.Errorf("is no name of a cap, want 1 to %d lower-case letters, digits and hyphens", journey.MaxIDBytes))
		}
		one, err := x.read()
		var bad *capError
		if errors.As(err, &bad) {
			wrong(bad.key, bad.error)
			continue
		}
		if days := f.c.Retention.Sends; days > 0 && one.Window > time.Duration(days)*24*time.Hour {
			wrong("within", fmt.Errorf("is %s, and retention.sends is %d days: what is gone by then would not be counted; keep sends longer, or make the time shorter", x.Within, days))
		}
	}
}
