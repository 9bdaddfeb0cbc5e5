package webhook

import (
	"encoding/json"

	"sluice"
	"sluice/user/profile"
)

// The formats of an endpoint.
const (
	FormatStandard = "standard"

	// FormatBraze is that of the statuses that Braze posts of mail by its transactional
	// API: one to a request, and of no other mail. It is signed as the other is.
	FormatBraze = "braze"
)

// brazeStatuses has, by the name of an event, the status and the field of its time. They
// are those of the reply to the call that sends the mail.
var brazeStatuses = map[string]struct{ status, at string }{
	sluice.EventQueued: {"sent", "enqueued_at"}, sluice.EventSent: {"processed", "processed_at"},
	sluice.EventDelivered: {"delivered", "delivered_at"}, sluice.EventBounced: {"bounced", "bounced_at"},
	sluice.EventFailed: {"aborted", "aborted_at"}, sluice.EventRejected: {"aborted", "aborted_at"},
}

// brazeBody is the status that an event tells of; nil: none.
func brazeBody(e *sluice.Event) []byte {
	status, ok := brazeStatuses[e.Name]
	if !ok || e.Kind != sluice.KindMail {
		return nil
	}
	var p struct {
		Reply    string `json:"reply"`
		Reason   string `json:"reason"`
		Metadata struct {
			Campaign string `json:"campaign_id"`
			Send     string `json:"external_send_id"`
		} `json:"metadata"`
	}
	if json.Unmarshal([]byte(e.Properties), &p) != nil || p.Metadata.Campaign == "" {
		return nil
	}
	metadata := map[string]string{"campaign_api_id": p.Metadata.Campaign, status.at: profile.TimeText(e.TimeMillis)}
	if p.Metadata.Send != "" {
		metadata["external_send_id"] = p.Metadata.Send
	}
	if status.status == "bounced" || status.status == "aborted" {
		metadata["reason"] = p.Reason
		if p.Reply != "" {
			metadata["reason"] = p.Reply
		}
	}
	body, err := json.Marshal(struct {
		Dispatch string            `json:"dispatch_id"`
		Status   string            `json:"status"`
		Metadata map[string]string `json:"metadata"`
	}{e.Message, status.status, metadata})
	if err != nil {
		return nil
	}
	return body
}
