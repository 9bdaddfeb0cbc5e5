package baseline

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"golang.org/x/sync/errgroup"
)

// Mongo is the server that the old design counts in, and where a bench looks
// for what was mirrored.
type Mongo struct {
	client *mongo.Client
	series *mongo.Collection
}

// DialMongo connects to a server, and names the collection of documents in a
// database of it.
func DialMongo(url, database, collection string) (*Mongo, error) {
	client, err := mongo.Connect(options.Client().ApplyURI(url))
	if err != nil { // it may show a password
		return nil, fmt.Errorf("connect to MongoDB: the URL is not understood")
	}
	return &Mongo{client, client.Database(database).Collection(collection)}, nil
}

// Close ends the connections.
func (m *Mongo) Close(ctx context.Context) error { return m.client.Disconnect(ctx) }

// Clear removes the database.
func (m *Mongo) Clear(ctx context.Context) error {
	if err := m.series.Database().Drop(ctx); err != nil {
		return fmt.Errorf("empty MongoDB: %w", err)
	}
	return nil
}

// Sum adds up an hour of all documents of an app.
func (m *Mongo) Sum(ctx context.Context, app string, hour int) (sum int64, err error) {
	cursor, err := m.series.Find(ctx, bson.D{{Key: "app_id", Value: app}})
	if err != nil {
		return 0, fmt.Errorf("read documents: %w", err)
	}
	var documents []bson.M
	if err := cursor.All(ctx, &documents); err != nil {
		return 0, fmt.Errorf("read documents: %w", err)
	}
	for _, d := range documents {
		switch n := d[strconv.Itoa(hour)].(type) {
		case int64:
			sum += n
		case int32:
			sum += int64(n)
		}
	}
	return sum, nil
}

// IncrementEach is the time series as it was before it was buffered. It makes
// one $inc for each event, by so many workers at once, until a moment. Each
// worker has names of its own, since FerretDB loses increments of one document
// that come at once. The filter is the _id, which is the fastest that it knows.
// It returns how many increments were acknowledged.
func (m *Mongo) IncrementEach(ctx context.Context, app string, names, workers, hour int, until time.Time) (int64, error) {
	counts := make([]int64, workers)
	group, ctx := errgroup.WithContext(ctx)
	increment := bson.D{{Key: "$inc", Value: bson.D{{Key: strconv.Itoa(hour), Value: int64(1)}}}}
	for w := range workers {
		group.Go(func() error {
			for n := w; time.Now().Before(until); n += workers {
				if n >= names {
					n = w
				}
				name := "name " + strconv.Itoa(n)
				document := bson.D{{Key: "app_id", Value: app}, {Key: "name", Value: name}}
				update := append(increment[:1:1], bson.E{Key: "$setOnInsert", Value: document})
				if _, err := m.series.UpdateOne(ctx, bson.D{{Key: "_id", Value: app + "|" + name}}, update, options.UpdateOne().SetUpsert(true)); err != nil {
					return fmt.Errorf("increment a document: %w", err)
				}
				counts[w]++
			}
			return nil
		})
	}
	err := group.Wait()
	total := int64(0)
	for _, n := range counts {
		total += n
	}
	return total, err
}
