package mongostore

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"sluice"
	"sluice/lib/meter"
	"sluice/store"
)

// Names in the mirror's database.
const (
	// DefaultDatabase is used if the URL names none.
	DefaultDatabase = "sluice"

	// SeriesCollection has the documents, StateCollection one that counts epochs.
	SeriesCollection = "series"
	StateCollection  = "sluice_mirror"

	versionField = "_v"
	stateID      = "series"
)

// Bounds.
const (
	// DefaultBulk is how many documents go in one message: MongoDB would take
	// 100,000, and locks nothing for longer because of a larger one.
	DefaultBulk = 500

	// MaxBulk bounds it: 48 MB is the most that a message may have, and a
	// statement is about a kilobyte.
	MaxBulk = 10_000

	callTimeout   = 20 * time.Second
	selectTimeout = 5 * time.Second // to find a server that answers
)

// Mirror writes documents of the series:
//
//	{_id: "2026-01-31|4:shop|open", app_id: "shop", name: "open",
//	 date: ISODate("2026-01-31"), "0": 17, "13": 5, _v: 4294967299}
//
// with a field for each hour of that day (UTC) that was counted.
//
// The idea. A document's hours are set to their present totals, if those have a
// larger version. So a document may be written again, or late. What a stopped
// process still sends, or what arrives after its sender has given up, is older
// than the stored hours.
//
// The invariants. The _id follows from app, name and day, so two processes
// never make two documents of one, on one server or on shards. Texts of
// producers are values, never names of fields. A filter has the shard key and
// the _id.
//
// Nothing is upserted. An upsert with a filter by version tries to insert a
// document that is there. Servers differ in what they tell of the others in
// that message. So documents are updated. Only if that found fewer than there
// are, the missing ones are looked for and inserted. That is once a day and
// name.
type Mirror struct {
	client *mongo.Client
	series *mongo.Collection
	state  *mongo.Collection
	where  string // what messages call it; no password
	bulk   int

	// Took is how long messages with documents took; Documents counts those
	// written, Failed the messages that were not answered well.
	Took      meter.Seconds
	Documents atomic.Int64
	Failed    atomic.Int64
}

var _ store.SeriesMirror = (*Mirror)(nil)

// Open prepares a client. It asks the server nothing: one that is away is no
// reason not to start.
func Open(address string, bulk int) (*Mirror, error) {
	database, where, err := Check(address)
	if err != nil {
		return nil, err
	}
	o := options.Client().ApplyURI(address)
	if o.WriteConcern == nil {
		o.SetWriteConcern(writeconcern.Majority()) // what is acknowledged stays
	}
	if o.ServerSelectionTimeout == nil {
		o.SetServerSelectionTimeout(selectTimeout)
	}
	if o.AppName == nil {
		o.SetAppName("sluice")
	}
	client, err := mongo.Connect(o)
	if err != nil {
		return nil, fmt.Errorf("prepare the mirror %s: %s", where, redacted(err, address))
	}
	db := client.Database(database)
	return &Mirror{client: client, series: db.Collection(SeriesCollection), state: db.Collection(StateCollection), where: where, bulk: min(max(1, bulk), MaxBulk)}, nil
}

// Parts are those of a URL of MongoDB.
type Parts struct{ Scheme, User, Hosts, Database, Options string }

// Split takes a URL apart as the driver does: what is before the first @ is the user and
// the password, whatever characters these have. Not net/url: there may be several hosts,
// and paths of sockets.
func Split(address string) (p Parts) {
	scheme, rest, _ := strings.Cut(address, "://")
	p.Scheme = scheme
	if user, behind, ok := strings.Cut(rest, "@"); ok {
		p.User, rest = user, behind
	}
	rest, p.Options, _ = strings.Cut(rest, "?")
	p.Hosts, p.Database, _ = strings.Cut(rest, "/")
	return p
}

