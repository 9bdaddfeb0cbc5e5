package config

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"sluice/ops/alert"
	"sluice/store/mongostore"
)

// validate checks every setting, and reports all that is wrong.
func (c *Config) validate() error {
	errs := []error{
		c.wrong("listen", checkListen(c.Listen)),
		c.wrong("redis", checkRedis(c.Redis, true)),
		c.wrong("database", checkDatabase(c.Database)),
		c.wrong("roles", checkRoles(c.Roles)),
		c.wrong("log.level", oneOf(c.Log.Level, "debug", "info", "warn", "error")),
		c.wrong("log.format", oneOf(c.Log.Format, "text", "json")),
		c.wrong("partitions", between(c.Partitions, 1, maxPartitions)),
		c.wrong("event_time.past_days", between(c.EventTime.PastDays, 0, MaxPastDays)),
		c.wrong("event_time.future_minutes", between(c.EventTime.FutureMinutes, 0, MaxFutureMinutes)),
		c.wrong("key_items_per_second", between(c.KeyRate, 0, MaxKeyRate)),
		c.wrong("redis_megabytes", zeroOr(c.RedisMB, MinRedisMB, MaxRedisMB)),
		c.wrong("backlog_megabytes", between(c.BacklogMB, 1, MaxBacklogMB)),
		c.wrong("log_margin_megabytes", between(c.LogMarginMB, 1, MaxBacklogMB)),
		c.wrong("waiting.megabytes", zeroOr(c.Waiting.Megabytes, 1, MaxBacklogMB)),
		c.wrong("waiting.mails", zeroOr(c.Waiting.Mails, 1, MaxWaitingMails)),
		c.wrong("waiting.key_megabytes", zeroOr(c.Waiting.KeyMegabytes, 1, MaxBacklogMB)),
		c.wrong("waiting.key_mails", zeroOr(c.Waiting.KeyMails, 1, MaxWaitingMails)),
		c.wrong("idempotency_names", zeroOr(c.OnceNames, MinOnceNames, MaxOnceNames)),
		c.wrong("series_names", between(c.SeriesNames, 1, MaxSeriesNames)),
		c.wrong("timeseries", checkTimeSeries(c.TimeSeries)),
		c.wrong("timeseries_bulk", between(c.TimeSeriesBulk, 1, mongostore.MaxBulk)),
		c.wrong("in_doubt_seconds", between(c.InDoubtSeconds, 1, MaxInDoubtSeconds)),
		c.wrong("suppression_age_seconds.marketing", between(c.SuppressionAge.Marketing, 1, MaxSuppressionAgeSeconds)),
		c.wrong("suppression_age_seconds.transactional", between(c.SuppressionAge.Transactional, 1, MaxSuppressionAgeSeconds)),
		c.wrong("start_seconds", between(c.StartSeconds, 0, MaxStartSeconds)),
		c.wrong("shutdown_seconds", between(c.ShutdownSeconds, 1, MaxShutdownSeconds)),
	}
	errs = append(errs, c.validatePlainServers())
	if c.Data == "" {
		errs = append(errs, c.wrong("data", errors.New("is empty; name a directory, such as ./sluice-data")))
	}
	if n := len(c.RootKey); n > 0 && n < MinRootKeyBytes {
		errs = append(errs, c.wrong("root_key", fmt.Errorf("has %d characters, want at least %d; make one: head -c 32 /dev/urandom | base64", n, MinRootKeyBytes)))
	}
	if len(errs) > 0 && errors.Join(errs...) == nil && !isLoopback(c.Listen) && c.RootKey == "" {
		errs = append(errs, c.wrong("listen", fmt.Errorf("%s can be reached from other machines, and there is no root_key; listen on 127.0.0.1, or set SLUICE_ROOT_KEY", c.Listen)))
	}
	if len(c.Lists) > MaxLists {
		errs = append(errs, c.wrong("lists", fmt.Errorf("%d lists, the most is %d", len(c.Lists), MaxLists)))
	}
	for _, l := range c.Lists {
		errs = append(errs, c.validateList(l))
	}
	errs = append(errs, c.validateHashes(), c.validateRetention(), c.validateAlerts(), c.validateBraze(), c.validateOptIn(), c.validateSuppressionSets(), c.validateRoutes(), c.validateDKIM(), c.validateDomains(), c.validateSMTPD())
	return errors.Join(errs...)
}

