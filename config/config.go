package config

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"sluice/lib/token"
	"sluice/mail/route"
	"sluice/mail/via/sinkbox"
	"sluice/store"
	"sluice/store/mongostore"
)

// Limits of a configuration.
const (
	MaxFileBytes        = 1 << 20
	MaxLists            = 256
	MaxListNameBytes    = 180 // with "intake:" before it, it names a lease in SQL
	MaxHashServers      = 64  // of all hashes together
	MaxDirtyBytes       = 160 // with what names a server's hashes behind it, like a list's name
	MaxColumns          = 256
	MinRootKeyBytes     = 32
	MinAlertSecretBytes = 16
	MinSecretBytes      = token.MinSecretBytes
	MinRedisMB          = 64
)

// DefaultFile is read if it exists and no other is named.
const DefaultFile = "sluice.yaml"

// RedisEmbedded is the value of `redis` that asks for a private server.
const RedisEmbedded = "embedded"

// The roles, and where the producers of a list put new elements.
const (
	RoleStore   = "store"
	RoleIntake  = "intake"
	RoleSend    = "send"
	RoleJourney = "journey"

	TakeLeft  = "left"
	TakeRight = "right"

	// FieldHour is what the fields of foreign hashes are.
	FieldHour = "hour"
)

// AllRoles returns every role, in the order of the data's way.
func AllRoles() []string { return []string{RoleIntake, RoleStore, RoleSend, RoleJourney} }

