package sqlstore

import (
	"testing"

	"sluice"
)

// Names that are remembered share no memory with the batch that they came in: each would
// keep all of it.
func TestNamesShareNoMemory(t *testing.T) {
	var count sluice.Count
	batch := sluice.AppendCount(nil, &sluice.Count{Kind: sluice.KindCustom, TimeMillis: 1, By: 1, App: "shop", Name: "signed_up"})
	if err := sluice.DecodeCount(batch[sluice.ItemHeaderBytes:], &count); err != nil {
		t.Fatal(err)
	}
	n := seriesNames{most: 10, known: make(map[string]map[seriesName]struct{})}
	key := seriesKey{app: count.App, name: count.Name, kind: count.Kind.String()}
	n.admit(key)
	clear(batch)
	if count.Name == "signed_up" {
		t.Fatal("what is decoded has memory of its own: this test shows nothing")
	}
	if _, ok := n.known["shop"][seriesName{"signed_up", key.kind}]; !ok || n.inAll != 1 {
		t.Errorf("remembered %v", n.known)
	}
}
