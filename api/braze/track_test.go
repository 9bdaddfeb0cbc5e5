package braze

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"sluice/lib/jsonscan"
	"sluice/user"
)

const (
	noUser  = `'external_id' or 'braze_id' or 'user_alias' is required`
	badMail = `The value provided for the 'email' field is not a valid email.`
)

// What each object becomes: of which user, creating it or not, at what time.
func TestTrack(t *testing.T) {
	id := user.ID{Partition: 3, Number: 9}.String()
	for _, x := range []struct{ name, body, want string }{
		{"attributes", `{"attributes":[{"external_id":"u","plan":"gold"}]}`, `1 1:u ||{"plan":"gold"}`},
		{"a number as external id", `{"attributes":[{"external_id":-12,"a":1}]}`, `1 1:-12 ||{"a":1}`},
		{"the last of two keys", `{"attributes":[{"external_id":"x","a":1,"external_id":"y","a":2}]}`, `1 1:y ||{"a":2}`},
		{"the last of two arrays", `{"attributes":[{"external_id":"x"}],"attributes":[{"external_id":"y"}]}`, `1 1:y ||{}`},
		{"only who is there", `{"attributes":[{"external_id":"u","_update_existing_only":true}]}`, `1 1:u only ||{}`},
		{"an alias creates nobody", `{"attributes":[{"user_alias":{"alias_name":"n","alias_label":"l"},"a":1}]}`, `1 2:["l","n"] only ||{"a":1}`},
		{"unless it is said", `{"attributes":[{"user_alias":{"alias_name":"n","alias_label":"l"},"_update_existing_only":false}]}`, `1 2:["l","n"] ||{}`},
		{"an id of ours", `{"attributes":[{"braze_id":"` + id + `","_update_existing_only":false}]}`, `1 5:` + id + ` only ||{}`},
		{"e-mail before phone", `{"attributes":[{"phone":"+43 123","email":"A@Example.com"}]}`, `1 3:a@example.com ||{"phone":"+43123","email":"a@example.com"}`},
		{"phone", `{"attributes":[{"phone":"+43 123"}]}`, `1 4:+43123 ||{"phone":"+43123"}`},
		{"null is nobody's name", `{"attributes":[{"external_id":null,"email":"a@b.cd"}]}`, `1 3:a@b.cd ||{"email":"a@b.cd"}`},
		{"event", `{"events":[{"external_id":"u","name":"n","time":"2026-11-20T01:02:03Z","app_id":"a","properties":{"x":[1,{"y":null}]}}]}`, `2 1:u 2026-11-20T01:02:03.000Z n|a|{"x":[1,{"y":null}]}`},
		{"its time to come is now", `{"events":[{"external_id":"u","name":"n","time":"2027-01-01T00:00:00Z"}]}`, `2 1:u n||`},
		{"times of other forms", `{"events":[{"external_id":"u","name":"n","time":"2026-11-20T01:02:03:004Z"},{"external_id":"u","name":"n","time":"2026-11-20 01:02:03 +0100"}]}`,
			"2 1:u 2026-11-20T01:02:03.004Z n||\n2 1:u 2026-11-20T00:02:03.000Z n||"},
		{"purchase", `{"purchases":[{"external_id":"u","product_id":7,"currency":"eur","price":9.50,"time":1700000000}]}`, `3 1:u 2023-11-14T22:13:20.000Z 7||{"currency":"EUR","price":9.50,"quantity":1}`},
		{"with everything", `{"purchases":[{"email":"a@b.cd","product_id":"p","currency":"JPY","price":-3,"quantity":100,"time":1700000000,"properties":{"a":1},"app_id":"x"}]}`,
			`3 3:a@b.cd 2023-11-14T22:13:20.000Z p|x|{"currency":"JPY","price":-3,"quantity":100,"properties":{"a":1}}`},
		{"in order", `{"purchases":[{"external_id":"u","product_id":"p","currency":"EUR","price":1,"time":1700000000}],"events":[{"external_id":"u","name":"e","time":1700000000}],"partner":"x","attributes":[{"external_id":"u"},{"external_id":"v"}]}`,
			"1 1:u ||{}\n1 1:v ||{}\n2 1:u 2023-11-14T22:13:20.000Z e||\n3 1:u 2023-11-14T22:13:20.000Z p||{\"currency\":\"EUR\",\"price\":1,\"quantity\":1}"},
		{"an address that it gives", `{"attributes":[{"external_id":"u","email":"A@b.cd","phone":"+431"},{"external_id":"v","email":"x@b.cd"},{"email":"a@b.cd","n":1},{"email":"new@b.cd"}],"events":[{"email":"a@B.cd","name":"e","time":1700000000},{"phone":"+431","name":"e","time":1700000000}],"purchases":[{"email":"new@b.cd","product_id":"p","currency":"EUR","price":1,"time":1700000000}]}`,
			`1 1:u ||{"email":"a@b.cd","phone":"+431"}` + "\n" + `1 1:v ||{"email":"x@b.cd"}` + "\n" + `1 1:u or 3:a@b.cd ||{"email":"a@b.cd","n":1}` + "\n" + `1 3:new@b.cd ||{"email":"new@b.cd"}` + "\n" +
				"2 1:u or 3:a@b.cd 2023-11-14T22:13:20.000Z e||\n2 1:u or 4:+431 2023-11-14T22:13:20.000Z e||\n3 3:new@b.cd 2023-11-14T22:13:20.000Z p||{\"currency\":\"EUR\",\"price\":1,\"quantity\":1}"},
		{"to the last of two", `{"attributes":[{"external_id":"u","email":"a@b.cd"},{"external_id":"v","email":"a@b.cd"}],"events":[{"email":"a@b.cd","name":"e","time":1700000000}]}`,
			`1 1:u ||{"email":"a@b.cd"}` + "\n" + `1 1:v ||{"email":"a@b.cd"}` + "\n2 1:v or 3:a@b.cd 2023-11-14T22:13:20.000Z e||"},
		{"one instead of an array", `{"attributes":{"external_id":"u"}}`, `1 1:u ||{}`},
		{"null instead of an array", `{"events":null,"attributes":[{"external_id":"u"}]}`, `1 1:u ||{}`},
		{"escaped names of arrays", `{"attr\u0069butes":[{"external_id":"u"}]}`, `1 1:u ||{}`},
	} {
		w := &written{}
		status, body := w.call(t, "/users/track", x.body)
		if got := w.took(); status != 201 || got != x.want || strings.Contains(body, "errors") {
			t.Errorf("%s: %d %s\ngot  %s\nwant %s", x.name, status, body, got, x.want)
		}
	}
}