// Config is everything that can be set. The tags of a field:
//
//	yaml    its key in the file; the environment variable is SLUICE_ and the
//	        path in capitals (log.level: SLUICE_LOG_LEVEL), the flag is -- and
//	        the path with dashes (--log-level)
//	doc     the explanation, as the sample prints it
//	sample  what the sample shows if the default is empty
//	range   LOW..HIGH of a number, with 0| before it if it may also be 0
//	only    "file" for what has neither variable nor flag, "noflag" for what
//	        must not stand on a command line, where every user of the machine
//	        can read it
type Config struct {
	Listen          string    `yaml:"listen" doc:"Address of the HTTP server: health, readiness, metrics, API. Only this machine can reach the default. Beyond loopback (0.0.0.0:8019, or :8019) a root_key is required."`
	Redis           URL       `yaml:"redis" doc:"The Redis server that holds the logs: redis://USER:PASSWORD@HOST:PORT/DB, rediss:// for TLS, unix:///PATH for a socket. redis://HOST:PORT,HOST:PORT names nodes of one cluster; redis-sentinel://HOST:PORT,HOST:PORT/MASTER_SET (or rediss-sentinel://) the sentinels of a master, with ?db=, and ?sentinel_user= and ?sentinel_password= if they ask for a password. 'embedded' starts a private redis-server below the data directory, which syncs every write to disk and ends with the program."`
	Database        URL       `yaml:"database" doc:"The database: sqlite:FILE (one process only) or mysql://USER:PASSWORD@HOST:PORT/NAME for MySQL and MariaDB, or postgres://USER:PASSWORD@HOST:PORT/NAME for PostgreSQL. Both take several hosts, HOST:PORT,HOST:PORT: the first that takes writes is used. Default: sluice.db in the data directory." sample:"sqlite:sluice-data/sluice.db"`
	Data            string    `yaml:"data" doc:"Directory of what this process keeps on disk: the embedded Redis, SQLite, and files of events that wait for Redis (spill). Created if missing."`
	Roles           []string  `yaml:"roles" doc:"What this process does: intake drains the lists into logs, store writes the logs to the database and moves what waits to be sent to its lanes, send sends it, journey moves people through journeys. Several processes share a role fairly. On a command line or in the environment: separated by commas."`
	Partitions      int       `yaml:"partitions" range:"1..256" doc:"How many slices the users are spread over, 1 to 256: the most processes that can share a role. Fixed once there is data; changing it means export and import. If it is not set, a deployment that has data keeps the number it was set up with."`
	EventTime       EventTime `yaml:"event_time" doc:"How far from now the time of an event or counter may be. What is outside is refused (requests) or becomes a dead letter (lists), which can be replayed after a change of the bounds."`
	Retention       Retention `yaml:"retention" doc:"For how many days what is stored is kept, 0 to 36500. 0: for ever, until you delete it. Unasked go ip, user_agent and addresses in URLs of opens and clicks (track.keep_addresses_days, 7), the audit log (365 days), imports (90), days of soft bounces (60), ended sessions, and what no mail or journey needs any more. Days (UTC) go as a whole: what is kept for 30 days is gone after 31."`
	KeyRate         int       `yaml:"key_items_per_second" range:"0..1000000000" doc:"How many items (events, counters, updates of users, recipients of mail) each key of the API may send to a process, 0 to 1000000000; 0: as many as it likes. What is unused is saved up for 5 seconds. Beyond it requests are answered 429. The root_key is not bounded."`
	Braze           Braze     `yaml:"braze" doc:"How many calls of Braze's REST API this process answers, all keys together; 0 to 1000000000, 0: as many as come. Beyond it calls are answered 429. The headers X-RateLimit-... of each answer say what is set; where nothing is, a limit of 1000000000. Braze's own limits stand beside each. What a key may send is key_items_per_second."`
	RedisMB         int       `yaml:"redis_megabytes" range:"0|64..1048576" doc:"How much memory the embedded Redis may take, 64 to 1048576; beyond it requests are answered 503, and what is there is worked off. 0: half of the machine's. Another Redis has maxmemory in its own configuration."`
	WaitReplicas    int       `yaml:"wait_replicas" range:"0..5" doc:"How many replicas of a Redis master must have received what was handed in before its caller is answered 202, 201 or 250, 0 to 5; 0: none, and a failover may take back what was answered a moment before. With too few within wait_replicas_ms the answer is 503, and what was handed in may be in all the same. A write more and an answer of the replicas are waited for. See docs/scale.md."`
	WaitReplicasMS  int       `yaml:"wait_replicas_ms" range:"10..10000" doc:"How many milliseconds the replicas of wait_replicas have, 10 to 10000."`
	BacklogMB       int       `yaml:"backlog_megabytes" range:"1..1048576" doc:"How much of what came by HTTP may wait in the logs, in Redis's memory, while the database is away or slow, 1 to 1048576; beyond it requests are answered 503. As much again of lists and imports may wait in the logs of partitions that stand still at a gap; beyond it these wait, too. A million events are some 160 MB. Each partition has an equal share."`
	LogMarginMB     int       `yaml:"log_margin_megabytes" range:"1..1048576" doc:"How many megabytes of stored entries the logs keep in Redis's memory, 1 to 1048576. All partitions share it equally. Entries stay for 60 seconds or as long as this has room, whichever is less. A database that fails over to a replica which lags by less loses nothing: the entries behind its cursors are stored again. 1,000 events/s are some 10 MB a minute. The lists with a table, and the hashes of each server, keep as much again of what they have held, all together, each its equal share, where they are. The metrics sluice_log_margin_seconds and sluice_list_margin_seconds say how far it reaches."`
	Waiting         Waiting   `yaml:"waiting" doc:"How much mail may wait to be sent, the mail that is scheduled for later included. Beyond it mail alone is refused: with 503, with 429 if it is the bound of the key, by SMTP with 452. The last tenth of each bound, at least one mail, is for transactional mail alone. Events, users and everything else go on. Give all processes the same. A megabyte is a million bytes."`
	OnceNames       int       `yaml:"idempotency_names" range:"0|1000..1000000000" doc:"How many requests for mail with an Idempotency-Key Redis remembers, each for 24 hours, 1000 to 1000000000; of one key of the API half of them. A request counts once, and once more for each 3 messages in each partition; a transactional call of Braze with an external_send_id and attributes twice more. Each takes some 250 bytes of Redis. Beyond it mail with a new Idempotency-Key is answered 503, or 429 if it is the half of the key. Everything else is accepted, also events with a new Idempotency-Key, although each such request takes as much. 0: as many as take a quarter of what the embedded Redis may have; 5000000 with another Redis."`
	StoreWriters    int       `yaml:"store_writers" range:"0..16" doc:"How many transactions this process stores logs by at once, 0 to 16, each of partitions of its own. While one writes, the others read and change the users of their next. For a database that is away each statement waits for its round trip, and several wait together. 0: 2 if the database answers within 2 ms at the start or is SQLite, but 1 on one processor; else 4. With a server each but the first takes up to 4 connections, and 0 takes fewer writers where the server's bound is too small for as many in each process; the log says so. See docs/scale.md."`
	SeriesNames     int       `yaml:"series_names" range:"1..1000000" doc:"How many names (of events and counters) of an app are counted by themselves, 1 to 1000000; those that come after are counted together as (other). A program that puts numbers into names must not fill the database. A hundred times as many in all."`
	TimeSeries      URL       `yaml:"timeseries" only:"noflag" doc:"MongoDB that gets the series as well, a document for each app, name and day: mongodb://USER:PASSWORD@HOST:PORT/DATABASE, or mongodb+srv://. Without it there is none. Give it to all processes with the role store; docs/operate.md explains it. A password in it is never printed." sample:"mongodb://USER:PASSWORD@10.0.0.9:27017/sluice"`
	TimeSeriesBulk  int       `yaml:"timeseries_bulk" range:"1..10000" doc:"How many documents go to MongoDB in one message, 1 to 10000. Servers that only speak its protocol may want fewer: FerretDB 1.x 50."`
	Lists           []List    `yaml:"lists" only:"file" doc:"Redis lists to drain: the list's key, then its settings. Elements are JSON objects, one event each. A list that is empty or absent is waited for."`
	Hashes          []Hashes  `yaml:"hashes" only:"file" doc:"Redis hashes of counters to drain into the series, and the set that has the keys of those that have changed. Producers count with HINCRBY first, then mark the key with SADD."`
	PublicURL       string    `yaml:"public_url" doc:"The address by which browsers reach this server, perhaps through a proxy: links in mails begin with it. https://HOST, or with a path." sample:"https://mail.example.com"`
	Proxies         []string  `yaml:"proxies" doc:"Addresses and networks of proxies before this server. What they say in X-Forwarded-For is believed, and nobody else. On a command line or in the environment: separated by commas." sample:"[10.0.0.7, 10.1.0.0/16]"`
	Hosts           []string  `yaml:"hosts" doc:"Names by which requests may address a server that listens on loopback, beside localhost and public_url's host: those that a proxy passes on in Host. Others are refused, so that no page in a browser on this machine can ask it (DNS rebinding). On a command line or in the environment: separated by commas." sample:"[api.example.com]"`
	PlainServers    []string  `yaml:"plain_servers" doc:"Servers of Redis, databases and MongoDB on other machines that may be reached without TLS and without a password, because nobody else is on the way: addresses, networks, names. Of all others sluice doctor reports an error, and each start logs one. On a command line or in the environment: separated by commas." sample:"[10.0.0.0/8, redis.internal]"`
	Secret          Secret    `yaml:"secret" only:"noflag" doc:"Signs the links in mails, at least 32 characters: head -c 32 /dev/urandom | base64. The same for all processes. Without it one is made and kept in the database. Never printed."`
	SecretPrevious  Secret    `yaml:"secret_previous" only:"noflag" doc:"The secret before this one: links that it has signed stay good until they expire. Never printed."`
	OptIn           []OptIn   `yaml:"optin" only:"file" doc:"Forms of double opt-in: the form's name, then its settings. POST /v1/optin/NAME asks, a link that is mailed confirms; docs/consent.md explains it. Needs public_url."`
	Sending         string    `yaml:"sending" doc:"What is mailed at all. off: nothing, it waits. sink: all mail goes into built-in mailboxes, nobody gets any. allow-list: recipients of allow_list get theirs by the routes, all other mail goes into the mailboxes. on: all is mailed."`
	AllowList       []string  `yaml:"allow_list" doc:"Who gets mail with sending: allow-list. Addresses, domains, '*.example.com' for all domains below one. On a command line or in the environment: separated by commas." sample:"[me@example.com, example.org]"`
	Routes          []Route   `yaml:"routes" only:"file" doc:"Ways out for mail: the route's name, then its settings. Mail that several could take is shared by weight; what fails is left alone for a while, and its mail goes by others or waits. docs/routes.md explains it."`
	Hooks           []Hook    `yaml:"hooks" only:"file" doc:"Accounts at mail providers that may post what becomes of mail to /hooks/PROVIDER/NAME: the entry's name, then its settings. docs/hooks.md explains it. Give all processes the same."`
	DKIM            []DKIM    `yaml:"dkim" only:"file" doc:"Mail of which senders' domains is signed here, and with what: the domain, then its keys. Leave out domains for which your provider signs."`
	Domains         Domains   `yaml:"domains" doc:"The domains that mail is sent from; docs/domains.md explains what is looked at."`
	InDoubtSeconds  int       `yaml:"in_doubt_seconds" range:"1..86400" doc:"After what time transactional mail is sent once more of which nobody knows whether it has arrived, 1 to 86400. A relay may take 600 s to answer."`
	Mailboxes       Mailboxes `yaml:"mailboxes" doc:"The built-in mailboxes. What they do to mail is always the same for an address; 0 to 1000 of 1000 addresses each."`
	RootKey         Secret    `yaml:"root_key" only:"noflag" doc:"A key of the HTTP API with all permissions, which needs no database to be checked, at least 32 characters: head -c 32 /dev/urandom | base64. Better given as SLUICE_ROOT_KEY than written down here. Never printed."`
	Log             Log       `yaml:"log" doc:"The program's own log, on standard error."`
	SMTPD           SMTPD     `yaml:"smtpd" doc:"The SMTP listener: whatever sends mail by SMTP can hand it in here, with any name and a key of the API that has the permission messages:send for a password. docs/operate.md explains it."`
	Track           Track     `yaml:"track" doc:"What is put into mails so that opens and clicks are known; docs/tracking.md explains it. Give all processes the same."`
	Bounces         Bounces   `yaml:"bounces" doc:"The SMTP listener for what comes back: bounces, answers of programs, complaints. It answers no mail. docs/bounces.md explains it, with the DNS records."`
	Pause           Pause     `yaml:"pause" doc:"When mail of a route, or with a tag, is stopped by itself: too much of it comes back, is refused because of us, or is complained of, all processes together. It stays stopped until an operator lets it go on (sluice sending resume). Give all processes the same. docs/bounces.md explains it."`
	Alerts          Alerts    `yaml:"alerts" doc:"Who is told when something is wrong, and when. Nobody is without a webhook or an e-mail address. Give all processes the same."`
	Webhooks        Webhooks  `yaml:"webhooks" doc:"Events that are posted to endpoints of yours, which sluice webhook makes; docs/webhooks.md explains it. Give all processes the same."`
	StartSeconds    int       `yaml:"start_seconds" range:"0..3600" doc:"How long the start waits for the main Redis and the database to answer, 0 to 3600: after a power cut all start together. Other servers of lists, hashes and sets are not waited for. What is wrong in another way is said at once."`
	ShutdownSeconds int       `yaml:"shutdown_seconds" range:"1..600" doc:"How long the program may finish what is in hand after SIGTERM or SIGINT, 1 to 600. A second signal ends it at once. Nothing accepted is lost either way: the next start goes on from the cursors."`

	Caps []Cap `yaml:"caps" only:"file" doc:"How much mail a person gets over all journeys: the cap's name, then its settings. A marketing message of a journey that would be one too many is left out, unless it says ignore_caps. What a person got is counted in the ledger of sends, so retention.sends must not be shorter. Give all processes with the role journey the same. docs/journeys.md explains it."`

	GlobalControlPercent int `yaml:"global_control_percent" range:"0..50" doc:"So many of a hundred people get no marketing mail of any journey, to see what journeys do, 0 to 50. Who they are never changes; a larger share has the people of a smaller one. Give all processes with the role journey the same. docs/journeys.md explains it."`

	SuppressionSets []SuppressionSet `yaml:"suppression_sets" only:"file" doc:"Redis sets of domains and addresses that are not mailed, followed where they are: the set's key, then its settings. SADD and SREM are in force within a second; the set is never changed."`

	SuppressionAge SuppressionAge `yaml:"suppression_age_seconds" doc:"How old the list of those who are not mailed may be when mail is taken to be sent. A process that cannot reach the database does not know who has unsubscribed: from then on mail waits, none is lost. /readyz says so."`

	UnsubscribeMailto string `yaml:"unsubscribe_mailto" doc:"An address of yours that takes mails of those who want no more: it goes into the headers of marketing mail, beside the link. Somebody has to read them. Needs public_url." sample:"unsubscribe@example.com"`

	AcceptGaps bool `yaml:"accept_gaps" doc:"true: a follower that finds a part of its log or list missing goes on behind it, and what is missing is lost. Without it such a follower stands still and says so. Set it for one start, to recover, never for good."`

	// origins says where the value of a key path comes from: FILE:LINE, an
	// environment variable, a flag. What is missing has its default.
	// The empty path is the file's own.
	origins map[string]string
}

