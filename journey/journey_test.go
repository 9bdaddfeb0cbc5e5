package journey

import (
	"encoding/hex"
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
)

// The bytes of a record never change: checkpoints have them.
func TestRecordBytes(t *testing.T) {
	r := Record{Step: 0x02, Exits: 0x01, State: StateWatching, Version: 3, Due: 0x04050607, Entered: 0x08090a0b, Occurrence: 0x0c0d}
	b := r.Append([]byte("x"))
	if got, want := hex.EncodeToString(b[1:]), "0201020307060504"+"0b0a09080d0c0000"; got != want || len(b) != 1+RecordBytes {
		t.Fatalf("a record is %s, want %s", got, want)
	}
	var again Record
	if err := again.Decode(append(b[1:], 9)); err != nil || again != r {
		t.Errorf("read as %+v, %v; want %+v", again, err, r)
	}
	for s := StateNone; s <= StateControl; s++ {
		if s.String() == "unknown" {
			t.Errorf("state %d has no word", s)
		}
	}
}

// What is read of a record alone is what the whole record says.
func TestSketchOf(t *testing.T) {
	for state := StateNone; state <= StateControl+1; state++ {
		for _, due := range []uint32{0, 1, 1 << 31} {
			r := Record{State: state, Version: 7, Due: due, Former: 3, Step: 9}
			want := Sketch{Inside: r.Inside() || state > StateControl, Version: 7, Due: math.MaxUint32}
			if r.Waits() {
				want.Due = due
			}
			if got := SketchOf(r.Append(nil)); got != want {
				t.Errorf("%+v: %+v, want %+v", r, got, want)
			}
		}
	}
}

// Who is watched has finished from Due on. Nothing else becomes another state by time.
func TestAsOf(t *testing.T) {
	for state := StateNone; state <= StateControl; state++ {
		for after := int64(-1); after <= 1; after++ {
			r := Record{State: state, Due: 100, Step: 7, Entered: 5, Converted: 3}
			want := r
			if state == StateWatching && after >= 0 {
				want.State, want.Due = StateFinished, 0
			}
			if got := r.AsOf(time.Unix(100+after, 0)); got != want {
				t.Errorf("%s, %d s after Due: %+v, want %+v", state, after, got, want)
			}
		}
	}
}

// Rank and conversions share two bytes, state and former user one, and none spills into
// the other.
func TestRecordSharesBytes(t *testing.T) {
	for _, r := range []Record{{State: StateInside, Rank: MaxRank}, {State: StateInside, Converted: 1<<MaxConversions - 1}, {State: StateInside, Rank: 5, Converted: 0x201}, {State: StateControl, Former: 31}, {State: StateInside, Former: 1}} {
		var again Record
		if err := again.Decode(r.Append(nil)); err != nil || again != r {
			t.Errorf("%+v is read as %+v, %v", r, again, err)
		}
	}
}

// A record says of eight occurrences before its own whether the person was taken out.
func TestHasExited(t *testing.T) {
	exited := []bool{true, false, false, true, true, false, true, true, false, true, false}
	var r Record
	for i, out := range exited {
		r = r.Again(uint32(i) + 1)
		if int(r.Occurrence) != i || r.State != StateInside || r.Entered != uint32(i)+1 {
			t.Fatalf("entered %d times before, the record is %+v", i, r)
		}
		if r.State = StateFinished; out {
			r.Leave(Cause{Kind: CauseExit}, 1)
		}
		for before := range exited {
			want := before <= i && i-before <= 8 && exited[before]
			if got := r.HasExited(before); got != want {
				t.Errorf("in occurrence %d, of %d: %v, want %v", i, before, got, want)
			}
		}
	}
	r.Occurrence = MaxOccurrence
	if again := r.Again(7); again.Occurrence != MaxOccurrence || again.Exits != r.Exits {
		t.Errorf("behind the last occurrence the record is %+v", again)
	}
}

func TestRecordRefused(t *testing.T) {
	newer := make([]byte, RecordBytes)
	newer[0] = 1
	newer[2] = byte(StateControl) + 1
	for want, b := range map[string][]byte{"want 16 bytes, got 15": make([]byte, 15), "newer program": newer} {
		if err := new(Record).Decode(b); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%x: %v, want %s", b, err, want)
		}
	}
}

