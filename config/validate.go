package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"sluice/flow"
	"sluice/lib/mime"
	"sluice/lib/nearest"
	"sluice/lib/netaddr"
	"sluice/ops/alert"
	"sluice/store/mongostore"
)

// findings are what is wrong with a configuration.
type findings struct {
	c    *Config
	errs []error
}

// add adds what is wrong with a setting; nil: nothing.
func (f *findings) add(path string, err error) {
	if err != nil {
		f.errs = append(f.errs, f.c.wrong(path, err))
	}
}

// most adds that a setting has more of something than may be.
func (f *findings) most(path, what string, n, most int) {
	if n > most {
		f.add(path, fmt.Errorf("has %d %s, the most is %d", n, what, most))
	}
}

// entry checks the ranges of an entry of a list, a pointer to a struct, and returns what
// adds what else is wrong with its keys.
func (f *findings) entry(path string, of any) (wrong func(key string, err error)) {
	wrong = func(key string, err error) {
		if err != nil {
			f.errs = append(f.errs, f.c.wrongIn(path, key, err))
		}
	}
	ranges(reflect.ValueOf(of).Elem(), "", wrong)
	return wrong
}

// ranges tells which numbers of a struct are not within the range of their tag.
func ranges(v reflect.Value, prefix string, wrong func(path string, err error)) {
	for field := range v.Type().Fields() {
		path := prefix + field.Tag.Get("yaml")
		if field.Type.Kind() == reflect.Struct {
			ranges(v.FieldByIndex(field.Index), path+".", wrong)
			continue
		}
		text, zero := strings.CutPrefix(field.Tag.Get("range"), "0|")
		if text == "" {
			continue
		}
		least, most, _ := strings.Cut(text, "..")
		low, _ := strconv.Atoi(least) // tags are numbers: a test reads them all
		high, _ := strconv.Atoi(most)
		if n := int(v.FieldByIndex(field.Index).Int()); (n != 0 || !zero) && (n < low || n > high) {
			wrong(path, fmt.Errorf("is %d, want %d to %d", n, low, high))
		}
	}
}

// validate checks every setting, and reports all that is wrong.
func (c *Config) validate() error {
	f := &findings{c: c}
	f.add("listen", checkListen(c.Listen))
	f.add("redis", checkRedis(c.Redis, true))
	if c.WaitReplicas > 0 && c.Redis == RedisEmbedded {
		f.add("wait_replicas", errors.New("the embedded Redis has no replicas; want 0, or a Redis that has some (docs/scale.md)"))
	}
	f.add("database", checkDatabase(c.Database))
	f.add("roles", checkRoles(c.Roles))
	f.add("log.level", oneOf(c.Log.Level, "debug", "info", "warn", "error"))
	f.add("log.format", oneOf(c.Log.Format, "text", "json"))
	f.add("timeseries", checkTimeSeries(c.TimeSeries))
	ranges(reflect.ValueOf(c).Elem(), "", f.add)
	f.plainServers()
	if c.Data == "" {
		f.add("data", errors.New("is empty; name a directory, such as ./sluice-data"))
	}
	if n := len(c.RootKey); n > 0 && n < MinRootKeyBytes {
		f.add("root_key", fmt.Errorf("has %d characters, want at least %d; make one: head -c 32 /dev/urandom | base64", n, MinRootKeyBytes))
	}
	if len(f.errs) == 0 && !isLoopback(c.Listen) && c.RootKey == "" {
		f.add("listen", fmt.Errorf("%s can be reached from other machines, and there is no root_key; listen on 127.0.0.1, or set SLUICE_ROOT_KEY", c.Listen))
	}
	if len(c.Lists) > MaxLists {
		f.add("lists", fmt.Errorf("%d lists, the most is %d", len(c.Lists), MaxLists))
	}
	for i := range c.Lists {
		f.list(&c.Lists[i])
	}
	f.hashes()
	f.retention()
	f.alerts()
	f.webhooks()
	f.optIn()
	f.suppressionSets()
	f.caps()
	f.routes()
	f.hooks()
	f.dkim()
	f.domains()
	f.smtpd()
	f.track()
	f.bounces()
	return errors.Join(f.errs...)
}

// retention compares the retention of events with the bound on their times: an event is
// known for a repeat by its row, and a repeat that may come later than the row goes is
// stored twice.
func (f *findings) retention() {
	e, past := f.c.Retention.Events, f.c.EventTime.PastDays
	for _, s := range []struct {
		key  string
		days int
	}{{"mail", e.Mail}, {"custom", e.Custom}, {"purchase", e.Purchase}, {"system", e.System}} {
		path := "retention.events." + s.key
		switch {
		case s.days <= 0:
		case past == 0:
			f.add(path, fmt.Errorf("is %d days, and event_time.past_days is 0, any time: a repeat of an event that is gone would be stored again; set event_time.past_days to at most %d", s.days, s.days))
		case past > s.days:
			f.add(path, fmt.Errorf("is %d days, and event_time.past_days is %d: a repeat of an event that is gone would be stored again; make one as long as the other", s.days, past))
		}
	}
}

// webhooks refuses what no host of a URL is: such an entry would allow nothing. Names
// inside may have an underscore, as those of Compose do.
func (f *findings) webhooks() {
	for _, host := range f.c.Webhooks.AllowHosts {
		if _, err := netip.ParseAddr(host); err != nil && !mime.IsHostname(strings.ReplaceAll(host, "_", "x")) {
			f.add("webhooks.allow_hosts", fmt.Errorf("is %.100q, want a host as it stands in the URL, without scheme and port", host))
		}
	}
}

