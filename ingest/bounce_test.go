package ingest

import (
	"testing"

	"sluice"
	"sluice/mail"
)

// What is reported of our sends is told with its class, blocks apart; of others, and of
// what is no bounce and no complaint, nothing is.
func TestReportsAreTold(t *testing.T) {
	message := sluice.NewMessageID(1)
	for _, x := range []struct {
		name, properties string
		complaint        bool
		class            mail.BounceClass
		told             bool
	}{
		{sluice.EventBounced, `{"status":"5.1.1"}`, false, mail.BounceHard, true},
		{sluice.EventBounced, `{"bounce_class":"soft"}`, false, mail.BounceSoft, true},
		{sluice.EventBounced, `{"bounce_class":"block","status":"5.7.1"}`, false, mail.BounceBlock, true},
		{sluice.EventBounced, `{"reply":"554 5.7.1 listed"}`, false, mail.BounceBlock, true},
		{sluice.EventBounced, `{"type":"blocked","sg_message_id":"a"}`, false, mail.BounceBlock, true},
		{sluice.EventBounced, `{"status":"5.2.2"}`, false, mail.BounceOther, true},
		{sluice.EventFailed, `{"severity":"permanent","delivery-status":{"enhanced-code":"5.1.1"}}`, false, mail.BounceHard, true},
		{sluice.EventFailed, `{"reply":"5.1.1 no"}`, false, 0, false},
		{sluice.EventComplained, "", true, mail.BounceOther, true},
		{sluice.EventDelivered, `{"status":"5.1.1"}`, false, 0, false},
	} {
		for _, names := range []bool{true, false} {
			tr := newStoring(&StoreFollower{Reported: func([]mail.Report) {}})
			e := sluice.Event{Kind: sluice.KindMail, Name: x.name, Email: "ann@example.com", Properties: x.properties, TimeMillis: 7}
			if names {
				e.Message = message + ".4"
			}
			tr.addReported(&e, sluice.Place{Position: sluice.Position{Major: 8}})
			if !x.told || !names {
				if len(tr.reported) != 0 {
					t.Errorf("%s %s: told %+v", x.name, x.properties, tr.reported)
				}
				continue
			}
			want := mail.Report{SendKey: mail.SendKey{Message: message, Number: 4}, Complaint: x.complaint, Class: x.class, TimeMillis: 7}
			if len(tr.reported) != 1 || tr.reported[0] != want {
				t.Errorf("%s %s: told %+v, want %+v", x.name, x.properties, tr.reported, want)
			}
		}
	}
	tr := newStoring(&StoreFollower{}) // nobody wants to know
	tr.addReported(&sluice.Event{Name: sluice.EventComplained, Message: message + ".4"}, sluice.Place{})
	if len(tr.reported) != 0 {
		t.Error("reports are kept for nobody")
	}
}