// List is a foreign Redis list to drain.
type List struct {
	Name    string   // its key in Redis: the key of the mapping
	Redis   URL      `yaml:"redis" doc:"The server of the list. Default: the main one." sample:"redis://10.0.0.7:6379/0"`
	Table   string   `yaml:"table" doc:"Your own table to fill, TABLE or SCHEMA.TABLE. Without one the elements are events and go through the partitions' logs to the table 'events'." sample:"pepi_event"`
	Columns []Column `yaml:"columns" doc:"For a table: COLUMN: FIELD of the element. A dot reaches into an object."`
	Dedupe  string   `yaml:"dedupe" doc:"FIELD that holds the event's own id: a repeat with the same id is left out. For a table its column needs a unique key of its own. Without it nothing is taken for a repeat." sample:"event_id"`
	Take    string   `yaml:"take" doc:"The end that is taken from: left if the producers use RPUSH, right if they use LPUSH." sample:"left"`
	AppID   string   `yaml:"app_id" doc:"The app of events that name none." sample:"newsletter"`
	Profile bool     `yaml:"profile_events" doc:"false: events of this list count for no profile. Else one that names an existing user counts among the events of that user, as one of /users/track does." sample:"false"`
	Consent bool     `yaml:"consent" doc:"true: the events 'subscribed' of this list lift what held mail back, and 'complained' stops transactional mail too. Without it 'complained' stops marketing mail alone, and 'subscribed' changes nothing. Who pushes to the list is trusted with both."`
}