// What is wrong with an object is told of that one, with its index as it was
// sent, and the others are taken.
func TestTrackMistakes(t *testing.T) {
	deep := strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000)
	long := strings.Repeat("x", 50<<10)
	who := `"external_id":"u"`
	event, purchase := who+`,"name":"n","time":1`, who+`,"product_id":"p","currency":"EUR","price":1,"time":1`
	for _, x := range []struct{ array, object, want string }{
		{"attributes", `{}`, noUser}, {"attributes", `{"external_id":""}`, noUser}, {"attributes", `{"external_id":null,"a":1}`, noUser},
		{"attributes", `5`, "not an object"}, {"attributes", `null`, "not an object"}, {"attributes", `"{}"`, "not an object"}, {"attributes", `[]`, "not an object"},
		{"attributes", `{"external_id":{}}`, "'external_id'"}, {"attributes", `{"external_id":1.5}`, "'external_id'"}, {"attributes", `{"external_id":9223372036854775808}`, "'external_id'"},
		{"attributes", `{"external_id":"a\u0000b"}`, "'external_id'"}, {"attributes", `{"external_id":"a\u0085b"}`, "'external_id'"}, {"attributes", `{"external_id":"` + long + `"}`, "'external_id'"},
		{"attributes", "{\"external_id\":\"a\nb\"}", "control characters"}, {"attributes", "{\"external_id\":\"\xff\"}", "UTF-8"}, {"attributes", `{"external_id":"\ud800"}`, "surrogates"},
		{"attributes", `{` + who + `,"a":` + deep + `}`, "nested too deep"}, {"attributes", `{` + who + `,"a":tru}`, "not JSON"},
		{"attributes", `{` + who + `,"` + long + `":1}`, "name of an attribute"}, {"attributes", `{` + who + `,"a\u0000":1}`, "name of an attribute"}, {"attributes", `{` + who + `,"a\u001f":1}`, "name of an attribute"},
		{"attributes", `{` + who + `,"a":9223372036854775808}`, "number"}, {"attributes", `{` + who + `,"a":{"b":[1e999]}}`, "number"}, {"attributes", `{` + who + `,"a":-` + strings.Repeat("9", 1000) + `}`, "number"},
		{"attributes", `{"email":"x@"}`, badMail}, {"attributes", `{"email":5}`, badMail}, {"attributes", `{"phone":"x"}`, "'phone'"},
		{"attributes", `{"email":""}`, noUser}, {"attributes", `{` + who + `,"_update_existing_only":"yes"}`, "'_update_existing_only'"},
		{"attributes", `{"user_alias":"a"}`, "'user_alias'"}, {"attributes", `{"user_alias":{"alias_name":"a"}}`, "'alias_label'"}, {"attributes", `{"user_alias":{"alias_name":"","alias_label":"l"}}`, "'user_alias'"},
		{"attributes", `{"user_alias":{"alias_label":"l","alias_name":"` + strings.Repeat(`\"`, 255) + `"}}`, ""}, {"attributes", `{"user_alias":{"alias_label":"` + strings.Repeat(`\\`, 255) + `","alias_name":"` + strings.Repeat(`\"`, 255) + `"}}`, "'user_alias'"},
		{"attributes", `{"braze_id":"x"}`, "'braze_id'"}, {"attributes", `{` + who + `,"a":"` + strings.Repeat("x", 1<<20) + `"}`, "too large"},
		{"events", `{` + who + `,"time":1}`, "'name' is required"}, {"events", `{` + event + `,"name":""}`, "'name'"}, {"events", `{` + event + `,"name":" "}`, "'name'"}, {"events", `{` + event + `,"name":"a\u0000"}`, "'name'"},
		{"events", `{` + event + `,"name":"` + strings.Repeat("ä", 128) + `"}`, "255 bytes"}, {"events", `{` + event + `,"name":"` + long + `"}`, "'name'"}, {"events", `{` + event + `,"name":{}}`, "'name' is required"},
		{"events", `{` + who + `,"name":"n"}`, "'time' is required"}, {"events", `{` + event + `,"time":"soon"}`, "'time'"}, {"events", `{` + event + `,"time":"1969-12-31T00:00:00Z"}`, "'time'"}, {"events", `{` + event + `,"time":{}}`, "'time' is required"},
		{"events", `{"name":"n","time":1}`, noUser}, {"events", `{` + event + `,"app_id":"` + strings.Repeat("x", 65) + `"}`, "'app_id'"}, {"events", `{` + event + `,"app_id":5}`, "'app_id'"},
		{"events", `{` + event + `,"properties":[]}`, "'properties'"}, {"events", `{` + event + `,"properties":{"time":1}}`, "time or event_name"}, {"events", `{` + event + `,"properties":{"event_name":1}}`, "time or event_name"},
		{"events", `{` + event + `,"properties":{"$a":1}}`, "'properties'"}, {"events", `{` + event + `,"properties":{"":1}}`, "'properties'"}, {"events", `{` + event + `,"properties":{"a":{"b":["` + long + `"]}}}`, "'properties'"},
		{"events", `{` + event + `,"properties":{"a":"` + strings.Repeat("ä", 256) + `"}}`, "'properties'"}, {"events", `{` + event + `,"properties":{"a":[` + strings.Repeat("1,", 60<<10) + `1]}}`, "100 KB"},
		{"events", `{` + event + `,"properties":{"a":1E400}}`, "number"},
		{"purchases", `{` + purchase + `,"product_id":""}`, "'product_id'"}, {"purchases", `{` + purchase + `,"product_id":null}`, "'product_id'"}, {"purchases", `{` + purchase + `,"currency":"XXZ"}`, "'currency'"}, {"purchases", `{` + purchase + `,"currency":5}`, "'currency'"},
		{"purchases", `{` + purchase + `,"price":"9"}`, "'price'"}, {"purchases", `{` + purchase + `,"price":1e13}`, "'price'"}, {"purchases", `{` + purchase + `,"price":null}`, "'price'"},
		{"purchases", `{` + purchase + `,"price":0.` + strings.Repeat("1", 63) + `}`, "'price'"}, {"purchases", `{` + purchase + `,"price":0.` + strings.Repeat("1", 62) + `}`, ""},
		{"purchases", `{` + purchase + `,"properties":` + nested(63) + `}`, "62 levels"}, {"purchases", `{` + purchase + `,"properties":` + nested(62) + `}`, ""}, {"events", `{` + event + `,"properties":` + nested(63) + `}`, ""},
		{"purchases", `{` + purchase + `,"quantity":101}`, "'quantity'"}, {"purchases", `{` + purchase + `,"quantity":0}`, "'quantity'"}, {"purchases", `{` + purchase + `,"quantity":1.5}`, "'quantity'"}, {"purchases", `{` + purchase + `,"quantity":"1"}`, "'quantity'"},
		{"purchases", `{` + purchase + `,"properties":{"a":[` + strings.Repeat("1,", 30<<10) + `1]}}`, "50 KB"},
	} {
		good := map[string]string{"attributes": who, "events": event, "purchases": purchase}[x.array]
		body := fmt.Sprintf(`{"%s":[{%s},%s,{%s}]}`, x.array, good, x.object, good)
		w := &written{}
		status, text := w.call(t, "/users/track", body)
		var got struct {
			Errors []struct {
				Type  string `json:"type"`
				Array string `json:"input_array"`
				Index int    `json:"index"`
			}
		}
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			t.Fatal(err)
		}
		wrote := len(w.updates)
		switch {
		case x.want == "":
			if wrote != 3 || len(got.Errors) != 0 {
				t.Errorf("%.120s: %d %s", x.object, status, text)
			}
		case status != 201 || wrote != 2 || len(got.Errors) != 1 || got.Errors[0].Index != 1 || got.Errors[0].Array != x.array || !strings.Contains(got.Errors[0].Type, x.want):
			t.Errorf("%.120s: %d %.300s, %d written; want %s", x.object, status, text, wrote, x.want)
		case !strings.Contains(text, `"`+x.array+`_processed":2`) || len(text) > 1000:
			t.Errorf("%.120s: %.2000s", x.object, text)
		}
	}
}

