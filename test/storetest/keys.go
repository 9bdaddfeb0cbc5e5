package storetest

import (
	"errors"
	"reflect"
	"testing"

	"sluice"
	"sluice/store"
)

// testKeys: the store keeps keys, names the missing one, and revokes for good.
func testKeys(t *testing.T, f *fixture) {
	keys, ok := f.store.(store.KeyStore)
	if !ok {
		t.Fatal("the store keeps no keys")
	}
	missing := func(err error) {
		t.Helper()
		if e, ok := errors.AsType[*sluice.Error](err); !ok || e.Code != sluice.CodeNotFound {
			t.Errorf("got %v, want not_found", err)
		}
	}
	_, err := keys.APIKey(f.ctx, "a")
	missing(err)
	missing(keys.RevokeKey(f.ctx, "a"))
	first := store.APIKey{ID: "b", Name: "für Ann's shop", Permissions: []string{"events:write", "later:word"}, Hash: make([]byte, 32), CreatedMillis: 1_700_000_000_123}
	for i := range first.Hash {
		first.Hash[i] = byte(i * 9)
	}
	second := store.APIKey{ID: "a", Hash: make([]byte, 32), CreatedMillis: 1_700_000_000_124}
	must(t, keys.AddKey(f.ctx, first))
	must(t, keys.AddKey(f.ctx, second))
	if keys.AddKey(f.ctx, first) == nil {
		t.Error("a second key with the same id was taken")
	}
	for _, want := range []store.APIKey{first, second} {
		got, err := keys.APIKey(f.ctx, want.ID)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v %v, want %+v", got, err, want)
		}
	}
	_, err = keys.APIKey(f.ctx, "A") // ids are compared byte by byte
	missing(err)
	must(t, keys.RevokeKey(f.ctx, "b"))
	revoked, err := keys.APIKey(f.ctx, "b")
	if err != nil || revoked.RevokedMillis == 0 {
		t.Errorf("revoked: %+v %v", revoked, err)
	}
	must(t, keys.RevokeKey(f.ctx, "b"))
	all, err := f.Open(t).(store.KeyStore).APIKeys(f.ctx)
	if err != nil || !reflect.DeepEqual(all, []store.APIKey{revoked, second}) {
		t.Errorf("list: %+v %v, want %+v, %+v", all, err, revoked, second)
	}
}
