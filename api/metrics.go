package api

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"sluice"
	"sluice/lib/doctor"
	"sluice/lib/meter"
)

// metrics turns snapshots into metrics when they are asked for. Nothing is
// counted twice, and no lower layer carries a metrics library.
type metrics struct {
	program           Program
	version, revision string
}

// described are all metrics below, for Describe: desc enters them.
var described []*prometheus.Desc

func desc(name, help string, labels ...string) *prometheus.Desc {
	d := prometheus.NewDesc("sluice_"+name, help, labels, nil)
	described = append(described, d)
	return d
}

// The metrics. Their names are a promise to dashboards and alerts.
var (
	descAccepted   = desc("accepted_items_total", "Items taken in, routed to the logs or to a table.")
	descStored     = desc("stored_rows_total", "Rows committed to the database.")
	descDuplicates = desc("duplicates_total", "Items left out because their id was in the database already.")
	descDead       = desc("dead_letters_total", "Items that could not be applied and were kept as dead letters.")
	descConflicts  = desc("commit_conflicts_total", "Transactions refused because a cursor had moved.")
	descRefused    = desc("commit_refusals_total", "Transactions the database refused, repeated piece by piece.")
	descUpdates    = desc("user_updates_total", "Committed updates of users, including those for users that do not exist.")
	descIgnored    = desc("user_updates_ignored_total", "Updates of users that do not exist, and that create none.")
	descUsers      = desc("users_written_total", "Users written, each once per transaction.")
	descNames      = desc("stored_events_total", "Events of committed transactions, repeats that were left out included: mail events by name, others by kind.", "name")
	descCommit     = desc("commit_seconds", "How long transactions took in the database.")
	descStage      = desc("stage_seconds", "How long the stages of a transaction took, without the database's own: read (gather it), encode, users (read and change them), trim (the logs, after it).", "stage")
	descRows       = desc("commit_rows", "Rows, repeats and dead letters of a transaction.")
	descAppend     = desc("append_items", "Items of requests in a batch that was written to a log.")
	descCall       = desc("redis_call_seconds", "How long scripts in Redis took, including the network.", "server")
	descCallErrors = desc("redis_errors_total", "Commands and scripts that Redis did not answer, or refused.", "server")
	descMirror     = desc("mirror_write_seconds", "How long writes of documents of the series to MongoDB took.")
	descDocuments  = desc("mirror_documents_total", "Documents of the series written to MongoDB.")
	descMirrorErrs = desc("mirror_errors_total", "How often mirroring the series failed; it restarts by itself.")
	descSMTP       = desc("smtp_accepted_messages_total", "Messages accepted by SMTP and durably written.")
	descSMTPSends  = desc("smtp_accepted_recipients_total", "Recipients of messages accepted by SMTP.")
	descSMTPNot    = desc("smtp_refused_total", "Senders, recipients, messages and commands refused by SMTP.", "reason")
	descSMTPTook   = desc("smtp_accept_seconds", "How long messages accepted by SMTP took, from their last byte to the answer.")
	descSMTPOpen   = desc("smtp_connections", "Open SMTP connections.")
	descLag        = desc("follower_lag_seconds", "How far a follower is behind its log, in time.", "follower", "partition")
	descLagItems   = desc("follower_lag_items", "How many items of its list a follower holds and has not stored; for a log shown only when it is 0.", "follower", "partition")
	descLog        = desc("log_batches", "Batches in the log of a partition that this process stores, without those already stored.", "partition")
	descMargin     = desc("log_margin_seconds", "How far back the log of a partition keeps stored batches, 60 at most; the database may go back so far without a gap. For partitions that this process stores.", "partition")
	descListMargin = desc("list_margin_seconds", "How far back a list, or hashes, keeps stored elements, 60 at most; the database may go back so far without a gap. For those that this process stores in tables.", "list")
	descFailing    = desc("follower_failing", "1 if a follower makes no progress, because it fails repeatedly or has met a gap; else 0.", "follower")
	descHeld       = desc("list_held_items", "Elements of a list that are taken but not committed yet.", "list")
	descWaiting    = desc("list_waiting_items", "Elements of a list that are not taken yet.", "list")
	descLeases     = desc("leases", "Leases this process holds.", "role")
	descChanges    = desc("lease_changes_total", "Leases this process took, gave back, or lost to another process that took it for dead.", "role", "change")
	descFree       = desc("data_free_bytes", "Free space on the file system of the data directory.")
	descSize       = desc("data_size_bytes", "Size of the file system of the data directory.")
	descChkAge     = desc("journey_checkpoint_age_seconds", "For how long changes of where users are in journeys wait to be written to the database, at the longest in this process; 0: none do.")
	descChkSaved   = desc("journey_checkpoints_total", "Checkpoints of a partition's journeys that were written to the database.")
	descChkBytes   = desc("journey_checkpoint_bytes_total", "Bytes of records in checkpoints of journeys.")
	descChkFailed  = desc("journey_checkpoints_failed_total", "Attempts at checkpoints of journeys that failed; they are made again.")
	descStranded   = desc("journey_stranded_total", "How often users of a journey were due whose version of it is not in use; each is looked at again a minute later.")
	descDropped    = desc("journey_places_dropped_total", "Places in journeys that were dropped: their user was merged into one of another partition, where their version is not in use or cannot be read.")
	descRecovered  = desc("journey_recoveries_total", "Partitions of journeys that were written anew from the database, because Redis was empty or had gone back.")
	descPosted     = desc("webhook_requests_total", "Requests to webhooks, by outcome: delivered, failed (made again), given_up.", "outcome")
	descPostedEv   = desc("webhook_events_total", "Events delivered to webhooks.")
	descPostedLag  = desc("webhook_lag_seconds", "For how long the webhook that is furthest behind has had events that it has not got; 0: none has. On the process that posts.")
	descStreams    = desc("event_streams", "Open streams of events.")
	descMissed     = desc("event_stream_missed_total", "Events that slow readers of streams did not get, and were told of.")
	descSuppressed = desc("suppressed_entries", "Addresses and domains that are not mailed, as this process has them in memory.")
	descSupprAge   = desc("suppressions_age_seconds", "How long ago this process last knew of every change of suppressions.")
	descSupprStale = desc("suppressions_stale", "1 while mail of a class waits because the suppressions here are too old for it (suppression_age_seconds), else 0.", "class")
	descDomain     = desc("sender_domain_findings", "Findings in DNS about a domain that mail is sent from. At most 100 domains.", "domain", "severity")
	descClock      = desc("clock_ahead_seconds", "How far this process's clock is ahead of Redis's; negative if behind, 0 within a second.")
	descBuild      = desc("build_info", "Always 1; the labels say what runs.", "version", "revision", "goversion")
	descProcesses  = desc("live_processes", "Processes that share the roles, this one included.")
	descReady      = desc("ready", "1 if the program is ready, else 0.")
)