// A standard attribute that is wrong is left out alone, and named with the index of
// its object. The object counts, and so does the call: clients retry or drop what is
// answered otherwise.
func TestTrackWrongFields(t *testing.T) {
	const body = `{"attributes":[{"plan":"x"},{"external_id":"u","first_name":"Ann","dob":"01/01/1971","gender":"female","phone":"0664 123","email":"","time_zone":"Eastern Time (US & Canada)"},{"email":"","phone":"+431"}]}`
	const want = `{"message":"success","attributes_processed":2,"errors":[{"type":"` + noUser + `","input_array":"attributes","index":0},` +
		`{"type":"The value provided for the 'dob' field is not valid: want a date, as 1990-12-31.","input_array":"attributes","index":1},` +
		`{"type":"The value provided for the 'gender' field is not valid: want M, F, O, N, P or null.","input_array":"attributes","index":1},` +
		`{"type":"The value provided for the 'phone' field is not valid: want a number as E.164 writes it.","input_array":"attributes","index":1},` +
		`{"type":"` + badMail + `","input_array":"attributes","index":1},{"type":"` + badMail + `","input_array":"attributes","index":2}]}`
	w := &written{}
	w.check(t, "/users/track", body, 201, want, `1 1:u ||{"first_name":"Ann","time_zone":"America/New_York"}`+"\n"+`1 4:+431 ||{"phone":"+431"}`)
	r, err := track(t.Context(), &Request{Body: body, Now: now, Core: w})
	if err != nil || r.Accepted != 2 || r.Refused != 1 {
		t.Errorf("%d objects accepted, %d refused, %v", r.Accepted, r.Refused, err)
	}
	w = newCore(t)
	w.check(t, "/users/track/sync", `{"attributes":[{"external_id":"u","gender":"female","a":1}]}`, 201,
		`{"users":[],"errors":[{"type":"The value provided for the 'gender' field is not valid: want M, F, O, N, P or null.","input_array":"attributes","index":0}],"message":"success"}`, `1 1:u ||{"a":1}`)
	var u user.Update
	if err := UserLine(`{"external_id":"u","gender":"female","a":1}`, &u); err == nil || !strings.Contains(err.Error(), "'gender'") {
		t.Errorf("a line of an import: %v", err)
	}
}

