package user

import (
	"testing"

	"sluice"
)

func TestUserIDText(t *testing.T) {
	for _, id := range []ID{{0, 1}, {255, 1<<63 - 1}, {7, 12345}} {
		got, ok := ParseID(id.String())
		if !ok || got != id || len(id.String()) != 24 {
			t.Errorf("%v is %q, which is %v, %v", id, id.String(), got, ok)
		}
	}
	for _, s := range []string{"", "x", "000000000000000000000000", "0000000A0000000000000001", "000001000000000000000001", "00000001ffffffffffffffff", "+00000010000000000000001"} {
		if id, ok := ParseID(s); ok {
			t.Errorf("%q is %v", s, id)
		}
	}
}

// Updates of one key meet in one partition, and those of a user in the user's own.
func TestKeyPartition(t *testing.T) {
	id := ID{5, 77}
	if got := (Key{KeyUser, id.String()}).Partition(16); got != 5 {
		t.Errorf("the user %v is in partition %d", id, got)
	}
	seen := make(map[int]bool)
	for i := range 1000 {
		k := Key{KeyExternal, "u-" + string(rune('a'+i%26)) + ID{0, int64(i) + 1}.String()}
		p := k.Partition(16)
		if p != k.Partition(16) || p < 0 || p >= 16 {
			t.Fatalf("%v is in %d", k, p)
		}
		seen[p] = true
	}
	if len(seen) != 16 {
		t.Errorf("1,000 keys in %d of 16 partitions", len(seen))
	}
}

func TestUpdateEncoding(t *testing.T) {
	plain := Update{Op: OpEvent, Key: AliasKey("a\"", "b"), ExistingOnly: true, TimeMillis: 1_700_000_000_000, Name: "n", App: "app", Body: `{"a":1}`}
	addressed := plain
	addressed.ExistingOnly, addressed.Address = false, Key{KeyPhone, "+431"}
	gone := plain
	gone.ExistingOnly, gone.Address, gone.IfGone = false, AliasKey("l", "n"), true
	for _, want := range []Update{plain, addressed, gone} {
		r, err := sluice.ReadBatch(AppendUpdate(sluice.NewBatch(0), &want))
		if err != nil || !r.Next() || r.Item.Kind != sluice.ItemUser {
			t.Fatal(err)
		}
		var got Update
		if err := DecodeUpdate(r.Item.Payload, &got); err != nil || got != want {
			t.Errorf("%+v, %v; want %+v", got, err, want)
		}
		for n := range len(r.Item.Payload) - len(want.Body) {
			if err := DecodeUpdate(r.Item.Payload[:n], &got); err == nil {
				t.Errorf("%d of %d bytes are an update", n, len(r.Item.Payload))
			}
		}
	}
}
