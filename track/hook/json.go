package hook

import (
	"encoding/json"
	"time"
)

// timeLayout is how times of events are written everywhere (ops/transfer).
const timeLayout = "2006-01-02T15:04:05.000Z"

// MarshalJSON returns the event as `sluice hook parse` prints it (INTERFACES.md, section
// 7). Every member is always there: what the provider does not say is null, or empty if
// it is a list or an object.
func (e *Event) MarshalJSON() ([]byte, error) {
	var at *string
	if e.Timed {
		at = orNull(time.UnixMilli(e.TimeMillis).UTC().Format(timeLayout))
	}
	tags := e.Tags
	if tags == nil {
		tags = []string{}
	}
	return json.Marshal(struct {
		Type         string                     `json:"type"`
		Recipient    *string                    `json:"recipient"`
		MessageID    *string                    `json:"message_id"`
		EventID      string                     `json:"event_id"`
		Time         *string                    `json:"time"`
		RejectReason *string                    `json:"reject_reason"`
		Description  *string                    `json:"description"`
		MTAResponse  *string                    `json:"mta_response"`
		UserAgent    *string                    `json:"user_agent"`
		ClickURL     *string                    `json:"click_url"`
		Tags         []string                   `json:"tags"`
		Metadata     map[string]json.RawMessage `json:"metadata"`
	}{
		e.Type, orNull(e.Recipient), orNull(e.MessageID), e.EventID, at, orNull(string(e.RejectReason)), orNull(e.Description),
		orNull(e.MTAResponse), orNull(e.UserAgent), orNull(e.ClickURL), tags, e.facts(),
	})
}

// orNull returns nil for an empty text, which is null in JSON.
func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
