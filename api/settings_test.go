package api

import (
	"strings"
	"testing"

	"sluice/lib/doctor"
	routing "sluice/mail/route"
)

// linesOf is a configuration whose settings are in the lines that it has.
type linesOf map[string]string

func (l linesOf) Origin(path string) string {
	if at, ok := l[path]; ok {
		return at
	}
	return "default"
}

func (linesOf) Shown(path string) string { return "value of " + path }

// Routes and domains are shown with how they stand and where they are set, to those who
// manage accounts alone.
func TestSettings(t *testing.T) {
	x := startJourneys(t)
	x.p.settings = linesOf{"routes.relay": "/etc/sluice.yaml:12", "sending": "SLUICE_SENDING"}
	x.p.stats = Stats{
		Routes:  []routing.Snapshot{{Name: "relay", Breaker: "closed", LeftToday: -1}, {Name: "sink", Breaker: "closed", LeftToday: 7}},
		Domains: []SenderDomain{{"example.com", doctor.Summary{Errors: 1, OK: 4}}},
	}
	_, text := addKey(t, x.store, "accounts:manage")
	at := strings.TrimSuffix(x.url, journeysPath) + settingsPath
	var got struct {
		Routes   []routeSetting
		Domains  []domainSetting
		Settings []settingShown
	}
	callJSON(t, at, "GET", "Bearer "+text, "", 200, &got)
	if len(got.Routes) != 2 || got.Routes[0].Route != "relay" || got.Routes[0].Set != "/etc/sluice.yaml:12" || got.Routes[1].Set != "default" || *got.Routes[1].LeftToday != 7 {
		t.Errorf("routes: %+v", got.Routes)
	}
	if len(got.Domains) != 1 || got.Domains[0].Domain != "example.com" || got.Domains[0].Errors != 1 || got.Domains[0].OK != 4 {
		t.Errorf("domains: %+v", got.Domains)
	}
	if want := (settingShown{"sending", "value of sending", "SLUICE_SENDING"}); len(got.Settings) != len(settingsListed) || got.Settings[0] != want {
		t.Errorf("settings: %+v", got.Settings)
	}
	callJSON(t, at, "GET", x.read, "", 403, nil)
	x.p.settings = nil
	callJSON(t, at, "GET", "Bearer "+text, "", 503, nil)
}
