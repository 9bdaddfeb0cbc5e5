package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sluice/config"
	"sluice/lib/doctor"
	"sluice/mail"
	"sluice/mail/route"
)

// maxSensibleFutureMinutes is how far ahead a clock may be wrong, generously.
const maxSensibleFutureMinutes = 24 * 60

// examineConfig looks at what is allowed, but not wise.
func examineConfig(cfg *config.Config) doctor.Examination {
	file, secret := cfg.File()
	e := doctor.Examination{Where: "configuration"}
	if file != "" {
		e.Where = file
	}
	e.Fine(doctor.CheckConfigValid, "it can be used")
	if cfg.RootKey == "" {
		e.Fine(doctor.CheckConfigRootKey, "none is set: the HTTP API takes the keys of the database only, and none while that is away")
	} else {
		e.Fine(doctor.CheckConfigRootKey, "it is set (%s)", cfg.Origin("root_key"))
	}
	if cfg.OnlyThisMachine() {
		e.Fine(doctor.CheckConfigListen, "only this machine reaches %s", cfg.Listen)
	} else {
		e.Warn(doctor.CheckConfigListen, "put a proxy with TLS before it, and let only the proxy reach it (listen on 127.0.0.1, or a firewall)",
			"other machines reach %s, by HTTP without TLS: keys and addresses can be read on the way", cfg.Listen)
	}
	examineProxies(&e, cfg)
	examineFile(&e, file, secret)
	examineKeys(&e, cfg)
	if cfg.AcceptGaps {
		e.Warn(doctor.CheckConfigGaps, "take it out again after the one start it was meant for", "accept_gaps is set (%s): whatever is found missing is passed over as lost", cfg.Origin("accept_gaps"))
	} else {
		e.Fine(doctor.CheckConfigGaps, "gaps are not passed over")
	}
	examineTimes(&e, cfg)
	examineUnsubscribe(&e, cfg)
	examineHooks(&e, cfg)
	if info, err := os.Stat(cfg.Data); err != nil {
		e.Unknown(fmt.Errorf("look at the data directory: %w; the first start makes it", err), doctor.CheckConfigData)
	} else if open := info.Mode().Perm() & 0o007; open != 0 {
		e.Warn(doctor.CheckConfigData, "chmod o-rwx "+cfg.Data, "every user of this machine can look into the data directory %s (mode %s)", cfg.Data, info.Mode().Perm())
	} else {
		e.Fine(doctor.CheckConfigData, "the data directory %s is not open to every user of this machine", cfg.Data)
	}
	return e
}

// examineProxies looks whether those who come through a proxy can be told apart. The server
// speaks no TLS, so before an https address there is one.
func examineProxies(e *doctor.Examination, cfg *config.Config) {
	switch {
	case len(cfg.Proxies) > 0:
		e.Fine(doctor.CheckConfigProxies, "what %s says in X-Forwarded-For is believed", strings.Join(cfg.Proxies, ", "))
	case strings.HasPrefix(cfg.PublicURL, "https://"):
		e.Warn(doctor.CheckConfigProxies, "set proxies to the addresses from which the proxy reaches this server",
			"public_url is an https address, which a proxy serves, and proxies is empty: all who come through it count as one, so a stranger with wrong passwords keeps everybody from signing in")
	default:
		e.Fine(doctor.CheckConfigProxies, "no proxy is configured")
	}
}

func examineFile(e *doctor.Examination, file string, secret bool) {
	if file == "" || !secret {
		e.Fine(doctor.CheckConfigSecrets, "no secret stands in a file of the configuration")
		return
	}
	info, err := os.Stat(file)
	switch {
	case err != nil:
		e.Unknown(err, doctor.CheckConfigSecrets)
	case othersRead(file, info):
		e.Warn(doctor.CheckConfigSecrets, "set it by the environment instead (SLUICE_...), or chmod o-rwx "+file+"; change what was readable", "a key or password stands in it, and every user of this machine can read it (mode %s)", info.Mode().Perm())
	default:
		e.Fine(doctor.CheckConfigSecrets, "a key or password stands in it, which not every user of this machine can read")
	}
}