func TestNames(t *testing.T) {
	var a, b Names
	if a.HasEvent("x") || a.HasPurchase("x") || a.HasMail(MailOpened, &Mailed{Message: "m"}) || a.HasMails(MailOpened) {
		t.Error("the zero value names something")
	}
	a.AddEvent("y")
	a.AddEvent("x")
	a.AddEvent("y")
	b.AddEvent("w")
	b.AddEvent("x")
	b.AddPurchase("shoe")
	b.AddAttribute("plan")
	b.AddGroup("news")
	b.AddMail(MailOpened, MailOf{Journey: "j", Step: "s"})
	b.AddMail(MailClicked, MailOf{Tag: "t"})
	b.AddMail(MailOpened, MailOf{Journey: "j", Step: "s"})
	a.Merge(&b)
	want := Names{Events: []string{"w", "x", "y"}, Purchases: []string{"shoe"}, Attributes: []string{"plan"}, Groups: []string{"news"},
		Mail: []MailNames{{MailClicked, MailOf{Tag: "t"}}, {MailOpened, MailOf{Journey: "j", Step: "s"}}}}
	if !reflect.DeepEqual(a, want) {
		t.Fatalf("merged they are %+v, want %+v", a, want)
	}
	text, err := json.Marshal(a)
	var again Names
	if err != nil || json.Unmarshal(text, &again) != nil || !reflect.DeepEqual(again, want) {
		t.Errorf("as JSON %s, %v; read as %+v", text, err, again)
	}
	for _, c := range []struct{ got, want bool }{
		{a.HasEvent("w"), true}, {a.HasEvent("v"), false},
		{a.HasPurchase("shoe"), true}, {a.HasPurchase("hat"), false},
		{a.HasAttribute("plan"), true}, {a.HasGroup("news"), true}, {a.HasGroup("other"), false},
		{a.HasMail(MailClicked, &Mailed{Message: "m", Tags: "s,t"}), true}, {a.HasMail(MailClicked, &Mailed{Message: "m", Tags: "tt"}), false},
		{a.HasMail(MailOpened, &Mailed{Message: "m", Journey: "j", Step: "s"}), true}, {a.HasMail(MailOpened, &Mailed{Message: "m", Journey: "j", Step: "r"}), false}, {a.HasMail(MailReceived, &Mailed{Message: "m", Tags: "t", Journey: "j", Step: "s"}), false},
	} {
		if c.got != c.want {
			t.Errorf("%+v: got %v, want %v", c, c.got, c.want)
		}
	}
	a.AddPurchase(Any)
	if !a.HasPurchase("hat") {
		t.Error("any product is waited for, and a hat is not")
	}
}

// What somebody entered with is as long behind a merge as before: there is a bound on it.
func TestPlaceHasItsContextAsItIs(t *testing.T) {
	want := Place{Record: Record{State: StateInside, Entered: 7}, Version: 3, Context: `{"url":"https://example.com/?a=1&b=<\u2028>` + "\u2028" + `"}`, Ways: []int{0, 2}}
	got, err := ReadPlace(want.Text())
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
}

func TestPropertiesOfFacts(t *testing.T) {
	for _, c := range []struct {
		fact Fact
		want string
	}{
		{Fact{Kind: FactEvent, Body: `{"a":1}`}, `{"a":1}`},
		{Fact{Kind: FactAttributes, Body: `{"a":[1,2]}`}, ""},
		{Fact{Kind: FactPurchase, Name: "sh\"oe", Body: `{"currency":"EUR","price":9.50,"quantity":2,"properties":{"price":1,"size":"<XL>"}}`},
			`{"currency":"EUR","price":9.50,"product":"sh\"oe","quantity":2,"size":"<XL>"}`},
		{Fact{Kind: FactPurchase, Name: "p", Body: ""}, `{"product":"p"}`},
		{Fact{Kind: FactPurchase, Name: "p", Body: `{"properties":null}`}, `{"product":"p"}`},
	} {
		if got := c.fact.Properties(); got != c.want {
			t.Errorf("%+v has %s, want %s", c.fact, got, c.want)
		}
	}
}