// Hashes are foreign hashes of counters to drain, on any number of servers.
type Hashes struct {
	Redis []URL  `yaml:"redis" doc:"The servers, 64 at most. Default: the main one." sample:"[redis://10.0.0.7:6379/0, redis://10.0.0.8:6379/0]"`
	Dirty string `yaml:"dirty" doc:"The set of the changed hashes' keys." sample:"buffered"`
	Key   string `yaml:"key" doc:"How the hashes' keys are written: {date} and {name}, and {app_id} if the keys have it. A date is 2026-01-31 or 20260131. On a Redis Cluster the set and all hashes need one hash tag, as in dirty '{counts}buffered' and key '{{counts}}{app_id}|{date}|{name}'." sample:"'{app_id}|{date}|{name}'"`
	Field string `yaml:"field" doc:"What the fields are: hour, 0 to 23 or 00 to 23." sample:"hour"`
	Zone  string `yaml:"zone" doc:"The time zone of date and hour." sample:"UTC"`
	AppID string `yaml:"app_id" doc:"The app of keys without {app_id}." sample:"newsletter"`
}

// Column is one column of a user's table and the field that fills it. Their
// order is that of the file.
type Column struct {
	Column string
	Field  string
}

// EventTime bounds the times of events.
type EventTime struct {
	PastDays      int `yaml:"past_days" range:"0..36500" doc:"An event or counter may be so many days old, 0 to 36500. 0: any time."`
	FutureMinutes int `yaml:"future_minutes" range:"0..525600" doc:"Its time may be so many minutes ahead, 0 to 525600. 0: any time."`
}