// nested is an object of so many levels.
func nested(levels int) string {
	return strings.Repeat(`{"a":`, levels) + "1" + strings.Repeat("}", levels)
}

// Calls as a whole.
func TestTrackReplies(t *testing.T) {
	many := func(n int) string {
		return "[" + strings.TrimSuffix(strings.Repeat(`{"external_id":"u"},`, n), ",") + "]"
	}
	const nothing = `{"message":"Valid data must be provided in the 'attributes', 'events', or 'purchases' fields.","errors":[`
	for _, x := range []struct {
		name, body string
		status     int
		want       string
		writes     int
	}{
		{"all three", `{"attributes":` + many(1) + `,"events":[],"purchases":[]}`, 201, `{"message":"success","attributes_processed":1,"events_processed":0,"purchases_processed":0}`, 1},
		{"one", `{"attributes":` + many(75) + `}`, 201, `{"message":"success","attributes_processed":75}`, 75},
		{"too many", `{"attributes":` + many(76) + `}`, 400, `{"message":"Max Input Length Exceeded"}`, 0},
		{"too many events", `{"attributes":` + many(1) + `,"events":` + many(76) + `}`, 400, `{"message":"Max Input Length Exceeded"}`, 0},
		{"nothing", `{}`, 400, nothing + `]}`, 0}, {"empty", `{"attributes":[],"events":[],"purchases":[]}`, 400, nothing + `]}`, 0},
		{"nothing good", `{"events":[{"name":"n"}]}`, 400, nothing + `{"type":"` + noUser + `","input_array":"events","index":0}]}`, 0},
		{"no array", `{"attributes":"x"}`, 400, `{"message":"` + noValidData + `"}`, 0},
		{"cut off", `{"attributes":[{"external_id":"u"}`, 400, `{"message":"Bad Request"}`, 0}, {"no body", ``, 400, `{"message":"Bad Request"}`, 0},
		{"an array", `[]`, 400, `{"message":"Bad Request"}`, 0}, {"two", `{"attributes":[]}{}`, 400, `{"message":"Bad Request"}`, 0}, {"a comma too many", `{"attributes":[{"external_id":"u"},]}`, 400, `{"message":"Bad Request"}`, 0},
		{"bytes", "\xff\xfe", 400, `{"message":"Bad Request"}`, 0}, {"deep", strings.Repeat(`{"attributes":[`, 10_000), 400, `{"message":"Bad Request"}`, 0}, {"an open string", `{"attributes":["\`, 400, `{"message":"Bad Request"}`, 0},
	} {
		w := &written{}
		status, body := w.call(t, "/users/track", x.body)
		if status != x.status || body != x.want || len(w.updates) != x.writes {
			t.Errorf("%s: %d %s, %d written\nwant %d %s", x.name, status, body, len(w.updates), x.status, x.want)
		}
	}
	gone := errors.New("gone")
	if status, text := (&written{err: gone}).call(t, "/users/track", `{"attributes":`+many(1)+`}`); status != 0 || text != "gone" {
		t.Errorf("not written: %d %s", status, text)
	}
	if status, text := (&written{}).call(t, "/users/track/sync", `{"attributes":`+many(2)+`}`); status != 400 || text != `{"message":"Max Input Length Exceeded"}` {
		t.Errorf("two objects to sync: %d %s", status, text)
	}
}

// Whatever is sent, the answer is JSON, no update is outside of its bounds, and
// each object is either an update or a mistake.
func FuzzTrack(f *testing.F) {
	for _, s := range []string{`{"attributes":[{"external_id":"u","a":{"b":[1]}}]}`, `{"events":[{"email":"a@b.cd","name":"n","time":"2026-01-01","properties":{"a":1}}]}`, `{"purchases":[{"user_alias":{"alias_name":"a","alias_label":"b"},"product_id":"p","currency":"EUR","price":1,"time":1}]}`, `{"attributes":[{},[],"\"",{"a":"\\"}]}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, body string) {
		w := &written{}
		status, text := w.call(t, "/users/track", body)
		if status != 201 && status != 400 || (status == 201) != (len(w.updates) > 0) {
			t.Fatalf("%d %s, %d written", status, text, len(w.updates))
		}
		for _, u := range w.updates {
			if u.Op < user.OpAttributes || u.Op > user.OpPurchase || u.Key.Name == "" || u.TimeMillis < 0 || u.TimeMillis > now.UnixMilli() || u.Op != user.OpAttributes && !nameFits(u.Name) {
				t.Fatalf("%+v", u)
			}
			if u.Body == "" {
				continue
			}
			if v, err := jsonscan.Scan(u.Body); err != nil || v.Kind != jsonscan.Object {
				t.Fatalf("%+v: %v", u, err)
			}
		}
	})
}