// othersRead returns whether every user of this machine can read a file: its mode
// says so, and so does each directory on the way to it.
func othersRead(file string, info os.FileInfo) bool {
	if info.Mode().Perm()&0o004 == 0 {
		return false
	}
	path, err := filepath.Abs(file)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	for err == nil && path != filepath.Dir(path) {
		path = filepath.Dir(path)
		if info, err = os.Stat(path); err == nil && info.Mode().Perm()&0o001 == 0 {
			return false
		}
	}
	return true
}

// examineKeys looks who can read the private keys that mail is signed with.
func examineKeys(e *doctor.Examination, cfg *config.Config) {
	for _, d := range cfg.DKIM {
		for _, k := range d.Keys {
			file := string(k.Value)
			switch info, err := os.Stat(file); {
			case err != nil:
				e.Unknown(fmt.Errorf("look at the dkim key of %s, selector %s: %w", d.Domain, k.Key, err), doctor.CheckConfigSecrets)
			case othersRead(file, info):
				e.Warn(doctor.CheckConfigSecrets, "chmod 600 "+file+"; make another key under another selector, for this one was readable", "every user of this machine can read the private key of %s, selector %s, and sign mail as that domain (mode %s)", d.Domain, k.Key, info.Mode().Perm())
			default:
				e.Fine(doctor.CheckConfigSecrets, "not every user of this machine can read the private key of %s, selector %s", d.Domain, k.Key)
			}
		}
	}
}

// examineUnsubscribe looks whether marketing mail can leave without a link by
// which mailboxes unsubscribe their owner: Gmail, Yahoo and Outlook.com then refuse
// mail from large senders.
func examineUnsubscribe(e *doctor.Examination, cfg *config.Config) {
	leaves := slices.ContainsFunc(cfg.Routes, func(r config.Route) bool {
		return len(r.Classes) == 0 || slices.Contains(r.Classes, mail.ClassMarketing.String())
	})
	switch mode := route.Mode(cfg.Sending); {
	case cfg.SubscriptionPages() != "" || strings.HasPrefix(cfg.PublicURL, "https://"):
		e.Fine(doctor.CheckConfigUnsubscribe, "marketing mail gets a link to unsubscribe by, below %s", cmp.Or(cfg.SubscriptionPages(), cfg.PublicURL))
	case mode != route.On && mode != route.AllowList, !leaves:
		e.Fine(doctor.CheckConfigUnsubscribe, "no marketing mail leaves")
	default:
		e.Warn(doctor.CheckConfigUnsubscribe, "set public_url to the https:// address by which browsers reach this server, or track.url and track.listen, or give each marketing mail a List-Unsubscribe of your own",
			"marketing mail leaves, and neither public_url nor track.url with track.listen is an https:// address: it has no List-Unsubscribe, without which large providers refuse it")
	}
}

// examineHooks looks whether providers can show that they are it.
func examineHooks(e *doctor.Examination, cfg *config.Config) {
	sources, err := cfg.Sources()
	if err != nil {
		e.Unknown(err, doctor.CheckConfigHooks)
		return
	}
	armed := 0
	for i := range sources {
		s := &sources[i]
		if s.Armed() {
			armed++
			continue
		}
		remedy := "set secret, secret_file, or its variable in the environment of all processes: docs/hooks.md says which for " + s.Provider.Name
		if s.Provider.Name == "ses" {
			remedy = "set topics: the ARNs of the SNS topics that may post"
		}
		e.Fail(doctor.CheckConfigHooks, remedy, "hooks.%s has no secret: it refuses all that %s posts", s.Name, s.Provider.Name)
	}
	if armed == len(sources) {
		e.Fine(doctor.CheckConfigHooks, "%d providers may post what becomes of mail", armed)
	}
}

func examineTimes(e *doctor.Examination, cfg *config.Config) {
	t := cfg.EventTime
	if t.PastDays == 0 || t.FutureMinutes == 0 || t.FutureMinutes > maxSensibleFutureMinutes {
		e.Warn(doctor.CheckConfigTimes, "event_time: {past_days: 30, future_minutes: 60}, or whatever your producers need",
			"events of any time, or far ahead, are taken (past_days %d, future_minutes %d): one wrong clock fills tables and series with days that are not", t.PastDays, t.FutureMinutes)
		return
	}
	e.Fine(doctor.CheckConfigTimes, "events of up to %d days back and %d minutes ahead are taken", t.PastDays, t.FutureMinutes)
}