// Braze bounds the calls of Braze's REST API.
type Braze struct {
	Track    int `yaml:"track_per_3_seconds" range:"0..1000000000" doc:"/users/track. Braze: 3000."`
	Sync     int `yaml:"sync_per_minute" range:"0..1000000000" doc:"/users/track/sync. Braze: 500."`
	Identity int `yaml:"identity_per_minute" range:"0..1000000000" doc:"/users/identify, alias, merge and delete together. Braze: 20000."`
	Export   int `yaml:"export_per_minute" range:"0..1000000000" doc:"/users/export/ids. Braze: 250, on older accounts 2500."`
	Groups   int `yaml:"groups_per_minute" range:"0..1000000000" doc:"/subscription/status/set. Braze: 5000."`
	Lists    int `yaml:"lists_per_hour" range:"0..1000000000" doc:"/events/list and /purchases/product_list together. Braze: 1000."`
	Other    int `yaml:"other_per_hour" range:"0..1000000000" doc:"All others together. Braze: 250000."`
}

// Retention says for how many days things are kept.
type Retention struct {
	Events      EventRetention `yaml:"events" doc:"Events of each kind. Where the database can (MariaDB, MySQL, PostgreSQL), a day that is past the longest of the four is dropped as a whole, which costs next to nothing. Kinds that are kept shorter than others are deleted in pieces. None may be shorter than event_time.past_days: a repeat of an event that is gone would be stored again."`
	SeriesHours int            `yaml:"series_hours" range:"0..36500" doc:"The series by hour, and the counts of what mail got back, are kept so many days."`
	SeriesDays  int            `yaml:"series_days" range:"0..36500" doc:"The series by day are kept so many days."`
	DeadLetters int            `yaml:"dead_letters" range:"0..36500" doc:"Dead letters are kept so many days from when they were found."`
	Sends       int            `yaml:"sends" range:"0..36500" doc:"Sends that have ended (sent, failed, in doubt, ...) are kept so many days from when they last changed. Their totals stay."`
}