// Check looks at the form of a URL, and returns the database it names and what
// messages call it: its hosts.
func Check(address string) (database, where string, err error) {
	const want = "want mongodb://USER:PASSWORD@HOST:PORT/DATABASE, or mongodb+srv://USER:PASSWORD@HOST/DATABASE, with special characters of a password as %XX"
	p := Split(address)
	if p.Scheme != "mongodb" && p.Scheme != "mongodb+srv" {
		return "", "", errors.New("cannot be read as a URL of MongoDB; " + want)
	}
	database, err = url.PathUnescape(p.Database)
	if err != nil || p.Hosts == "" || strings.Contains(p.User, "/") || strings.Contains(p.Hosts, "@") || strings.ContainsAny(database, `/\. "$@`) {
		return "", "", errors.New("cannot be read as a URL of MongoDB; " + want)
	}
	if database == "" {
		database = DefaultDatabase
	}
	if p.Scheme == "mongodb" { // another asks the name service
		if err := options.Client().ApplyURI(address).Validate(); err != nil {
			return "", "", fmt.Errorf("is refused by the driver: %s; %s", redacted(err, address), want)
		}
	}
	return database, p.Scheme + "://" + p.Hosts + "/" + database, nil
}

// redacted is an error's text without the user and the password of a URL, and the secrets
// of its options.
func redacted(err error, address string) string {
	p := Split(address)
	_, password, _ := strings.Cut(p.User, ":")
	secrets := []string{p.User, password}
	for option := range strings.SplitSeq(p.Options, "&") {
		name, value, _ := strings.Cut(option, "=")
		if low := strings.ToLower(name); strings.Contains(low, "password") || strings.Contains(low, "properties") {
			secrets = append(secrets, value)
		}
	}
	text := err.Error()
	for _, secret := range secrets {
		plain, _ := url.QueryUnescape(secret)
		for _, s := range []string{secret, plain} {
			if s != "" {
				text = strings.ReplaceAll(text, s, "xxxxx")
			}
		}
	}
	return text
}

// String names the server, without a password.
func (m *Mirror) String() string { return m.where }

// Close ends the connections.
func (m *Mirror) Close(ctx context.Context) error {
	if err := m.client.Disconnect(ctx); err != nil {
		return fmt.Errorf("close the mirror %s: %w", m.where, err)
	}
	return nil
}

// Begin makes the index, if there is none, and opens an epoch.
func (m *Mirror) Begin(ctx context.Context) (epoch int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	has, err := m.hasIndex(ctx)
	if err == nil && !has {
		_, err = m.series.Indexes().CreateOne(ctx, mongo.IndexModel{Keys: indexKeys()})
	}
	if err != nil {
		return 0, fmt.Errorf("make the index of %s: %w", m.where, err)
	}
	var state struct {
		Epoch int64 `bson:"epoch"`
	}
	err = m.state.FindOneAndUpdate(ctx, bson.D{{Key: "_id", Value: stateID}}, bson.D{{Key: "$inc", Value: bson.D{{Key: "epoch", Value: int64(1)}}}},
		options.FindOneAndUpdate().SetUpsert(true).SetReturnDocument(options.After)).Decode(&state)
	if err != nil {
		return 0, fmt.Errorf("open an epoch in %s: %w", m.where, err)
	}
	return state.Epoch, nil
}

// indexKeys is the index that readers use, and the shard key if there is one.
func indexKeys() bson.D {
	return bson.D{{Key: "app_id", Value: int32(1)}, {Key: "name", Value: int32(1)}, {Key: "date", Value: int32(1)}}
}

// hasIndex reports whether an index begins with the three fields, ours or the
// operator's: one for a sharded collection may have other options than ours.
func (m *Mirror) hasIndex(ctx context.Context) (bool, error) {
	specs, err := m.series.Indexes().ListSpecifications(ctx)
	if err != nil {
		return false, err
	}
	for _, s := range specs {
		elements, err := s.KeysDocument.Elements()
		if err != nil {
			return false, fmt.Errorf("read index %s: %w", s.Name, err)
		}
		var keys []string
		for _, e := range elements {
			keys = append(keys, e.Key())
		}
		if len(keys) >= 3 && slices.Equal(keys[:3], []string{"app_id", "name", "date"}) {
			return true, nil
		}
	}
	return false, nil
}

// Set writes documents, one message after the other. On FerretDB each statement
// of a message holds a connection, so it stops for ever when two messages hold
// all it has.
func (m *Mirror) Set(ctx context.Context, version int64, days []store.DayTotals) error {
	for part := range slices.Chunk(days, m.bulk) {
		if err := m.set(ctx, version, part); err != nil {
			return fmt.Errorf("write %d documents of version %d to %s: %w", len(part), version, m.where, err)
		}
	}
	return nil
}