// validateRetention also compares the retention of events with the bound on
// their times: an event is known for a repeat by its row, and a repeat that may
// come later than the row goes is stored twice.
func (c *Config) validateRetention() error {
	r := &c.Retention
	var errs []error
	for _, s := range []struct {
		key  string
		days int
	}{
		{"events.mail", r.Events.Mail}, {"events.custom", r.Events.Custom}, {"events.purchase", r.Events.Purchase}, {"events.system", r.Events.System},
		{"series_hours", r.SeriesHours}, {"series_days", r.SeriesDays}, {"dead_letters", r.DeadLetters}, {"sends", r.Sends},
	} {
		path := "retention." + s.key
		past := c.EventTime.PastDays
		switch err := between(s.days, 0, MaxRetentionDays); {
		case err != nil:
			errs = append(errs, c.wrong(path, err))
		case s.days == 0 || !strings.HasPrefix(s.key, "events."):
		case past == 0:
			errs = append(errs, c.wrong(path, fmt.Errorf("is %d days, and event_time.past_days is 0, any time: a repeat of an event that is gone would be stored again; set event_time.past_days to at most %d", s.days, s.days)))
		case past > s.days:
			errs = append(errs, c.wrong(path, fmt.Errorf("is %d days, and event_time.past_days is %d: a repeat of an event that is gone would be stored again; make one as long as the other", s.days, past)))
		}
	}
	return errors.Join(errs...)
}

func (c *Config) validateBraze() error {
	var errs []error
	c.Braze.Each(func(key string, calls int) {
		errs = append(errs, c.wrong("braze."+key, between(calls, 0, MaxBrazeCalls)))
	})
	return errors.Join(errs...)
}

func (c *Config) validateAlerts() error {
	a := &c.Alerts
	errs := []error{
		c.wrong("alerts.lag_seconds", between(a.LagSeconds, 0, 86_400)),
		c.wrong("alerts.dead_letters", between(a.DeadLetters, 0, 1_000_000_000)),
		c.wrong("alerts.in_doubt", between(a.InDoubt, 0, 1_000_000_000)),
		c.wrong("alerts.disk_free_percent", between(a.DiskFreePercent, 0, 99)),
		c.wrong("alerts.hold_seconds", between(a.HoldSeconds, 0, 3600)),
		c.wrong("alerts.repeat_hours", between(a.RepeatHours, 0, 8760)),
	}
	if a.Webhook != "" {
		errs = append(errs, c.wrong("alerts.webhook", alert.CheckWebhook(a.Webhook.Reveal())))
	}
	if n := len(a.Secret); n > 0 && n < MinAlertSecretBytes {
		errs = append(errs, c.wrong("alerts.secret", fmt.Errorf("has %d characters, want at least %d", n, MinAlertSecretBytes)))
	}
	if a.Email != "" {
		_, err := alert.NewMail(a.SMTP.Reveal(), a.From, a.Email)
		errs = append(errs, c.wrong("alerts.email", err))
	}
	return errors.Join(errs...)
}

// wrong puts the place and the key path before what is wrong.
func (c *Config) wrong(path string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %s %w", c.Origin(path), path, err)
}

// wrongIn is wrong for a key of an entry, "" for the entry itself. A key that is
// missing has no line of its own: the entry's is shown.
func (c *Config) wrongIn(path, key string, err error) error {
	if err == nil {
		return nil
	}
	at := strings.TrimSuffix(joinPath(path, key), ".")
	origin := c.origins[at]
	if origin == "" {
		origin = c.Origin(path)
	}
	return fmt.Errorf("%s: %s %w", origin, at, err)
}

// validateList checks one list by itself. What its table looks like is checked
// by the store when the program starts.
func (c *Config) validateList(l List) error {
	path := joinPath("lists", l.Name)
	wrong := func(key string, err error) error { return c.wrongIn(path, key, err) }
	var errs []error
	if strings.HasPrefix(l.Name, "sluice:") {
		errs = append(errs, wrong("", fmt.Errorf("its name begins with sluice:, as Sluice's own keys do; drain another list")))
	}
	if n := len(l.Name); n == 0 || n > MaxListNameBytes {
		errs = append(errs, wrong("", fmt.Errorf("is a name of %d bytes, want 1 to %d", n, MaxListNameBytes)))
	}
	if l.Redis != "" {
		errs = append(errs, wrong("redis", checkRedis(l.Redis, false)))
	}
	errs = append(errs, wrong("take", oneOf(l.Take, TakeLeft, TakeRight)))
	if l.Table == "" {
		if len(l.Columns) > 0 {
			errs = append(errs, wrong("columns", errors.New("are given without a table; add table: NAME, or leave them out for the table events")))
		}
		return errors.Join(errs...)
	}
	if l.Consent {
		errs = append(errs, wrong("consent", errors.New("is given with a table; rows of your own tables say nothing of consent: leave it out")))
	}
	if strings.Count(l.Table, ".") > 1 || strings.HasPrefix(l.Table, ".") || strings.HasSuffix(l.Table, ".") {
		errs = append(errs, wrong("table", fmt.Errorf("is %q, want TABLE or SCHEMA.TABLE", l.Table)))
	}
	if n := len(l.Columns); n == 0 || n > MaxColumns {
		errs = append(errs, wrong("columns", fmt.Errorf("has %d entries, want 1 to %d of COLUMN: FIELD", n, MaxColumns)))
	}
	fields := []string{}
	for _, col := range l.Columns {
		if col.Column == "" || col.Field == "" {
			errs = append(errs, wrong("columns", errors.New("has an empty name; write COLUMN: FIELD")))
		}
		fields = append(fields, col.Field)
	}
	if l.Dedupe != "" && !slices.Contains(fields, l.Dedupe) {
		errs = append(errs, wrong("dedupe", fmt.Errorf("is %q, which fills no column; it takes a field of columns%s", l.Dedupe, DidYouMean(l.Dedupe, fields))))
	}
	return errors.Join(errs...)
}