// EventRetention says for how many days events of each kind are kept.
type EventRetention struct {
	Mail     int `yaml:"mail" range:"0..36500" doc:"Mail events are kept so many days."`
	Custom   int `yaml:"custom" range:"0..36500" doc:"Custom events are kept so many days."`
	Purchase int `yaml:"purchase" range:"0..36500" doc:"Purchases are kept so many days."`
	System   int `yaml:"system" range:"0..36500" doc:"Events of the system are kept so many days."`
}

// Alerts says who is told when something is wrong. A bound of 0 is none.
type Alerts struct {
	Webhook         Secret `yaml:"webhook" only:"noflag" doc:"Alerts are posted here as JSON: https://, or http:// to this machine. Redirects are not followed. Never printed: it may hold a secret." sample:"https://example.com/alerts"`
	Secret          Secret `yaml:"secret" only:"noflag" doc:"Signs what is posted: header X-Sluice-Signature, t=SECONDS,v1=HEX, the HMAC-SHA256 of SECONDS, a dot and the body. At least 16 characters. Never printed."`
	Email           string `yaml:"email" doc:"Addresses that get alerts by mail, separated by commas, 20 at most." sample:"ops@example.com"`
	From            string `yaml:"from" doc:"The address that these mails come from." sample:"sluice@example.com"`
	SMTP            URL    `yaml:"smtp" only:"noflag" doc:"The mail server for them: smtp://USER:PASSWORD@HOST:587, which must offer STARTTLS unless it is this machine, or smtps://USER:PASSWORD@HOST:465." sample:"smtp://USER:PASSWORD@mail.example.com:587"`
	LagSeconds      int    `yaml:"lag_seconds" range:"0..86400" doc:"Alert when a follower is so far behind. 0 to 86400."`
	DeadLetters     int    `yaml:"dead_letters" range:"0..1000000000" doc:"Alert when so many dead letters wait. 0 to 1000000000."`
	InDoubt         int    `yaml:"in_doubt" range:"0..1000000000" doc:"Alert when so many mails, or scheduled mails, are in doubt that will not be sent by themselves. 0 to 1000000000."`
	DiskFreePercent int    `yaml:"disk_free_percent" range:"0..99" doc:"Alert when less of the data directory's disk is free. 0 to 99."`
	HoldSeconds     int    `yaml:"hold_seconds" range:"0..3600" doc:"Something must be wrong so long before it is told, and well again so long before its end is. 0 to 3600."`
	RepeatHours     int    `yaml:"repeat_hours" range:"0..8760" doc:"While it lasts, it is told again so often. 0: it is not; at most 8760."`
}

