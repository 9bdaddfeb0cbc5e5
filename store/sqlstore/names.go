package sqlstore

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"sluice/store"
)

// seriesNames are the names that are counted by themselves: as many as are
// allowed of each app, first come. It is filled from series_days when the first
// counts are added. The writers of a process share it, so none of them counts by
// itself what another has refused. Several processes each know the names that they
// met, and those that were there when they began. Together they may let in some
// more than the bound.
//
// A name stays known if the transaction that met it first was rolled back: it
// will be met again, or has cost a place.
//
// Retention removes names from the table. So where one was refused for want of room, all
// are read again after a while (namesStay).
type seriesNames struct {
	most int // of an app

	filling sync.Mutex // held while they are read, by no transaction

	mu      sync.Mutex
	known   map[string]map[seriesName]struct{}
	inAll   int
	filled  bool
	refused bool          // a name had no room since they were read
	read    time.Time     // when they were
	stay    time.Duration // until they are read again, if one is refused
	since   *sinceReading // nil: they are not being read
}

// sinceReading is what other writers come to while the names are read. The reader may not
// see what they are about to commit.
type sinceReading struct {
	admitted []seriesKey // without their time
	refused  bool
}

// Names are read again after namesStay, and after namesShare times as long as it took to
// read them: a table that is kept for years is long, and the store waits meanwhile.
const (
	namesStay  = time.Hour
	namesShare = 100
)

type seriesName struct{ name, kind string }

// admit returns the app and name that a count goes under.
func (n *seriesNames) admit(k seriesKey) seriesKey {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.place(k)
}

// place is admit with the lock.
func (n *seriesNames) place(k seriesKey) seriesKey {
	names := n.known[k.app]
	if _, ok := names[seriesName{k.name, k.kind}]; ok {
		return k
	}
	if len(names) >= n.most {
		n.refuse()
		k.name = store.OtherName
		return k
	}
	if n.inAll >= n.most*store.MaxSeriesApps {
		n.refuse()
		k.app, k.name = store.OtherName, store.OtherName
		return k
	}
	// Both share the memory of a batch, which would be kept whole.
	kept := seriesKey{app: strings.Clone(k.app), name: strings.Clone(k.name), kind: k.kind}
	if names == nil {
		names = make(map[seriesName]struct{})
		n.known[kept.app] = names
	}
	names[seriesName{kept.name, kept.kind}] = struct{}{}
	n.inAll++
	if n.since != nil {
		n.since.admitted = append(n.since.admitted, kept)
	}
	return k
}

// refuse notes that a name had no room.
func (n *seriesNames) refuse() {
	n.refused = true
	if n.since != nil {
		n.since.refused = true
	}
}

// fill reads the names that the series have, if it is time to. It is called before each
// transaction that may count: a large table is read for seconds, and a server ends the
// transaction that is idle for so long. Another writer that is about to begin one waits;
// one that is under way goes on with the names that were known before, and what it admits
// or refuses meanwhile is not forgotten.
func (n *seriesNames) fill(ctx context.Context, s *Store) error {
	n.filling.Lock()
	defer n.filling.Unlock()
	began := s.clock.Now()
	if !n.begin(began) {
		return nil
	}
	now := &seriesNames{most: n.most, known: make(map[string]map[seriesName]struct{})}
	err := s.each(ctx, "SELECT DISTINCT app_id, name, kind FROM series_days", nil, func(scan scanner) error {
		var k seriesKey
		err := scan(&k.app, &k.name, &k.kind)
		if err == nil && k.name != store.OtherName {
			now.place(k)
		}
		return err
	})
	n.mu.Lock()
	defer n.mu.Unlock()
	since := n.since
	n.since = nil
	if err != nil {
		return fmt.Errorf("read the names of the series: %w", err)
	}
	for _, k := range since.admitted {
		now.place(k)
	}
	n.known, n.inAll, n.refused = now.known, now.inAll, now.refused || since.refused
	n.filled, n.read = true, s.clock.Now()
	n.stay = max(namesStay, namesShare*n.read.Sub(began))
	return nil
}

// begin reports whether it is time to read the names, and notes from then on what other
// writers come to.
func (n *seriesNames) begin(now time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.filled && !(n.refused && now.Sub(n.read).Abs() >= n.stay) {
		return false
	}
	n.since = &sinceReading{}
	return true
}
