package flow

import (
	"context"
	"maps"
	"slices"
	"testing"
)

// leasesOf hold a role's leases of partitions.
func leasesOf(partitions ...int) *Leases {
	r := &role{name: "store", held: make(map[int]*Lease)}
	for _, p := range partitions {
		r.held[p] = &Lease{Partition: p}
	}
	return &Leases{roles: []*role{r}, changed: make(chan struct{})}
}

func TestSharesAreDisjointAndAll(t *testing.T) {
	for _, test := range []struct {
		of   int
		want [][]int
	}{
		{0, [][]int{{0, 1, 2, 5, 8}}},
		{1, [][]int{{0, 1, 2, 5, 8}}},
		{2, [][]int{{0, 2, 8}, {1, 5}}},
		{3, [][]int{{0}, {1}, {2, 5, 8}}},
		{4, [][]int{{0, 8}, {1, 5}, {2}, nil}},
	} {
		l := leasesOf(0, 1, 2, 5, 8)
		for i, want := range test.want {
			held, _ := Share{Leases: l, Index: i, Of: test.of}.Held("store")
			if got := slices.Sorted(maps.Keys(held)); !slices.Equal(got, want) {
				t.Errorf("share %d of %d has %v, want %v", i, test.of, got, want)
			}
		}
	}
}

// A lease that goes ends what works on its share, and no other.
func TestAShareChangesAlone(t *testing.T) {
	l := leasesOf(0, 1, 2, 3)
	var shares []Share
	var ended []<-chan struct{}
	for i := range 2 {
		s := Share{Leases: l, Index: i, Of: 2}
		held, _ := s.Held("store")
		ctx, stop := s.While(t.Context(), "store", held)
		t.Cleanup(stop)
		shares, ended = append(shares, s), append(ended, ctx.Done())
	}
	var lost int64
	l.setHeld(l.roles[0], 2, nil, &lost)
	<-ended[0]
	select {
	case <-ended[1]:
		t.Error("the other share has ended, too")
	default:
	}
	left, _ := shares[1].Held("store")
	same, cancel := context.WithCancel(t.Context())
	cancel()
	shares[1].WaitForChange(same, "store", left) // returns with its context, and not before
	l.setHeld(l.roles[0], 3, nil, &lost)
	<-ended[1]
}