// On reports whether anybody is told.
func (a *Alerts) On() bool { return a.Webhook != "" || a.Email != "" }

// Webhooks says where events may be posted to, and for how long it is tried.
type Webhooks struct {
	AllowHosts  []string `yaml:"allow_hosts" doc:"Names of hosts inside that webhooks may be posted to, also by http://, as they stand in the URL: localhost, 10.0.0.8. Whatever else leads to private, link-local or loopback addresses, or to the metadata of clouds, is refused. On a command line or in the environment: separated by commas." sample:"[receiver.internal]"`
	GiveUpHours int      `yaml:"give_up_hours" range:"1..720" doc:"How many hours a request is tried that is not answered 2xx, 1 to 720. An endpoint that nothing has reached for so long is switched off, and keeps its place."`
}

// Log is how the program writes its own log.
type Log struct {
	Level  string `yaml:"level" doc:"debug, info, warn or error."`
	Format string `yaml:"format" doc:"text or json, one line an entry."`
}

// Waiting bounds what waits to be sent.
type Waiting struct {
	Megabytes    int `yaml:"megabytes" range:"0|1..1048576" doc:"Megabytes of mail, 1 to 1048576: sends in Redis and their contents in the database. 0: half of what the embedded Redis may have (redis_megabytes); 1024 with another Redis."`
	Mails        int `yaml:"mails" range:"0|1..1000000000" doc:"Mails, one for each recipient, 1 to 1000000000. 0: no bound but that of megabytes."`
	KeyMegabytes int `yaml:"key_megabytes" range:"0|1..1048576" doc:"Megabytes of mail that one key of the API has handed in. 0: half of megabytes. The root_key is not bounded."`
	KeyMails     int `yaml:"key_mails" range:"0|1..1000000000" doc:"Mails that one key of the API has handed in. 0: half of mails."`
}

// Default returns the configuration of a program nobody has set anything for.
// Database stays empty until Load, because it follows from Data.
func Default() *Config {
	return &Config{
		Listen:          "127.0.0.1:8019",
		Redis:           RedisEmbedded,
		Data:            "./sluice-data",
		Roles:           AllRoles(),
		Partitions:      64,
		EventTime:       EventTime{PastDays: 30, FutureMinutes: 60},
		WaitReplicasMS:  1000,
		BacklogMB:       256,
		LogMarginMB:     64,
		SeriesNames:     store.DefaultSeriesNames,
		TimeSeriesBulk:  mongostore.DefaultBulk,
		SMTPD:           SMTPD{RequireAuth: true, MaxMessageMB: MaxSMTPMessageMB},
		Track:           Track{Opens: true, Clicks: true, Transactional: true, KeepAddressesDays: 7},
		Alerts:          Alerts{LagSeconds: 300, DeadLetters: 1, InDoubt: 1, DiskFreePercent: 10, HoldSeconds: 60, RepeatHours: 24},
		Webhooks:        Webhooks{GiveUpHours: 24},
		Pause:           defaultPause,
		Sending:         string(route.Sink),
		Domains:         Domains{Check: true},
		InDoubtSeconds:  605,
		SuppressionAge:  SuppressionAge{Marketing: 5, Transactional: 60},
		Mailboxes:       Mailboxes{Keep: sinkbox.DefaultMails, Megabytes: sinkbox.DefaultBytes >> 20, WithinSeconds: int(sinkbox.DefaultWithin.Seconds())},
		Log:             Log{Level: "info", Format: "text"},
		StartSeconds:    60,
		ShutdownSeconds: 20,
		origins:         map[string]string{},
	}
}

