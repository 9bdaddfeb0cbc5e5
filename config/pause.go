package config

import (
	"time"

	"sluice/mail/feedback"
)

// Pause says when mail is stopped by itself.
type Pause struct {
	Complaints    int  `yaml:"complaints_per_mille" range:"0..1000" doc:"Of a thousand mails so many complaints stop them, 0 to 1000. 0: none do. Gmail and Yahoo want less than 3."`
	Bounces       int  `yaml:"bounces_per_mille" range:"0..1000" doc:"So many that come back because of the address, 0 to 1000. 0: none do. Amazon looks at a sender at 50, and stops one at 100."`
	Blocks        int  `yaml:"blocks_per_mille" range:"0..1000" doc:"So many that are refused because of us (5.7.x, block lists), 0 to 1000. 0: none do."`
	Mails         int  `yaml:"mails" range:"1..1000000000" doc:"Mails of a route, or with a tag, that have to be answered within the window before anything is judged, 1 to 1000000000. Five of a kind have to be bad in any case."`
	WindowMinutes int  `yaml:"window_minutes" range:"12..1440" doc:"The window, 12 to 1440 minutes."`
	Transactional bool `yaml:"transactional" doc:"true: transactional mail is counted, too, and stopped with the marketing mail. Else marketing mail alone is."`
}

// defaultPause has the limits that large providers publish.
var defaultPause = Pause{Complaints: 3, Bounces: 80, Blocks: 100, Mails: 500, WindowMinutes: 60}

// Limits are the limits as they are asked for.
func (p *Pause) Limits() feedback.Limits {
	return feedback.Limits{
		Complaints: p.Complaints, Bounces: p.Bounces, Blocks: p.Blocks, Mails: p.Mails, Transactional: p.Transactional,
		Window: time.Duration(p.WindowMinutes) * time.Minute,
	}
}
