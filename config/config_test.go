package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"sluice"
	"sluice/mail/via/sinkbox"
	"sluice/store/mongostore"
	"sluice/user/consent"
)

// load reads a file's content with an environment and flags.
func load(t *testing.T, yaml string, environ []string, flags map[string]string) (*Config, error) {
	t.Helper()
	dir := t.TempDir()
	if yaml != "" {
		if err := os.WriteFile(filepath.Join(dir, DefaultFile), []byte(yaml), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := Load(Sources{Dir: dir, Environ: environ, Flags: flags})
	if err != nil {
		err = fmt.Errorf("%s", strings.ReplaceAll(err.Error(), dir+string(filepath.Separator), ""))
	}
	return c, err
}

func mustLoad(t *testing.T, yaml string, environ []string, flags map[string]string) *Config {
	t.Helper()
	c, err := load(t, yaml, environ, flags)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The file begins with a byte order mark, as editors of Windows write it.
func TestPrecedence(t *testing.T) {
	file := "\ufeffredis: redis://file:1\npartitions: 4\nlog:\n  level: warn\nroles: [store]\n"
	env := []string{"SLUICE_REDIS=redis://env:1", "SLUICE_LOG_LEVEL=error", "PATH=/bin", "SLUICE_FAILPOINT=x"}
	flags := map[string]string{"redis": "redis://flag:1", "roles": "intake, store"}

	steps := []struct {
		name               string
		c                  *Config
		redis, level       string
		partitions, nroles int
		origin             string
	}{
		{"defaults", mustLoad(t, "", nil, nil), "embedded", "info", 64, 4, "default"},
		{"file", mustLoad(t, file, nil, nil), "redis://file:1", "warn", 4, 1, "sluice.yaml:1"},
		{"environment", mustLoad(t, file, env, nil), "redis://env:1", "error", 4, 1, "SLUICE_REDIS"},
		{"flags", mustLoad(t, file, env, flags), "redis://flag:1", "error", 4, 2, "--redis"},
	}
	for _, s := range steps {
		c := s.c
		if c.Redis.Reveal() != s.redis || c.Log.Level != s.level || c.Partitions != s.partitions || len(c.Roles) != s.nroles {
			t.Errorf("%s: %s %s %d %v", s.name, c.Redis, c.Log.Level, c.Partitions, c.Roles)
		}
		if got := filepath.Base(c.Origin("redis")); got != s.origin {
			t.Errorf("%s: redis comes from %s, want %s", s.name, got, s.origin)
		}
	}
	for _, c := range []*Config{mustLoad(t, "accept_gaps: true", nil, nil), mustLoad(t, "", []string{"SLUICE_ACCEPT_GAPS=true"}, nil)} {
		if !c.AcceptGaps {
			t.Errorf("accept_gaps from %s is not taken", c.Origin("accept_gaps"))
		}
	}
	if c := mustLoad(t, "data: /x", nil, nil); c.Database != "sqlite:/x/sluice.db" {
		t.Errorf("database follows data: %s", c.Database)
	}
}

func TestNamedFileMustExist(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none.yaml")
	for _, src := range []Sources{{File: none}, {Environ: []string{"SLUICE_CONFIG=" + none}}} {
		if _, err := Load(src); err == nil || !strings.Contains(err.Error(), "sluice config") {
			t.Errorf("got %v", err)
		}
	}
}

// The variables that Kubernetes sets for Services whose names begin with sluice are passed
// over, and no setting is called as one of them. What is none of them is refused.
func TestVariablesOfServices(t *testing.T) {
	var environ []string
	for _, service := range []string{"SLUICE", "SLUICE_REDIS"} {
		for _, variable := range []string{
			"SERVICE_HOST=10.0.0.7", "SERVICE_PORT=8019", "SERVICE_PORT_HTTP=8019", "SERVICE_PORT_SMTP_IN=2525", "PORT=tcp://10.0.0.7:8019",
			"PORT_8019_TCP=tcp://10.0.0.7:8019", "PORT_8019_TCP_PROTO=tcp", "PORT_8019_TCP_PORT=8019", "PORT_8019_TCP_ADDR=10.0.0.7",
			"PORT_53_UDP=udp://10.0.0.7:53", "PORT_53_UDP_ADDR=10.0.0.7", "PORT_9_SCTP=sctp://10.0.0.7:9",
		} {
			environ = append(environ, service+"_"+variable)
		}
	}
	if c := mustLoad(t, "", environ, nil); !reflect.DeepEqual(c, mustLoad(t, "", nil, nil)) {
		t.Errorf("they have changed the configuration: %+v", c)
	}
	for _, s := range Settings() {
		if serviceVariable.MatchString(s.Env) || strings.HasSuffix(s.Env, "_PORT") {
			t.Errorf("a setting is called as a variable of a Service: %s", s.Env)
		}
	}
	for _, variable := range []string{"SLUICE_PORT=8019", "SLUICE_PORT_8019=1", "SLUICE_SERVICE=x", "SLUICE_SERVICE_HOSTS=x"} {
		if _, err := load(t, "", []string{variable}, nil); err == nil || !strings.Contains(err.Error(), "unknown variable") {
			t.Errorf("%s: %v", variable, err)
		}
	}
}

// The file that --config names goes before that of SLUICE_CONFIG, and this
// before ./sluice.yaml, also where that is not read.
func TestWhichFile(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{DefaultFile, "env.yaml", "flag.yaml"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("data: "+name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	flag, env := filepath.Join(dir, "flag.yaml"), []string{"SLUICE_CONFIG=" + filepath.Join(dir, "env.yaml")}
	for want, src := range map[string]Sources{
		"flag.yaml":     {File: flag, Dir: dir, Environ: env},
		"env.yaml":      {Dir: dir, Environ: env, SkipDefaultFile: true},
		DefaultFile:     {Dir: dir, Environ: []string{"SLUICE_CONFIG="}},
		"./sluice-data": {Dir: dir, SkipDefaultFile: true},
	} {
		if c, err := Load(src); err != nil || c.Data != want {
			t.Errorf("want %s, got %+v, %v", want, c, err)
		}
	}
}

func TestListsKeepTheOrderOfTheFile(t *testing.T) {
	c := mustLoad(t, `
lists:
  zeta:
    table: shop.pepi_event
    columns: {z: zulu, "a": alpha, m: "metadata.campaign", 7: seven}
    dedupe: alpha
    take: right
  alpha:
  "with:colon": {redis: "redis://other:6379", app_id: 12}
`, nil, nil)
	want := []List{
		{Name: "zeta", Table: "shop.pepi_event", Dedupe: "alpha", Take: "right",
			Columns: []Column{{"z", "zulu"}, {"a", "alpha"}, {"m", "metadata.campaign"}, {"7", "seven"}}, Profile: true},
		{Name: "alpha", Take: "left", Profile: true},
		{Name: "with:colon", Redis: "redis://other:6379", Take: "left", AppID: "12", Profile: true},
	}
	if !reflect.DeepEqual(c.Lists, want) {
		t.Errorf("got  %+v\nwant %+v", c.Lists, want)
	}
	if c.ListRedis(c.Lists[1]) != "embedded" || c.ListRedis(c.Lists[2]) != "redis://other:6379" {
		t.Error("a list's server is its own, or the main one")
	}
}

// Each mistake names the place, the key path and the remedy.
func TestMistakes(t *testing.T) {
	long := strings.Repeat("k", MinRootKeyBytes)
	tests := []struct {
		yaml  string
		env   string
		flags map[string]string
		want  string // the whole error; ... stands for anything
	}{
		{yaml: "data: x\nlisen: 127.0.0.1:1", want: "sluice.yaml:2: lisen: unknown key; did you mean listen?"},
		{yaml: "log:\n  levle: info", want: "sluice.yaml:2: log.levle: unknown key; did you mean level?"},
		{yaml: "log: {wibble: 1}", want: "sluice.yaml:1: log.wibble: unknown key; known are level, format"},
		{yaml: "lists:\n  q:\n    table: t\n    colums: {a: b}", want: "sluice.yaml:4: lists.q.colums: unknown key; did you mean columns?"},
		{yaml: "lissts: {}\nreddis: x", want: "sluice.yaml:1: lissts: unknown key; did you mean lists?\nsluice.yaml:2: reddis: unknown key; did you mean redis?"},
		{yaml: "<<: {data: x}", want: "sluice.yaml:1: want a text, found an anchor, alias or tag (write the value out)"},
		{yaml: "data: &a x", want: "sluice.yaml:1: data: want a text, found an anchor, alias or tag (write the value out)"},
		{yaml: "data: x\ndata: y", want: "read ...sluice.yaml:2: mapping key \"data\" already defined..."},
		{yaml: "data: [x\nroot_key: " + long, want: "read ...sluice.yaml:..."},
		{yaml: "data: x\n---\ndata: y", want: "sluice.yaml:3: a second YAML document; one file holds one configuration"},
		{yaml: "- a", want: "sluice.yaml:1: want keys with values, found a list"},
		{yaml: "log: info", want: "sluice.yaml:1: log: want keys with values, found a text"},
		{yaml: "partitions: many", want: "sluice.yaml:1: partitions: want a whole number, found a text"},
		{yaml: "partitions: 257", want: "sluice.yaml:1: partitions is 257, want 1 to 256"},
		{yaml: "accept_gaps: maybe", want: "sluice.yaml:1: accept_gaps: want true or false, found a text"},
		{env: "SLUICE_ACCEPT_GAPS=maybe", want: "SLUICE_ACCEPT_GAPS: accept_gaps is \"maybe\", want true or false"},
		{yaml: "alerts: {webhook: 'http://example.com/hunter2'}", want: "sluice.yaml:1: alerts.webhook has the scheme http, want https:// (http:// only to 127.0.0.1, [::1] and localhost)"},
		{yaml: "webhooks: {allow_hosts: [localhost, 10.0.0.8, '::1', my_receiver, 'http://inside:80']}", want: "sluice.yaml:1: webhooks.allow_hosts is \"http://inside:80\", want a host as it stands in the URL, without scheme and port"},
		{yaml: "webhooks: {allow_hosts: ['receiver.internal:8080']}", want: "sluice.yaml:1: webhooks.allow_hosts is \"receiver.internal:8080\", want a host as it stands in the URL, without scheme and port"},
		{yaml: "alerts: {email: a@example.com, from: b@example.com}", want: "sluice.yaml:1: alerts.email needs alerts.smtp: smtp://..."},
		{yaml: "alerts: {email: Ann, from: b@example.com, smtp: 'smtp://h:1'}", want: "sluice.yaml:1: alerts.email \"Ann\" is no address, want NAME@HOST"},
		{yaml: "data: [a]", want: "sluice.yaml:1: data: want a text, found a list"},
		{yaml: "roles: [stor]", want: "sluice.yaml:1: roles is \"stor\", want one of intake, store, send, journey; did you mean store?"},
		{yaml: "roles: [store, store]", want: "sluice.yaml:1: roles names store twice"},
		{yaml: "roles: []", want: "sluice.yaml:1: roles is empty; leave it out for all of them, or name some of intake, store, send, journey"},
		{yaml: "retention:\n  dead_letters: -1", want: "sluice.yaml:2: retention.dead_letters is -1, want 0 to 36500"},
		{yaml: "retention: {events: {mial: 3}}", want: "sluice.yaml:1: retention.events.mial: unknown key; did you mean mail?"},
		{yaml: "retention:\n  events:\n    custom: 29", want: "sluice.yaml:3: retention.events.custom is 29 days, and event_time.past_days is 30: ..."},
		{yaml: "event_time: {past_days: 0}\nretention: {events: {mail: 400}}", want: "sluice.yaml:2: retention.events.mail is 400 days, and event_time.past_days is 0, any time: ...at most 400"},
		{yaml: "shutdown_seconds: 0", want: "sluice.yaml:1: shutdown_seconds is 0, want 1 to 600"},
		{yaml: "root_key: short", want: "sluice.yaml:1: root_key has 5 characters, want at least 32; make one: ..."},
		{yaml: "redis: postgres://x", want: "sluice.yaml:1: redis is postgres://x, want redis://..., or embedded"},
		{yaml: "redis: redis://h/x", want: "...redis is redis://h/x, whose database is no number..."},
		{yaml: "redis: \"redis://u:pa%ss@h\"", want: "sluice.yaml:1: redis cannot be read as a URL; want redis://...%XX"},
		{yaml: "database: mysql://u:p4ss@h:3306", want: "sluice.yaml:1: database is mysql://u:xxxxx@h:3306, want sqlite:FILE, mysql://..."},
		{yaml: "database: postgres://u:p4ss@h:5432", want: "sluice.yaml:1: database is postgres://u:xxxxx@h:5432, want sqlite:FILE, mysql://..."},
		{yaml: "database: 'sqlite::memory:'", want: "...without a file..."},
		{yaml: "lists: {q: {take: midle}}", want: "sluice.yaml:1: lists.q.take is \"midle\", want one of left, right"},
		{yaml: "lists: {q: {redis: embedded}}", want: "sluice.yaml:1: lists.q.redis is embedded, want redis://HOST:PORT/DB, ..."},
		{yaml: "lists: {q: {columns: {a: b}}}", want: "...lists.q.columns are given without a table..."},
		{yaml: "lists:\n  q:\n    table: t", want: "sluice.yaml:2: lists.q.columns has 0 entries, want 1 to 256 of COLUMN: FIELD"},
		{yaml: "lists: {q: {table: t, columns: {a: event_id}, dedupe: event_ids}}", want: "...lists.q.dedupe is \"event_ids\", which fills no column; it takes a field of columns; did you mean event_id?"},
		{yaml: "lists: {q: {table: a.b.c, columns: {a: b}}}", want: "...lists.q.table is \"a.b.c\", want TABLE or SCHEMA.TABLE"},
		{yaml: "hashes: {dirty: buffered}", want: "sluice.yaml:1: hashes: want a list of {dirty, key, ...}, found keys with values"},
		{yaml: "hashes:\n  - dirty: d\n    kee: x", want: "sluice.yaml:3: hashes[0].kee: unknown key; did you mean key?"},
		{yaml: "hashes:\n  - key: '{date}|{name}'", want: "sluice.yaml:2: hashes[0].dirty is a name of 0 bytes, want 1 to 160"},
		{yaml: "hashes:\n  - dirty: d", want: "sluice.yaml:2: hashes[0].key needs {date} and {name}, as in {app_id}|{date}|{name}"},
		{yaml: "hashes: [{dirty: d, key: '{date}{name}'}]", want: "sluice.yaml:1: hashes[0].key has nothing between {date} and {name}; a separator must say where one ends"},
		{yaml: "hashes: [{dirty: d, key: '{date}|{nmae}'}]", want: "sluice.yaml:1: hashes[0].key has the placeholder {nmae}, want {app_id}, {date} and {name}"},
		{yaml: "hashes: [{dirty: d, key: '{date}|{name}|{date}'}]", want: "sluice.yaml:1: hashes[0].key has {date} twice"},
		{yaml: "hashes: [{dirty: d, key: '{date}|{name'}]", want: "sluice.yaml:1: hashes[0].key has a { without }; ..."},
		{yaml: "hashes: [{dirty: d, key: '{date}|{name}', zone: Mars/Base}]", want: "sluice.yaml:1: hashes[0].zone is \"Mars/Base\", which is no time zone; want a name such as UTC or Europe/Berlin"},
		{yaml: "hashes: [{dirty: d, key: '{date}|{name}', field: day}]", want: "sluice.yaml:1: hashes[0].field is \"day\", want one of hour"},
		{yaml: "hashes: [{dirty: 'sluice:d', key: '{date}|{name}'}]", want: "sluice.yaml:1: hashes[0].dirty begins with sluice:, as Sluice's own keys do"},
		{yaml: "hashes: [{dirty: d, key: '{date}|{name}', redis: ['redis://u:p4ss@h', 'http://u:p4ss@h']}]", want: "sluice.yaml:1: hashes[0].redis is http://u:xxxxx@h, want redis://..."},
		{yaml: "hashes: [{dirty: d, key: '{date}|{name}', redis: ['redis://u:p4ss@h', 'redis://u:p4ss@h']}]", want: "sluice.yaml:1: hashes[0].redis has redis://u:xxxxx@h twice for the set d"},
		{env: "SLUICE_WIBBLE_WOBBLE=1", want: "environment: unknown variable SLUICE_WIBBLE_WOBBLE; `sluice config` lists all"},
		{env: "SLUICE_REDDIS=redis://:secret@h", want: "environment: unknown variable SLUICE_REDDIS; did you mean SLUICE_REDIS?"},
		{env: "SLUICE_PARTITIONS=x", want: "SLUICE_PARTITIONS: partitions is \"x\", want a whole number"},
		{env: "SLUICE_LISTEN=nowhere", want: "SLUICE_LISTEN: listen is \"nowhere\", want HOST:PORT, such as 127.0.0.1:8019"},
		{flags: map[string]string{"listen": "0.0.0.0:8019"}, want: "--listen: listen 0.0.0.0:8019 can be reached from other machines, and there is no root_key; listen on 127.0.0.1, or set SLUICE_ROOT_KEY"},
		{flags: map[string]string{"root-key": long}, want: "apply flags: ..."},
	}
	for _, tt := range tests {
		_, err := load(t, tt.yaml, []string{tt.env}, tt.flags)
		if err == nil {
			t.Errorf("%q %s %v: no error, want %s", tt.yaml, tt.env, tt.flags, tt.want)
			continue
		}
		if !matches(err.Error(), tt.want) {
			t.Errorf("%q %s %v:\ngot  %s\nwant %s", tt.yaml, tt.env, tt.flags, err, tt.want)
		}
		for _, secret := range []string{"p4ss", "pa%ss", "secret"} {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("%q: the error shows the secret: %s", tt.yaml, err)
			}
		}
		if tt.yaml != "" && strings.Contains(err.Error(), long) {
			t.Errorf("the error shows the root key: %s", err)
		}
	}
	for _, listen := range []string{"127.0.0.1:0", "localhost:8019", "[::1]:8019"} {
		mustLoad(t, "", nil, map[string]string{"listen": listen})
	}
	mustLoad(t, "listen: :8019", []string{"SLUICE_ROOT_KEY=" + long}, nil)
}

// matches compares with a pattern in which ... stands for anything.
func matches(s, pattern string) bool {
	parts := strings.Split(pattern, "...")
	if !strings.HasPrefix(s, parts[0]) || !strings.HasSuffix(s, parts[len(parts)-1]) {
		return false
	}
	for _, p := range parts {
		i := strings.Index(s, p)
		if i < 0 {
			return false
		}
		s = s[i+len(p):]
	}
	return len(parts) > 1 || s == ""
}

func TestSecretsAreNeverPrinted(t *testing.T) {
	const key = "0123456789abcdef0123456789abcdef"
	c := mustLoad(t, "redis: redis://user:hunter2@h:1/0\ndatabase: mysql://u:hunter2@h:1/d?auth_token=hunter2\nroot_key: "+key+"\nhashes: [{dirty: d, key: '{date}|{name}', redis: ['redis://u:hunter2@h']}]", nil, nil)
	if c.RootKey.Reveal() != key || !strings.Contains(c.Redis.Reveal(), "hunter2") {
		t.Fatal("Reveal gives the secret")
	}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		fmt.Fprintf(&out, verb+"\n", *c)
		fmt.Fprintf(&out, verb+"\n", c.RootKey)
		fmt.Fprintf(&out, verb+"\n", c.Redis)
	}
	if err := json.NewEncoder(&out).Encode(c); err != nil {
		t.Fatal(err)
	}
	slog.New(slog.NewTextHandler(&out, nil)).Info("x", "key", c.RootKey, "redis", c.Redis, "all", *c)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "key", c.RootKey, "redis", c.Redis, "all", *c)
	for _, secret := range []string{key, "hunter2", fmt.Sprintf("%x", key), fmt.Sprintf("%x", "hunter2")} {
		if strings.Contains(out.String(), secret) {
			t.Errorf("%q is printed:\n%s", secret, out.String())
		}
	}
	for raw, want := range map[string]string{
		"embedded": "embedded", "sqlite:/a@b": "sqlite:/a@b", "redis://h:1": "redis://h:1",
		"redis://:12/3@h:1": "redis:[redacted]", "redis://u:a%zz@h": "redis:[redacted]",
		"mysql://u:p@ss/w@h/d": "mysql:[redacted]", "mysql://u:pw@unix(/s)/d": "mysql://u:xxxxx@unix(/s)/d",
		"postgresql://u:pw@h/d?sslmode=disable": "postgresql://u:xxxxx@h/d?sslmode=disable", "postgres://u@h/d?password=pw": "postgres://u@h/d?password=xxxxx",
		"u:pw@tcp(h)/d": "u:[redacted]", "unix:///x?password=p": "unix:///x?password=xxxxx",
	} {
		if got := URL(raw).String(); got != want {
			t.Errorf("%s is printed as %s, want %s", raw, got, want)
		}
	}
}

// A secret in the file is known for one, wherever in it it stands.
func TestSecretsInTheFile(t *testing.T) {
	const mail = "alerts: {email: a@h, from: a@h, smtp: 'smtp://%sh:1'}"
	for body, want := range map[string]bool{
		"data: x":                                         false,
		"redis: redis://h:1":                              false,
		"redis: redis://:pw@h:1":                          true,
		"database: mysql://u:pw@h/d":                      true,
		"root_key: 0123456789abcdef0123456789abcdef":      true,
		"lists: {q: {redis: 'redis://:pw@h'}}":            true,
		"suppression_sets: {s: {redis: 'redis://:pw@h'}}": true,
		"alerts: {webhook: 'https://h/hunter2'}":          true,
		"alerts: {secret: 0123456789abcdef}":              true,
		fmt.Sprintf(mail, "u:pw@"):                        true,
		fmt.Sprintf(mail, ""):                             false,
		"hashes: [{dirty: d, key: '{date}|{name}'}]":      false,
	} {
		if name, secret := mustLoad(t, body, nil, nil).File(); name == "" || secret != want {
			t.Errorf("%s: file %q, a secret in it: %v", body, name, secret)
		}
	}
	// What the environment says is not in the file.
	if _, secret := mustLoad(t, "data: x", []string{"SLUICE_DATABASE=mysql://u:pw@h/d"}, nil).File(); secret {
		t.Error("a secret of the environment is taken for one of the file")
	}
}

// The sample loads as it is, and means the defaults; with every setting
// switched on it loads too, and uses every key there is.
func TestSampleLoads(t *testing.T) {
	var sample bytes.Buffer
	if err := WriteSample(&sample); err != nil {
		t.Fatal(err)
	}
	bare, none := mustLoad(t, sample.String(), nil, nil), mustLoad(t, "", nil, nil)
	if delete(bare.origins, ""); !reflect.DeepEqual(bare, none) { // but that there is a file
		t.Errorf("the sample is not the defaults: %+v", bare)
	}
	var on []string
	for line := range strings.Lines(sample.String()) {
		if len(line) > 100 {
			t.Errorf("a line of %d bytes: %s", len(line), line)
		}
		if i := strings.IndexByte(line, '#'); i >= 0 && line[i+1] != ' ' {
			line = line[:i] + line[i+1:]
		}
		on = append(on, line)
	}
	c := mustLoad(t, strings.Join(on, ""), nil, nil)
	want := Default()
	want.Database = "sqlite:sluice-data/sluice.db"
	want.Lists = []List{{Name: "pepi_queue", Redis: "redis://10.0.0.7:6379/0", Table: "pepi_event",
		Columns: sampleColumns, Dedupe: "event_id", Take: "left", AppID: "newsletter"}}
	want.Hashes = []Hashes{{Redis: []URL{"redis://10.0.0.7:6379/0", "redis://10.0.0.8:6379/0"}, Dirty: "buffered",
		Key: "{app_id}|{date}|{name}", Field: "hour", Zone: "UTC", AppID: "newsletter"}}
	form := newOptIn("newsletter")
	form.Groups, form.ConfirmedURL, form.Fields, form.Origins = []string{"newsletter"}, "https://example.com/welcome", []string{"first_name", "language"}, []string{"https://example.com"}
	want.OptIn, want.PublicURL, want.Proxies = []OptIn{form}, "https://mail.example.com", []string{"10.0.0.7", "10.1.0.0/16"}
	want.Hosts, want.PlainServers = []string{"api.example.com"}, []string{"10.0.0.0/8", "redis.internal"}
	want.Track.URL, want.Track.Listen, want.Track.Scanners = "https://t.example.com", "127.0.0.1:8020", []string{"198.51.100.0/24"}
	want.Track.TLSCertificate, want.Track.TLSKey = "/etc/sluice/track-fullchain.pem", "/etc/sluice/track-privkey.pem"
	want.Track.ExceptApps = []string{"intranet"}
	want.UnsubscribeMailto = "unsubscribe@example.com"
	want.AllowList, want.Routes = []string{"me@example.com", "example.org"}, sampledRoutes()
	want.Caps = []Cap{{Name: "weekly", Messages: 3, Within: "7d", Tag: "promo", Class: "marketing"}}
	want.SuppressionSets = []SuppressionSet{{Name: "sender_bad_domains", Redis: "redis://10.0.0.7:6379/0", Reason: "bad_domain"}}
	want.Hooks = []Hook{{Name: "main", Provider: "ses", Secret: "USER:PASSWORD_OF_16_OR_MORE", Topics: []string{"arn:aws:sns:eu-west-1:123456789012:ses-events"}, URL: "https://mail.example.com/hooks/mandrill/main", Consent: true}}
	want.DKIM = []DKIM{{Domain: "example.com", Keys: []Pair{{"s1", "/etc/sluice/dkim-s1.pem"}}, Senders: []string{"example.com", "news.example.com"}}}
	want.Alerts.Webhook, want.Alerts.SMTP = "https://example.com/alerts", "smtp://USER:PASSWORD@mail.example.com:587"
	want.TimeSeries = "mongodb://USER:PASSWORD@10.0.0.9:27017/sluice"
	want.Webhooks.AllowHosts = []string{"receiver.internal"}
	want.Alerts.Email, want.Alerts.From = "ops@example.com", "sluice@example.com"
	want.Domains.Resolver = "127.0.0.53"
	want.SMTPD = SMTPD{Listen: "127.0.0.1:2525", TLSCert: "/etc/sluice/fullchain.pem", TLSKey: "/etc/sluice/privkey.pem", Hostname: "mail.example.com", RequireAuth: true, MaxMessageMB: 25}
	want.Bounces = Bounces{Listen: "127.0.0.1:2526", Feedback: "fbl-7h2k9q4m"}
	want.origins, c.origins = nil, nil
	if !reflect.DeepEqual(c, want) {
		t.Errorf("got  %+v\nwant %+v\nfrom\n%s", c, want, strings.Join(on, ""))
	}
	for _, s := range Settings() {
		if s.Doc == "" || !strings.Contains(sample.String(), s.Env) {
			t.Errorf("%s is not explained in the sample", s.Path)
		}
	}
}

func TestDocsSayTheLimits(t *testing.T) {
	docs := map[string]string{}
	for _, s := range Settings() {
		docs[s.Path] = s.Doc
	}
	for path, limit := range map[string]int{"alerts.secret": MinAlertSecretBytes, "partitions": sluice.MaxPartitions, "shutdown_seconds": 600, "root_key": MinRootKeyBytes, "secret": MinSecretBytes} {
		if !strings.Contains(docs[path], fmt.Sprint(limit)) {
			t.Errorf("the explanation of %s does not name %d: %s", path, limit, docs[path])
		}
	}
}

// Whatever the file holds, reading and checking it ends in a result or errors.
func FuzzDecode(f *testing.F) {
	var sample bytes.Buffer
	if err := WriteSample(&sample); err != nil {
		f.Fatal(err)
	}
	f.Add(strings.ReplaceAll(sample.String(), "\n#", "\n"))
	f.Add("lists: {a: {columns: {b: c}}}")
	f.Add("? [a]\n: b")
	f.Fuzz(func(t *testing.T, body string) {
		c := Default()
		if err := c.decode("f", []byte(body)); err == nil {
			c.finish()
			_ = c.validate()
		}
	})
}

// Every range is two numbers, in order, and those of other packages are theirs.
func TestRanges(t *testing.T) {
	most := map[string]int{}
	var read func(of reflect.Type)
	read = func(of reflect.Type) {
		for f := range of.Fields() {
			switch f.Type.Kind() {
			case reflect.Struct:
				read(f.Type)
			case reflect.Slice:
				if f.Type.Elem().Kind() == reflect.Struct {
					read(f.Type.Elem())
				}
			}
			text, ok := f.Tag.Lookup("range")
			if !ok {
				continue
			}
			low, high, _ := strings.Cut(strings.TrimPrefix(text, "0|"), "..")
			least, err := strconv.Atoi(low)
			largest, err2 := strconv.Atoi(high)
			if err != nil || err2 != nil || least >= largest || f.Type.Kind() != reflect.Int {
				t.Errorf("%s.%s: the range %q", of.Name(), f.Name, text)
			}
			most[of.Name()+"."+f.Name] = largest
		}
	}
	read(reflect.TypeFor[Config]())
	for name, want := range map[string]int{
		"Config.Partitions": sluice.MaxPartitions, "Config.TimeSeriesBulk": mongostore.MaxBulk, "SMTPD.MaxMessageMB": MaxSMTPMessageMB,
		"Mailboxes.Keep": sinkbox.MaxMails, "Mailboxes.Megabytes": sinkbox.MaxBytes >> 20, "Mailboxes.WithinSeconds": int(sinkbox.MaxWithin.Seconds()),
		"OptIn.Hours": consent.MaxHours, "OptIn.PerAddress": consent.MaxPerHour, "OptIn.PerIP": consent.MaxPerHour,
	} {
		if most[name] != want {
			t.Errorf("%s: at most %d, want %d", name, most[name], want)
		}
	}
}
