package bench

import "context"

// bench is one thing that can be measured.
type bench struct {
	name  string
	line  string   // what it measures, in a line
	parts []string // what --only chooses from; nil: it has no parts
	run   func(ctx context.Context, r *run) error
}

// benches is the table of all benches, in the order of the help.
var benches = []bench{
	{eventsName, "mail events from a Redis list into a table: the old designs, Sluice, the database's own bulk load", eventsParts, runEvents},
	{"filled", "the same into a table that holds 20 million events already", nil, runFilled},
	{"hashes", "counters in Redis hashes on 12 servers into the series: the published flush, Sluice", nil, runHashes},
	{"series", "counters mirrored in MongoDB: one $inc for each event, Sluice", nil, runSeries},
	{"rules", "ten rules about users over a million profiles in SQLite, read and matched", nil, runRules},
	{"rewrite", "links of a newsletter replaced by signed ones, on one core: a regular expression, a tokenizer, Sluice", nil, runRewrite},
	{"suppression", "is a recipient on a list: a Redis set fetched or asked for each, Sluice's list of 10 million; changes through MariaDB", suppressionParts, runSuppression},
	{"http", "events and counters by HTTP: requests of 1,000 and of one, durable, with the store running", httpParts, runHTTP},
	{"hooks", "webhooks of 1,000 events, signed, with the store running, beside the database's bulk load of the same rows", nil, runHooks},
	{"track", "users by HTTP: calls of one event beside a handler that reads, changes and commits; calls of 75 objects", trackParts, runTrack},
	{"clicks", "opens and clicks of mails, durable before the answer, beside a static image; with the store running", nil, runClicks},
	{"send", "mails out: over 50 ms by SMTP and by API, in lockstep and by Sluice; CPU a mail beside Postfix", sendParts, runSend},
	{journeyName, "ten million people due at one second, eleven branches: jobs in a sorted set, sets popped by hundreds, Sluice", journeyParts, runJourney},
	{"spool", "mails into the spool and out of it, with nothing and with a million waiting: a table with SKIP LOCKED, Sluice", nil, runSpool},
	{turnsName, "this program and another one in turns, so that a busy machine slows both: how their speed and computing compare", turnsParts, runTurns},
	{peopleName, "people looked for among ten million by HTTP: by id, address and how these begin", usersParts, runPeople},
	{dashboardName, "the dashboard in a browser: the overview while events come in, a list of 100,000 rows", dashboardParts, runDashboard},
	{"users", "a file of users into the tables of users, and being told of one of them meanwhile", usersParts, runUsers},
}
