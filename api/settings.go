package api

import (
	"sluice"
	"sluice/lib/doctor"
)

const settingsPath = "/v1/settings"

// Settings is what this process was started with. A config.Config is one.
type Settings interface {
	// Origin says where a setting comes from, by its key path: FILE:LINE, the name of a
	// variable or flag, or "default".
	Origin(path string) string

	// Shown is its value for people: of secrets and passwords a stand-in.
	Shown(path string) string
}

// settingsListed are settings about routes and domains, by their key paths.
var settingsListed = []string{"sending", "allow_list", "domains.check", "domains.require", "domains.resolver"}

// settingShown is a setting with where it comes from.
type settingShown struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	Set   string `json:"set"`
}

// routeSetting is a route with how it stands, and where it is configured.
type routeSetting struct {
	RouteStatus
	Set string `json:"set"`
}

// domainSetting is a domain that mail was sent from, with how many findings there are.
type domainSetting struct {
	Domain string `json:"domain"`
	doctor.Summary
}

// showSettings is GET /v1/settings: which line of the configuration to change.
func (q *request) showSettings() (any, error) {
	if q.Settings == nil {
		return nil, refusal(sluice.CodeUnavailable, "the program does not know its settings")
	}
	stats := q.s.program.Stats()
	standing := q.s.statusOf(&stats, nil)
	routes, domains, settings := []routeSetting{}, []domainSetting{}, []settingShown{}
	for _, route := range standing.Routes {
		routes = append(routes, routeSetting{route, q.Settings.Origin("routes." + route.Route)})
	}
	for _, d := range stats.Domains {
		domains = append(domains, domainSetting{d.Name, d.Summary})
	}
	for _, path := range settingsListed {
		settings = append(settings, settingShown{path, q.Settings.Shown(path), q.Settings.Origin(path)})
	}
	return struct {
		Routes   []routeSetting  `json:"routes"`
		Domains  []domainSetting `json:"domains"`
		Settings []settingShown  `json:"settings"`
	}{routes, domains, settings}, nil
}
