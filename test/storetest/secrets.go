package storetest

import (
	"bytes"
	"sync"
	"testing"

	"sluice/store"
)

// testSecrets: every caller that asks for a secret gets the same, also of
// several that make it at once.
func testSecrets(t *testing.T, f *fixture) {
	const processes = 4
	got := make([][]byte, processes)
	var wg sync.WaitGroup
	for i := range processes {
		db := f.store
		if i%2 == 1 && f.OpenThrough != nil { // SQLite is one process's
			db = f.Open(t)
		}
		wg.Go(func() {
			var err error
			if got[i], err = db.(store.SecretStore).Secret(f.ctx, "token", bytes.Repeat([]byte{byte(i), 0, 0xff, '\\'}, 16)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for i := range got {
		if len(got[i]) != 64 || !bytes.Equal(got[i], got[0]) {
			t.Errorf("process %d has %x, the first %x", i, got[i], got[0])
		}
	}
	other, err := f.store.(store.SecretStore).Secret(f.ctx, "other", []byte("another"))
	if err != nil || string(other) != "another" {
		t.Errorf("another secret: %q %v", other, err)
	}
}