// sink takes metrics.
type sink chan<- prometheus.Metric

func (to sink) counter(d *prometheus.Desc, n int64, labels ...string) {
	to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
}

func (to sink) gauge(d *prometheus.Desc, v float64, labels ...string) {
	to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

func (to sink) histogram(d *prometheus.Desc, h meter.Snapshot, labels ...string) {
	to <- prometheus.MustNewConstHistogram(d, h.Count, h.Sum, h.Buckets, labels...)
}

// Describe implements prometheus.Collector.
func (m metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range described {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m metrics) Collect(ch chan<- prometheus.Metric) {
	s, to := m.program.Stats(), sink(ch)
	to.counter(descAccepted, s.Accepted)
	to.counter(descStored, s.Stored)
	to.counter(descDuplicates, s.Duplicates)
	to.counter(descDead, s.Dead)
	to.counter(descConflicts, s.Conflicts)
	to.counter(descRefused, s.Refused)
	to.counter(descUpdates, s.Updates)
	to.counter(descIgnored, s.Ignored)
	to.counter(descUsers, s.Users)
	for name, n := range s.Names {
		to.counter(descNames, n, label(name))
	}
	collectTimes(to, &s)
	collectEventsOut(to, &s)
	if s.Mirror != nil {
		to.counter(descDocuments, s.Mirror.Documents)
		to.counter(descMirrorErrs, s.Mirror.Errors)
	}
	if s.SMTP != nil {
		to.counter(descSMTP, s.SMTP.Messages)
		to.counter(descSMTPSends, s.SMTP.Recipients)
		for reason, n := range s.SMTP.Refused {
			to.counter(descSMTPNot, n, reason)
		}
		to.gauge(descSMTPOpen, float64(s.SMTP.Open))
	}
	collectReturned(to, s.Returned)
	collectLanding(to, s.Landing)
	to.counter(descPauses, s.MailPauses)
	to.gauge(descStops, float64(s.MailStops))
	to.counter(descFeedbackLost, s.FeedbackDropped)
	collectFollowers(to, &s)
	for _, l := range s.Lists {
		if l.Held >= 0 {
			to.gauge(descHeld, float64(l.Held), label(l.Name))
		}
		if l.Waiting >= 0 {
			to.gauge(descWaiting, float64(l.Waiting), label(l.Name))
		}
	}
	for role, n := range s.Leases {
		to.gauge(descLeases, float64(n), role)
	}
	for role, c := range s.LeaseChanges {
		to.counter(descChanges, c.Taken, role, "taken")
		to.counter(descChanges, c.Lost, role, "lost")
		to.counter(descChanges, c.Returned, role, "returned")
	}
	if s.DiskSizeBytes > 0 {
		to.gauge(descFree, float64(s.DiskFreeBytes))
		to.gauge(descSize, float64(s.DiskSizeBytes))
	}
	to.gauge(descBuild, 1, label(m.version), label(m.revision), runtime.Version())
	to.gauge(descProcesses, float64(s.Processes))
	to.gauge(descReady, b2f(m.program.Ready() == nil))
}

// collectFollowers sends where followers stand.
func collectFollowers(to sink, s *Stats) {
	for _, f := range s.Followers {
		partition := strconv.Itoa(f.Partition)
		to.gauge(descLag, f.LagSeconds, label(f.Name), partition)
		if f.LagItems >= 0 {
			to.gauge(descLagItems, float64(f.LagItems), label(f.Name), partition)
		}
		if f.LogBatches >= 0 {
			to.gauge(descLog, float64(f.LogBatches), partition)
		}
	}
	for partition, covered := range s.Margins {
		to.gauge(descMargin, covered.Seconds(), strconv.Itoa(partition))
	}
	for name, covered := range s.ListMargin {
		to.gauge(descListMargin, covered.Seconds(), label(name))
	}
	for name, failing := range s.Failing {
		to.gauge(descFailing, b2f(failing), label(name))
	}
}

// collectTimes sends the histograms, and how suppressions and routes stand.
func collectTimes(to sink, s *Stats) {
	to.histogram(descCommit, s.CommitSeconds)
	for stage, h := range s.Stages {
		to.histogram(descStage, h, stage)
	}
	to.histogram(descRows, s.CommitRows)
	to.histogram(descAppend, s.AppendItems)
	s.Checkpoints.collect(to)
	to.gauge(descSuppressed, float64(s.Suppressed))
	to.gauge(descSupprAge, s.SuppressionsAge)
	to.gauge(descClock, s.ClockAhead)
	for class, stale := range s.SuppressionsStale {
		to.gauge(descSupprStale, b2f(stale), class.String())
	}
	collectLedger(to, s)
	collectRoutes(to, s)
	for _, d := range s.Domains {
		to.gauge(descDomain, float64(d.Summary.Errors), label(d.Name), string(doctor.SeverityError))
		to.gauge(descDomain, float64(d.Summary.Warnings), label(d.Name), string(doctor.SeverityWarning))
	}
	if s.Mirror != nil {
		to.histogram(descMirror, s.Mirror.Took)
	}
	if s.SMTP != nil {
		to.histogram(descSMTPTook, s.SMTP.Seconds)
	}
	for _, r := range s.Redis {
		to.histogram(descCall, r.Took, label(r.Server))
		to.counter(descCallErrors, r.Failed, label(r.Server))
	}
}

func b2f(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// label makes a text of a producer or an operator a legal label value. The
// exposition format demands UTF-8, and one bad name would cost all metrics.
func label(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// metrics answers scrapes, a few at once. Beyond loopback they need a key: the
// names of lists, servers and events are nobody else's business.
func (s *Server) metrics() http.HandlerFunc {
	registry := newRegistry(metrics{s.program, s.version, s.revision}, s.intake, s.hooks)
	scrapes := make(chan struct{}, maxParallelScrapes)
	return func(w http.ResponseWriter, r *http.Request) {
		if err := s.mayWatch(w, r); err != nil {
			s.writeError(w, r, err)
			return
		}
		select {
		case scrapes <- struct{}{}:
			defer func() { <-scrapes }()
			promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorLog: scrapeLog{s.log, idOf(w)}}).ServeHTTP(w, r)
		default:
			s.writeError(w, r, refusal(sluice.CodeUnavailable, "%d scrapes are answered already, try again later", maxParallelScrapes))
		}
	}
}

// scrapeLog logs what is wrong with a scrape, but for a caller who has read enough.
type scrapeLog struct {
	log *slog.Logger
	id  string // of the request
}

// Println implements promhttp.Logger.
func (l scrapeLog) Println(said ...any) {
	for _, part := range said {
		if err, ok := part.(error); ok && (errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)) {
			return
		}
	}
	l.log.Warn("metrics are not answered whole", "id", l.id, "error", strings.TrimSuffix(fmt.Sprintln(said...), "\n"))
}

// newRegistry returns a registry of this server's own, so that two programs in
// one process (tests) do not meet in a global one.
func newRegistry(m metrics, in *intake, h *hooks) *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(in.accepted, in.refused, in.answers, in.seconds, h.requests, h.refused, h.events, h.last)
	r.MustRegister(m, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collectors.NewBuildInfoCollector())
	return r
}

func (c *Checkpoints) collect(to sink) {
	if c == nil {
		return
	}
	to.gauge(descChkAge, c.AgeSeconds)
	to.counter(descChkSaved, c.Saved)
	to.counter(descChkBytes, c.Bytes)
	to.counter(descChkFailed, c.Failed)
	to.counter(descStranded, c.Stranded)
	to.counter(descDropped, c.Dropped)
	to.counter(descRecovered, c.Recovered)
}

// collectEventsOut tells of webhooks and streams.
func collectEventsOut(to sink, s *Stats) {
	if p := s.Webhooks; p != nil {
		to.counter(descPosted, p.Delivered, "delivered")
		to.counter(descPosted, p.Failed, "failed")
		to.counter(descPosted, p.GivenUp, "given_up")
		to.counter(descPostedEv, p.Events)
		to.gauge(descPostedLag, p.LagSeconds)
	}
	to.gauge(descStreams, float64(s.Streams))
	to.counter(descMissed, s.StreamMissed)
}