// A call of one object, from its body to the update and the reply.
func BenchmarkTrack(b *testing.B) {
	for name, body := range map[string]string{
		"attributes": `{"attributes":[{"external_id":"user-123456","plan":"gold","visits":17,"email":"ann@example.com","first_name":"Ann"}]}`,
		"event":      `{"events":[{"external_id":"user-123456","name":"signed_up","time":"2026-11-21T10:00:00Z","properties":{"source":"newsletter","step":3}}]}`,
		"purchase":   `{"purchases":[{"external_id":"user-123456","product_id":"sku-17","currency":"EUR","price":9.5,"time":"2026-11-21T10:00:00Z"}]}`,
	} {
		b.Run(name, func(b *testing.B) {
			r := &Request{Body: body, Now: now, Core: nowhere{}}
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if done, err := track(b.Context(), r); err != nil || done.Accepted != 1 {
					b.Fatal(done, err)
				}
			}
		})
	}
}

// A line of a file of users, from its text to the update.
func BenchmarkUserLine(b *testing.B) {
	line := `{"external_id":"9e3779b97f4a7c15","email":"Ann.9e3779b9@example.com","first_name":"Ann","last_name":"Other","country":"AT","language":"de","time_zone":"Europe/Vienna",` +
		`"email_subscribe":"opted_in","plan":"gold","score":17.5,"visits":170,"paying":true,"tags":["t1","t22"],"signed_up":"2026-05-01"}`
	b.SetBytes(int64(len(line)))
	b.ReportAllocs()
	for b.Loop() {
		var u user.Update
		if err := UserLine(line, &u); err != nil {
			b.Fatal(err)
		}
	}
}
