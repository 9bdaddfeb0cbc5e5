package mongostore

import (
	"context"
	"errors"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"sluice/lib/doctor"
)

// Examiner looks at the mirror for `sluice doctor`.
type Examiner struct {
	URL string
}

var _ doctor.Examiner = (*Examiner)(nil)

// Examine implements doctor.Examiner.
func (x *Examiner) Examine(ctx context.Context) doctor.Examination {
	e := doctor.Examination{Where: "mirror"}
	m, err := Open(x.URL, DefaultBulk)
	if err != nil {
		e.Fail(doctor.CheckMirrorReachable, "mend the setting timeseries", "%s", doctor.OneLine(err))
		e.Unknown(errors.New("MongoDB could not be asked"), doctor.CheckMirrorIndex)
		return e
	}
	defer func() { _ = m.client.Disconnect(context.WithoutCancel(ctx)) }() // nothing was written
	e.Where = m.where
	// Not Ping, which a user without rights may send too.
	began, err := m.begun(ctx)
	if err != nil {
		e.Fail(doctor.CheckMirrorReachable, "start it; are URL, user and password right, is there a primary, may the user read and write the database? What changes meanwhile is noted, and written later", "%s", doctor.OneLine(err))
		e.Unknown(errors.New("MongoDB could not be asked"), doctor.CheckMirrorIndex)
		return e
	}
	e.Fine(doctor.CheckMirrorReachable, "it answers, and this user may read it")
	switch has, err := m.hasIndex(ctx); {
	case err != nil:
		e.Unknown(err, doctor.CheckMirrorIndex)
	case has:
		e.Fine(doctor.CheckMirrorIndex, "collection %s has an index of app_id, name, date", SeriesCollection)
	case !began:
		e.Unknown(errors.New("nothing has been mirrored yet: the first start makes collection and index"), doctor.CheckMirrorIndex)
	default:
		e.Warn(doctor.CheckMirrorIndex, "start sluice again, which makes it, or db."+SeriesCollection+".createIndex({app_id: 1, name: 1, date: 1})",
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
