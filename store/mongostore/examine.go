package mongostore

import (
	"context"
	"errors"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"sluice"
)

// Examiner looks at the mirror for `sluice doctor`.
type Examiner struct {
	URL string
}

var _ sluice.Examiner = (*Examiner)(nil)

// Examine implements sluice.Examiner.
func (x *Examiner) Examine(ctx context.Context) sluice.Examination {
	e := sluice.Examination{Where: "mirror"}
	m, err := Open(x.URL, DefaultBulk)
	if err != nil {
		e.Fail(sluice.CheckMirrorReachable, "mend the setting timeseries", "%s", sluice.OneLine(err))
		e.Unknown(errors.New("MongoDB could not be asked"), sluice.CheckMirrorIndex)
		return e
	}
	defer func() { _ = m.client.Disconnect(context.WithoutCancel(ctx)) }() // nothing was written
	e.Where = m.where
	// Not Ping, which a user without rights may send too.
	began, err := m.begun(ctx)
	if err != nil {
		e.Fail(sluice.CheckMirrorReachable, "start it; are URL, user and password right, is there a primary, may the user read and write the database? What changes meanwhile is noted, and written later", "%s", sluice.OneLine(err))
		e.Unknown(errors.New("MongoDB could not be asked"), sluice.CheckMirrorIndex)
		return e
	}
	e.Fine(sluice.CheckMirrorReachable, "it answers, and this user may read it")
	switch has, err := m.hasIndex(ctx); {
	case err != nil:
		e.Unknown(err, sluice.CheckMirrorIndex)
	case has:
		e.Fine(sluice.CheckMirrorIndex, "collection %s has an index of app_id, name, date", SeriesCollection)
	case !began:
		e.Unknown(errors.New("nothing has been mirrored yet: the first start makes collection and index"), sluice.CheckMirrorIndex)
	default:
		e.Warn(sluice.CheckMirrorIndex, "start sluice again, which makes it, or db."+SeriesCollection+".createIndex({app_id: 1, name: 1, date: 1})",
			"collection %s has no index of app_id, name, date: every read of a series reads all documents", SeriesCollection)
	}
	return e
}

// begun reports whether there was an epoch.
func (m *Mirror) begun(ctx context.Context) (bool, error) {
	err := m.state.FindOne(ctx, bson.D{{Key: "_id", Value: stateID}}).Err()
	if errors.Is(err, mongo.ErrNoDocuments) {
		return false, nil
	}
	return err == nil, err
}
