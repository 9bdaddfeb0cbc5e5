package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"sluice"
)

// What `sluice doctor` finds. The package that speaks a technology looks at it:
// flow at Redis, sqlstore at the database, mongostore at the mirror, domain at DNS,
// ops/examine at what runs. None changes anything, and what cannot be looked at is a finding too.

// Check names what was looked at, for machines: it never changes its meaning.
type Check string

// The checks, by what they look at. docs/doctor.md says what each means.
const (
	CheckRedisReachable   Check = "redis-reachable"
	CheckRedisVersion     Check = "redis-version"
	CheckRedisCluster     Check = "redis-cluster"
	CheckRedisReplica     Check = "redis-replica"
	CheckRedisPersistence Check = "redis-persistence"
	CheckRedisDisk        Check = "redis-disk-errors"
	CheckRedisEviction    Check = "redis-eviction"
	CheckRedisMemory      Check = "redis-memory"
	CheckRedisClock       Check = "redis-clock"
	CheckRedisFailover    Check = "redis-failover"

	CheckDatabaseReachable   Check = "database-reachable"
	CheckDatabaseVersion     Check = "database-version"
	CheckDatabaseEncoding    Check = "database-encoding"
	CheckDatabaseWritable    Check = "database-writable"
	CheckDatabaseHosts       Check = "database-hosts"
	CheckDatabaseSchema      Check = "database-schema"
	CheckDatabaseRights      Check = "database-rights"
	CheckDatabaseDurability  Check = "database-durability"
	CheckDatabaseConnections Check = "database-connections"
	CheckDatabaseMemory      Check = "database-memory"
	CheckDatabasePacket      Check = "database-packet"
	CheckDatabaseInfile      Check = "database-infile"
	CheckDatabaseStrict      Check = "database-strict"
	CheckDatabaseTimeZone    Check = "database-time-zone"
	CheckDatabaseClock       Check = "database-clock"
	CheckDatabaseShared      Check = "database-shared"
	CheckLedger              Check = "ledger"

	CheckServerTLS      Check = "server-tls"
	CheckServerPassword Check = "server-password"

	CheckMirrorReachable Check = "mirror-reachable"
	CheckMirrorIndex     Check = "mirror-index"

	CheckDiskFree   Check = "disk-free"
	CheckSpillFiles Check = "disk-spill-files"

	CheckDeployment  Check = "deployment"
	CheckProcesses   Check = "processes"
	CheckLeases      Check = "leases"
	CheckFollowers   Check = "followers"
	CheckLag         Check = "lag"
	CheckGaps        Check = "gaps"
	CheckDeadLetters Check = "dead-letters"
	CheckJourneys    Check = "journeys"
	CheckListTable   Check = "list-table"

	CheckDomainMX        Check = "domain-mx"
	CheckDomainSPF       Check = "domain-spf"
	CheckDomainDKIM      Check = "domain-dkim"
	CheckDomainDMARC     Check = "domain-dmarc"
	CheckDomainAlignment Check = "domain-alignment"
	CheckDomainBounces   Check = "domain-bounces"
	CheckDomainLinks     Check = "domain-links"

	CheckConfigValid   Check = "config-valid"
	CheckConfigRootKey Check = "config-root-key"
	CheckConfigListen  Check = "config-listen"
	CheckConfigProxies Check = "config-proxies"
	CheckConfigSecrets Check = "config-secrets"
	CheckConfigGaps    Check = "config-accept-gaps"
	CheckConfigTimes   Check = "config-event-time"
	CheckConfigData    Check = "config-data"

	CheckConfigUnsubscribe Check = "config-unsubscribe"
	CheckConfigHooks       Check = "config-hooks"
)

// Severity says how bad a finding is.
type Severity string

// The severities. SeverityUnknown: it could not be looked at, Found says why.
const (
	SeverityOK      Severity = "ok"
	SeverityWarning Severity = "warning"
	SeverityError   Severity = "error"
	SeverityUnknown Severity = "unknown"
)

// Finding is the result of one check at one place.
type Finding struct {
	Check    Check    `json:"check"`
	Severity Severity `json:"severity"`
	Where    string   `json:"where"` // a server, partition, list, file; no password
	Found    string   `json:"found"`
	Remedy   string   `json:"remedy,omitempty"` // only of warnings and errors
}