// HasRole reports whether this process has the role.
func (c *Config) HasRole(role string) bool { return slices.Contains(c.Roles, role) }

// Origin says where a setting comes from, by its key path ("log.level"):
// FILE:LINE, the variable's or flag's name, or "default".
func (c *Config) Origin(path string) string {
	if o := c.origins[path]; o != "" {
		return o
	}
	return "default"
}

// Named reports whether somebody has set a setting.
func (c *Config) Named(path string) bool { return c.origins[path] != "" }

// Shown returns the value of a setting by its key path, for people: of secrets
// and passwords a stand-in.
func (c *Config) Shown(path string) string {
	value := c.fieldAt(path).Interface()
	if words, ok := value.([]string); ok {
		return strings.Join(words, ",")
	}
	return fmt.Sprint(value)
}

// File returns the file that was read, empty if there was none, and whether
// there is a secret in it: the root_key, say, or a URL with a password.
func (c *Config) File() (name string, secret bool) {
	if name = c.origins[""]; name == "" {
		return "", false
	}
	inFile := func(path string) bool { return strings.HasPrefix(c.origins[path], name+":") }
	var urls []URL
	for _, s := range Settings() {
		if !inFile(s.Path) {
			continue
		}
		switch value := c.fieldAt(s.Path).Interface().(type) {
		case Secret:
			secret = secret || value != ""
		case URL:
			urls = append(urls, value)
		}
	}
	if inFile("timeseries") {
		urls = append(urls, c.TimeSeries)
	}
	for _, l := range c.Lists { // lists, sets and hashes are only in files
		urls = append(urls, l.Redis)
	}
	for _, s := range c.SuppressionSets {
		urls = append(urls, s.Redis)
	}
	for _, h := range c.Hashes {
		if !slices.Equal(h.Redis, []URL{c.Redis}) { // else it may be the default
			urls = append(urls, h.Redis...)
		}
	}
	for i := range c.Routes {
		r := &c.Routes[i]
		urls = append(urls, r.SMTP.URL)
		secret = secret || r.SES.SecretKey != "" || r.HTTP.URL != "" || len(r.HTTP.Headers) > 0
	}
	for i := range c.Hooks {
		for _, key := range hookSecrets {
			path := joinPath(joinPath("hooks", c.Hooks[i].Name), key)
			secret = secret || *c.Hooks[i].secretAt(key) != "" && inFile(path)
		}
	}
	hidden := func(u URL) bool {
		return strings.Contains(u.String(), hiddenPassword) || strings.HasSuffix(u.String(), redacted)
	}
	return name, secret || slices.ContainsFunc(urls, hidden)
}

// OnlyThisMachine reports whether nobody else can reach the HTTP server.
func (c *Config) OnlyThisMachine() bool { return isLoopback(c.Listen) }

// ListRedis returns the server of a list.
func (c *Config) ListRedis(l List) URL {
	if l.Redis == "" {
		return c.Redis
	}
	return l.Redis
}

// finish fills in the defaults that follow from other settings.
func (c *Config) finish() {
	if c.Database == "" {
		c.Database = URL("sqlite:" + filepath.Join(c.Data, "sluice.db"))
	}
	c.PublicURL = strings.TrimSuffix(c.PublicURL, "/")
	c.Track.URL = strings.TrimSuffix(c.Track.URL, "/")
	for i := range c.Lists {
		if c.Lists[i].Take == "" {
			c.Lists[i].Take = TakeLeft
		}
	}
	for i := range c.Hashes {
		h := &c.Hashes[i]
		h.Field, h.Zone = cmp.Or(h.Field, FieldHour), cmp.Or(h.Zone, "UTC")
		if len(h.Redis) == 0 {
			h.Redis = []URL{c.Redis}
		}
	}
}
