package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/mail"
)

// TestWarmupOfAnEmptiedRedis: what a route may send on a day is counted in Redis. When
// all of that is lost, the ledger knows what was sent, and the day is not granted
// twice. Mail by another route shows that the program sends.
func TestWarmupOfAnEmptiedRedis(t *testing.T) {
	t.Parallel()
	const limit, mails = 5, 12
	today := func() string { return time.Now().UTC().Format(time.DateOnly) }
	first := today()
	p := openPostOfficeAs(t, "partitions: 2\nsending: 'on'\nroutes:\n"+
		fmt.Sprintf("  warm: {warmup: [%d, %d], warmup_from: %s, http: {url: '%%[1]s', body: '{\"to\":\"{{to}}\"}'}}\n", limit, limit, first)+
		"  other: {http: {url: '%[1]s', body: '{\"to\":\"{{to}}\"}'}}\n")
	nothingLeft := func() {
		t.Helper()
		await(t, "nothing is left of the day", func() bool { return p.metric(t, `sluice_route_day_left_mails{route="warm"}`) == 0 })
	}
	p.mail("early", mails, `,"route":"warm"`)
	p.awaitStates("early", mail.SendSent.String(), limit)
	nothingLeft()
	p.stop()
	if err := os.RemoveAll(filepath.Join(p.dir, "data", "redis")); err != nil {
		t.Fatal(err)
	}
	p.start("SLUICE_ACCEPT_GAPS=true")
	p.mail("late", mails, `,"route":"warm"`)
	p.mail("open", mails, `,"route":"other"`)
	p.awaitStates("open", mail.SendSent.String(), mails)
	nothingLeft()
	if today() != first {
		t.Log("midnight has passed: this run shows nothing")
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	sent := 0
	for to, times := range p.got {
		if !strings.HasPrefix(to, "open-") {
			sent += times
		}
	}
	if sent != limit {
		t.Errorf("the route has sent %d mails on a day that has %d", sent, limit)
	}
}