// Examination collects what was found about one server or thing.
type Examination struct {
	Where    string
	Findings []Finding

	// Directory is where a server keeps its data, if that is a directory of
	// this machine; empty: it is not, or the server does not tell.
	Directory string
}

// Report is what was found, in the order in which it was looked at.
type Report struct {
	Summary  Summary   `json:"summary"`
	Findings []Finding `json:"findings"`
}

// Summary counts findings.
type Summary struct {
	Errors   int `json:"errors"`
	Warnings int `json:"warnings"`
	OK       int `json:"ok"`
	Unknown  int `json:"unknown"`
}

// Add adds what was found about one thing.
func (r *Report) Add(e Examination) {
	for _, f := range e.Findings {
		switch f.Severity {
		case SeverityError:
			r.Summary.Errors++
		case SeverityWarning:
			r.Summary.Warnings++
		case SeverityUnknown:
			r.Summary.Unknown++
		default:
			r.Summary.OK++
		}
		r.Findings = append(r.Findings, f)
	}
}

// Examiner looks at one thing and changes nothing. It ends when ctx does; what
// it could not look at by then it says.
type Examiner interface {
	Examine(ctx context.Context) Examination
}

// Cursor is where a follower stands in a partition, as the database has it,
// and when it last moved (its process's clock, milliseconds since 1970).
type Cursor struct {
	Follower      string
	Partition     int
	Position      sluice.Position
	UpdatedMillis int64
}

// Fine notes that a check found nothing wrong.
func (e *Examination) Fine(c Check, format string, args ...any) {
	e.add(Finding{c, SeverityOK, e.Where, fmt.Sprintf(format, args...), ""})
}

// Warn notes what works, but not well, or not for long.
func (e *Examination) Warn(c Check, remedy, format string, args ...any) {
	e.add(Finding{c, SeverityWarning, e.Where, fmt.Sprintf(format, args...), remedy})
}

// Fail notes what does not work, or loses data.
func (e *Examination) Fail(c Check, remedy, format string, args ...any) {
	e.add(Finding{c, SeverityError, e.Where, fmt.Sprintf(format, args...), remedy})
}

// Unknown notes what could not be looked at, and why.
func (e *Examination) Unknown(why error, checks ...Check) {
	for _, c := range checks {
		e.add(Finding{c, SeverityUnknown, e.Where, OneLine(why), ""})
	}
}

func (e *Examination) add(f Finding) { e.Findings = append(e.Findings, f) }

// OneLine returns an error's text in one line. A deadline of the examination is
// said in words.
func OneLine(err error) string {
	text := strings.NewReplacer("\n\t", " ", "\n", "; ").Replace(err.Error())
	if errors.Is(err, context.DeadlineExceeded) && !strings.Contains(text, "in time") {
		return "no answer in time: " + text
	}
	return text
}

// Clocks that differ by more than these are told of. Times of events that have
// none, and ids of the logs, come from clocks of different machines.
const (
	clockWarnMillis  = 2_000
	clockErrorMillis = int64(sluice.MaxClockApart / time.Millisecond)
)

// CompareClocks asks a server for its time, in milliseconds since 1970, and
// compares it with ours in the middle of the question.
func (e *Examination) CompareClocks(c Check, ours sluice.Clock, ask func() (int64, error)) {
	before := ours.Now()
	theirs, err := ask()
	if err != nil {
		e.Unknown(err, c)
		return
	}
	took := ours.Now().Sub(before)
	ahead, side := theirs-before.Add(took/2).UnixMilli(), "ahead"
	if ahead < 0 {
		ahead, side = -ahead, "behind"
	}
	text := fmt.Sprintf("its clock is %.1f s %s of this machine's", float64(ahead)/1000, side)
	const remedy = "set both clocks by NTP (timedatectl, chrony); which of the two is wrong cannot be known here. Where Redis and a process are more than 5 minutes apart, that process releases no mail that waits for a time, and lets none expire"
	switch off := ahead - took.Milliseconds(); { // no more than this is certain
	case off > clockErrorMillis:
		e.Fail(c, remedy, "%s", text)
	case off > clockWarnMillis:
		e.Warn(c, remedy, "%s", text)
	default:
		e.Fine(c, "its clock agrees with this machine's within %.1f s", float64(ahead+took.Milliseconds())/1000)
	}
}
