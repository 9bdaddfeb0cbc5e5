package main

import (
	"fmt"
	"time"

	"sluice"
)

// clockApart returns what is wrong with the process's clock or Redis's, nil if they
// agree well enough for mail to be released and to expire.
func (e *engine) clockApart() error {
	ahead := e.clock.Ahead()
	if ahead.Abs() <= sluice.MaxClockApart {
		return nil
	}
	way := "ahead of"
	if ahead < 0 {
		way = "behind"
	}
	return fmt.Errorf("clock: this process is %s %s Redis, more than %s: it releases no mail that waits for a time, and lets none expire; set both clocks by NTP",
		ahead.Abs().Round(time.Second), way, sluice.MaxClockApart)
}
