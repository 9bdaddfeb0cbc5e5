package profile

import "testing"

// What a newer program has written of a user is kept by this one, whatever it
// does to the user.
func TestMembersOfNewerProgramsAreKept(t *testing.T) {
	const text = `{"external_id":"u","custom":{"n":1},"zeta\"":[1,{"a":null}],"Beta":null,"devices":{"x":"\u0001"}}`
	p, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	checked, err := Check(`{"n":{"inc":1},"m":2}`)
	if err != nil {
		t.Fatal(err)
	}
	p.SetAttributes(checked, 7)
	p.CountEvent("e", 7)
	const kept = `"Beta":null,"devices":{"x":"\u0001"},"zeta\"":[1,{"a":null}]`
	want := `{"external_id":"u","custom":{"m":2,"n":2},"events":{"e":[1,7,7]},` + kept + `}`
	if got := string(p.Append(nil)); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if again, err := Parse(want); err != nil || string(again.Clone().Append(nil)) != want {
		t.Errorf("%v %v", again, err)
	}
	other, err := Parse(`{"external_id":"v","Beta":3,"more":[true]}`)
	if err != nil {
		t.Fatal(err)
	}
	p.Merge(other)
	if got := p.Newer.Get("Beta") + p.Newer.Get("more"); got != "null[true]" {
		t.Errorf("after a merge: %s", got)
	}
	if p, err = Parse(`{"devices":{}}`); err != nil || string(p.Append(nil)) != `{"devices":{}}` {
		t.Errorf("%v %v", p, err)
	}
}