func oneOf(word string, known ...string) error {
	if slices.Contains(known, word) {
		return nil
	}
	return fmt.Errorf("is %q, want one of %s%s", word, strings.Join(known, ", "), nearOnly(word, known))
}

// nearOnly is DidYouMean without the list of all, where that is printed anyway.
func nearOnly(word string, known []string) string {
	if near := Nearest(word, known); near != "" {
		return "; did you mean " + near + "?"
	}
	return ""
}

func between(n, low, high int) error {
	if n >= low && n <= high {
		return nil
	}
	return fmt.Errorf("is %d, want %d to %d", n, low, high)
}

// zeroOr is between, for a number that may also be 0.
func zeroOr(n, low, high int) error {
	if n == 0 {
		return nil
	}
	return between(n, low, high)
}

func checkRoles(roles []string) error {
	if len(roles) == 0 {
		return fmt.Errorf("is empty; leave it out for all of them, or name some of %s", strings.Join(AllRoles(), ", "))
	}
	for i, r := range roles {
		if err := oneOf(r, AllRoles()...); err != nil {
			return err
		}
		if slices.Contains(roles[:i], r) {
			return fmt.Errorf("names %s twice", r)
		}
	}
	return nil
}

func checkListen(address string) error {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("is %q, want HOST:PORT, such as 127.0.0.1:8019", address)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || strconv.FormatUint(n, 10) != port {
		return fmt.Errorf("is %q, whose port is no number from 0 to 65535 (0: any free one)", address)
	}
	return nil
}

// isLoopback reports whether only this machine can reach the address. A name
// other than localhost may resolve to anything, so it does not count.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || (ip != nil && ip.IsLoopback())
}

// checkRedis checks the form of a Redis URL. What cannot be read is not shown:
// it may hold a password.
func checkRedis(u URL, embedded bool) error {
	forms := "redis://HOST:PORT/DB, rediss://HOST:PORT/DB (TLS) or unix:///PATH"
	if embedded {
		if u == RedisEmbedded {
			return nil
		}
		forms += ", or embedded"
	}
	p, err := url.Parse(string(u))
	if err != nil {
		return fmt.Errorf("cannot be read as a URL; want %s, with special characters of a password as %%XX", forms)
	}
	switch {
	case (p.Scheme == "redis" || p.Scheme == "rediss") && p.Hostname() != "" && p.Opaque == "":
		if db := strings.Trim(p.Path, "/"); db != "" {
			if n, err := strconv.Atoi(db); err != nil || n < 0 {
				return fmt.Errorf("is %s, whose database is no number; want %s", u, forms)
			}
		}
		return nil
	case p.Scheme == "unix" && p.Host == "" && strings.Trim(p.Path, "/") != "":
		return nil
	}
	return fmt.Errorf("is %s, want %s", u, forms)
}

func checkTimeSeries(u URL) error {
	if u == "" {
		return nil
	}
	_, _, err := mongostore.Check(u.Reveal())
	return err
}

func checkDatabase(u URL) error {
	const forms = "sqlite:FILE, mysql://USER:PASSWORD@HOST:PORT/NAME or postgres://USER:PASSWORD@HOST:PORT/NAME"
	if file, ok := strings.CutPrefix(string(u), "sqlite:"); ok {
		if file == "" || strings.Contains(file, ":memory:") {
			return errors.New("is sqlite without a file, and would forget everything at the end; want sqlite:FILE")
		}
		return nil
	}
	p, err := url.Parse(string(u))
	if err != nil {
		return fmt.Errorf("cannot be read as a URL; want %s, with special characters of a password as %%XX", forms)
	}
	switch p.Scheme {
	case "mysql", "mariadb", "postgres", "postgresql":
		if strings.Trim(p.Path, "/") != "" {
			return nil
		}
	}
	return fmt.Errorf("is %s, want %s", u, forms)
}