func (m *Mirror) set(ctx context.Context, version int64, days []store.DayTotals) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	models := make([]mongo.WriteModel, len(days))
	for i := range days {
		d := &days[i]
		filter := append(identity(d), bson.E{Key: versionField, Value: bson.D{{Key: "$lt", Value: version}}})
		models[i] = mongo.NewUpdateOneModel().SetFilter(filter).SetUpdate(bson.D{{Key: "$set", Value: totals(d, version)}})
	}
	var updated int64
	err := m.message(func() error {
		result, err := m.series.BulkWrite(ctx, models, options.BulkWrite().SetOrdered(false))
		if result != nil {
			updated = result.MatchedCount
		}
		return err
	})
	if err != nil {
		return err
	}
	m.Documents.Add(updated)
	if updated == int64(len(days)) {
		return nil
	}
	return m.insertMissing(ctx, version, days)
}

// insertMissing looks why documents were not updated: they are not there, or
// newer.
func (m *Mirror) insertMissing(ctx context.Context, version int64, days []store.DayTotals) error {
	have, err := m.versions(ctx, days)
	if err != nil {
		return fmt.Errorf("look for documents that were not updated: %w", err)
	}
	var missing []any
	for i := range days {
		d := &days[i]
		switch has, ok := have[documentID(&d.SeriesDay)]; {
		case !ok:
			missing = append(missing, append(identity(d), totals(d, version)...))
		case has > version:
			return fmt.Errorf("%w: a document has version %d already: another process writes to this collection", sluice.ErrConflict, has)
		case has < version:
			return errors.New("another process wrote a document in between; it is tried again")
		}
	}
	if len(missing) == 0 {
		return nil // all had this version
	}
	err = m.message(func() error {
		_, err := m.series.InsertMany(ctx, missing, options.InsertMany().SetOrdered(false))
		return err
	})
	if err == nil {
		m.Documents.Add(int64(len(missing)))
	}
	return err
}

// versions returns those of the documents that are there, by _id.
func (m *Mirror) versions(ctx context.Context, days []store.DayTotals) (map[string]int64, error) {
	ids := make(bson.A, len(days))
	for i := range days {
		ids[i] = documentID(&days[i].SeriesDay)
	}
	cursor, err := m.series.Find(ctx, bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: ids}}}}, options.Find().SetProjection(bson.D{{Key: versionField, Value: int32(1)}}))
	if err != nil {
		return nil, err
	}
	var found []struct {
		ID      string `bson:"_id"`
		Version int64  `bson:"_v"`
	}
	if err := cursor.All(ctx, &found); err != nil {
		return nil, err
	}
	have := make(map[string]int64, len(found))
	for _, f := range found {
		have[f.ID] = f.Version
	}
	return have, nil
}

// message counts one.
func (m *Mirror) message(send func() error) error {
	began := time.Now()
	err := send()
	m.Took.Observe(time.Since(began))
	if err != nil {
		m.Failed.Add(1)
	}
	return err
}

// documentID is the key of a document. The app has its length before it, so
// that no two are alike.
func documentID(d *store.SeriesDay) string {
	return time.UnixMilli(d.DayMillis).UTC().Format(time.DateOnly) + "|" + strconv.Itoa(len(d.App)) + ":" + d.App + "|" + d.Name
}

func identity(d *store.DayTotals) bson.D {
	fields := make(bson.D, 0, 4+len(d.Hours)+1)
	return append(fields, bson.E{Key: "_id", Value: documentID(&d.SeriesDay)}, bson.E{Key: "app_id", Value: d.App},
		bson.E{Key: "name", Value: d.Name}, bson.E{Key: "date", Value: bson.DateTime(d.DayMillis)})
}

func totals(d *store.DayTotals, version int64) bson.D {
	fields := make(bson.D, 0, len(d.Hours)+1)
	for _, h := range d.Hours {
		fields = append(fields, bson.E{Key: strconv.Itoa(h.Hour), Value: h.Count})
	}
	return append(fields, bson.E{Key: versionField, Value: version})
}