func (f *findings) alerts() {
	a := &f.c.Alerts
	if a.Webhook != "" {
		f.add("alerts.webhook", alert.CheckWebhook(a.Webhook.Reveal()))
	}
	if n := len(a.Secret); n > 0 && n < MinAlertSecretBytes {
		f.add("alerts.secret", fmt.Errorf("has %d characters, want at least %d", n, MinAlertSecretBytes))
	}
	if a.Email != "" {
		_, err := alert.NewMail(a.SMTP.Reveal(), a.From, a.Email)
		f.add("alerts.email", err)
	}
}

// wrong puts the place and the key path before what is wrong.
func (c *Config) wrong(path string, err error) error {
	return fmt.Errorf("%s: %s %w", c.Origin(path), path, err)
}

// wrongIn is wrong for a key of an entry, "" for the entry itself. A key that is
// missing has no line of its own: the entry's is shown.
func (c *Config) wrongIn(path, key string, err error) error {
	at := strings.TrimSuffix(joinPath(path, key), ".")
	origin := c.origins[at]
	if origin == "" {
		origin = c.Origin(path)
	}
	return fmt.Errorf("%s: %s %w", origin, at, err)
}

// list checks one list by itself. What its table looks like is checked
// by the store when the program starts.
func (f *findings) list(l *List) {
	wrong := f.entry(joinPath("lists", l.Name), l)
	if strings.HasPrefix(l.Name, "sluice:") {
		wrong("", fmt.Errorf("its name begins with sluice:, as Sluice's own keys do; drain another list"))
	}
	if n := len(l.Name); n == 0 || n > MaxListNameBytes {
		wrong("", fmt.Errorf("is a name of %d bytes, want 1 to %d", n, MaxListNameBytes))
	}
	if l.Redis != "" {
		wrong("redis", checkRedis(l.Redis, false))
	}
	wrong("take", oneOf(l.Take, TakeLeft, TakeRight))
	if l.Table == "" {
		if len(l.Columns) > 0 {
			wrong("columns", errors.New("are given without a table; add table: NAME, or leave them out for the table events"))
		}
		return
	}
	if l.Consent {
		wrong("consent", errors.New("is given with a table; rows of your own tables say nothing of consent: leave it out"))
	}
	if strings.Count(l.Table, ".") > 1 || strings.HasPrefix(l.Table, ".") || strings.HasSuffix(l.Table, ".") {
		wrong("table", fmt.Errorf("is %q, want TABLE or SCHEMA.TABLE", l.Table))
	}
	if n := len(l.Columns); n == 0 || n > MaxColumns {
		wrong("columns", fmt.Errorf("has %d entries, want 1 to %d of COLUMN: FIELD", n, MaxColumns))
	}
	fields := []string{}
	for _, col := range l.Columns {
		if col.Column == "" || col.Field == "" {
			wrong("columns", errors.New("has an empty name; write COLUMN: FIELD"))
		}
		fields = append(fields, col.Field)
	}
	if l.Dedupe != "" && !slices.Contains(fields, l.Dedupe) {
		wrong("dedupe", fmt.Errorf("is %q, which fills no column; it takes a field of columns%s", l.Dedupe, nearest.DidYouMean(l.Dedupe, fields)))
	}
}

func oneOf(word string, known ...string) error {
	if slices.Contains(known, word) {
		return nil
	}
	return fmt.Errorf("is %q, want one of %s%s", word, strings.Join(known, ", "), nearest.Hint(word, known))
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

// isLoopback reports whether only this machine can reach the address.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && netaddr.IsLoopback(host)
}

// checkRedis checks the form of a Redis URL. What cannot be read is not shown:
// it may hold a password.
func checkRedis(u URL, embedded bool) error {
	forms := "redis://HOST:PORT/DB, redis://HOST:PORT,HOST:PORT (nodes of a cluster), redis-sentinel://HOST:PORT,HOST:PORT/MASTER_SET, rediss:// or rediss-sentinel:// (TLS), or unix:///PATH"
	if embedded {
		if u == RedisEmbedded {
			return nil
		}
		forms += ", or embedded"
	}
	p, err := flow.ParseURL(string(u))
	if err != nil {
		return fmt.Errorf("cannot be read as a URL; want %s, with special characters of a password as %%XX", forms)
	}
	if p.Scheme == "unix" && p.Host == "" && strings.Trim(p.Path, "/") != "" {
		return nil
	}
	scheme, sentinel := strings.CutSuffix(p.Scheme, "-sentinel")
	path := strings.Trim(p.Path, "/")
	switch n, err := strconv.Atoi(path); {
	case scheme != "redis" && scheme != "rediss", p.Opaque != "", slices.Contains(strings.Split(p.Host, ","), ""), strings.HasPrefix(p.Host, ":"):
	case sentinel && (path == "" || strings.Contains(path, "/")):
		return fmt.Errorf("is %s, which names no master set; want redis-sentinel://HOST:PORT,HOST:PORT/MASTER_SET, as the sentinels call it", u)
	case !sentinel && path != "" && (err != nil || n < 0):
		return fmt.Errorf("is %s, whose database is no number; want %s", u, forms)
	default:
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
	p, err := flow.ParseURL(string(u))
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
