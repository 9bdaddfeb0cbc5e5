package webhook

import (
	"context"
	"fmt"
	"time"

	"sluice"
	"sluice/store"
	"sluice/track/feed"
	"sluice/user/profile"
)

const (
	dayMillis = int64(24 * time.Hour / time.Millisecond)

	// maxLostRows bounds the names that are added up of what was removed.
	maxLostRows = 10_000
)

// sayLost says how much was removed by retention before it was posted: of an endpoint
// that was off, or failed, for longer than events are kept. The series know how many
// there were, by when they happened; so the number is about right. It is said once each
// time that the endpoint is switched on or changed. A lane that is at the end of its log
// has missed nothing, however long ago that end was stored. One with a marked batch is
// behind, and what is lost of it is reckoned from the end of the batch: it was all there
// when it was marked, and its beginning may be that of a long silence.
func (e *endpoint) sayLost(ctx context.Context, heads map[int]sluice.Position, notes []store.WebhookDelivery) error {
	now := e.s.Clock.Now().UnixMilli()
	for i := range notes {
		if notes[i].Outcome == store.DeliveryLost && notes[i].AtMillis >= e.hook.UpdatedMillis {
			return nil
		}
	}
	var oldest *lane
	since, lost := int64(0), int64(0)
	for part, l := range e.lanes {
		from := l.row.At
		if l.row.To != (sluice.Place{}) {
			from = l.row.To
		} else if !store.EndOf(part, heads[part]).Behind(from) {
			continue
		}
		if at := int64(from.Position.Major); at != 0 && (oldest == nil || at < since) {
			oldest, since = l, at
		}
	}
	if oldest == nil {
		return nil
	}
	filter := feed.Filter{Types: e.hook.Types}
	for kind, days := range e.s.Kept {
		edge := now - int64(days)*dayMillis
		if days == 0 || edge <= since {
			continue
		}
		rows, err := e.s.Store.Series(ctx, store.SeriesQuery{Days: true, FromMillis: since - since%dayMillis, ToMillis: edge - edge%dayMillis, Kind: &kind, Whole: true, ByName: true, ByKind: true, Limit: maxLostRows})
		if err != nil {
			return err
		}
		for i := range rows {
			if filter.TakesType(kind, rows[i].Name) {
				lost += rows[i].Count
			}
		}
	}
	if lost == 0 {
		return nil
	}
	text := fmt.Sprintf("about %d events since %s were removed by retention before they were posted", lost, profile.TimeText(since))
	e.s.Log.Error("events were removed before a webhook got them", "webhook", e.hook.ID, "about", lost, "since", profile.TimeText(since))
	next := oldest.row
	next.DueMillis = now // so that the row changes; a marked batch is tried at once
	e.number++
	return e.move(ctx, oldest, store.WebhookMove{To: next, Note: &store.WebhookDelivery{
		Slot: e.slot(store.DeliveryLost), Number: e.number, AtMillis: now, Partition: oldest.row.At.Partition, Events: int(lost), Outcome: store.DeliveryLost, Error: text,
	}})
}
