package mail

import (
	"reflect"
	"testing"

	"sluice"
)

// TestSendsKeepTheirEncoding fills every field, so that one which is added and
// not encoded fails here.
func TestSendsKeepTheirEncoding(t *testing.T) {
	sluice.WriteNewForms()
	var send Send
	fillFields(t, reflect.ValueOf(&send).Elem())
	var outcome Outcome
	fillFields(t, reflect.ValueOf(&outcome).Elem())
	r, err := sluice.ReadBatch(AppendOutcome(AppendSend(sluice.NewBatch(0), &send), &outcome))
	if err != nil {
		t.Fatal(err)
	}
	var gotSend Send
	var gotOutcome Outcome
	for r.Next() {
		switch r.Item.Kind {
		case sluice.ItemSend:
			err = DecodeSend(r.Item.Payload, &gotSend)
		case sluice.ItemOutcome:
			err = DecodeOutcome(r.Item.Payload, &gotOutcome)
		default:
			t.Fatalf("item of kind %d", r.Item.Kind)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if r.Err() != nil {
		t.Fatal(r.Err())
	}
	if gotSend != send {
		t.Errorf("send: got %+v, want %+v", gotSend, send)
	}
	if gotOutcome != outcome {
		t.Errorf("outcome: got %+v, want %+v", gotOutcome, outcome)
	}
}

// fillFields gives every field of a struct a value of its own.
func fillFields(t *testing.T, v reflect.Value) {
	t.Helper()
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.String:
			f.SetString(v.Type().Field(i).Name)
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Int, reflect.Int64:
			f.SetInt(int64(100 + i))
		case reflect.Uint8:
			f.SetUint(uint64(1 + i%3))
		default:
			t.Fatalf("field %s of kind %s is not known here", v.Type().Field(i).Name, f.Kind())
		}
	}
}

func TestMessageIDsBeginWithTheirTime(t *testing.T) {
	const at = 0x19abcdef0123
	a, b := sluice.NewMessageID(at), sluice.NewMessageID(at)
	if !sluice.ValidMessageID(a) || a == b || a[:12] != "19abcdef0123" || b[:12] != a[:12] {
		t.Errorf("ids are %s and %s", a, b)
	}
}

func TestCutSendIsBroken(t *testing.T) {
	sluice.WriteNewForms()
	send := Send{Message: "0123456789abcdef0123456789abcdef", To: "ann@example.com", Content: "hello"}
	whole := AppendSend(nil, &send)[sluice.ItemHeaderBytes:]
	for n := range whole {
		if err := DecodeSend(whole[:n], &Send{}); err == nil {
			t.Errorf("the first %d of %d bytes were read as a send", n, len(whole))
		}
	}
	send.Journey, send.Step, send.Occurrence = "welcome", "hello", 300
	of := AppendSend(nil, &send)[sluice.ItemHeaderBytes:]
	for n := range of {
		if err := DecodeSend(of[:n], &Send{}); err == nil {
			t.Errorf("the first %d of %d bytes were read as a send of a journey", n, len(of))
		}
	}
	send.Journey = ""
	send.Count("key", 300)
	counted := AppendSend(nil, &send)[sluice.ItemHeaderBytes:]
	for n := len(whole) + 1; n < len(counted); n++ {
		if err := DecodeSend(counted[:n], &Send{}); err == nil {
			t.Errorf("the first %d of %d bytes were read as a send", n, len(counted))
		}
	}
	old := Send{Account: "of another", Weight: 1}
	if err := DecodeSend(whole, &old); err != nil || old.Account != "" || old.Weight != 0 {
		t.Errorf("a send as it was before accounts: %+v, %v", old, err)
	}
	outcome := Outcome{Message: send.Message, To: send.To, Reply: "2.0.0 taken"}
	whole = AppendOutcome(nil, &outcome)[sluice.ItemHeaderBytes:]
	for n := range whole {
		if err := DecodeOutcome(whole[:n], &Outcome{}); err == nil {
			t.Errorf("the first %d of %d bytes were read as an outcome", n, len(whole))
		}
	}
}

func TestSendIDs(t *testing.T) {
	s := Send{Message: "0123456789abcdef0123456789abcdef", Number: 7}
	if message, number, ok := ParseSendID(s.ID()); !ok || message != s.Message || number != s.Number {
		t.Errorf("ParseSendID(%q) = %q, %d, %v", s.ID(), message, number, ok)
	}
	for _, bad := range []string{"", s.Message, s.Message + ".", s.Message + ".-1", s.Message + ".07", s.Message + ".1.", "x" + s.ID()} {
		if _, _, ok := ParseSendID(bad); ok {
			t.Errorf("ParseSendID(%q) takes it", bad)
		}
	}
}
