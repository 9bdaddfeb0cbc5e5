package flow

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"sluice"
	"sluice/lib/doctor"
	"sluice/store"
)

// identityFollower is the name under which the database keeps its deployment,
// in the row of a cursor. Major is the id, Minor the number of partitions.
const identityFollower = "deployment"

// Identify makes sure that a Redis and a database belong together, and that the
// number of partitions is unchanged.
//
// The idea. Cursors are in the database, and the entries that they point to are
// in Redis. A second Redis on the same database is possible (each host its own,
// one central database). Its logs would be trimmed up to the first one's
// cursors: silent loss. So both keep the same random id. The first start writes
// it to Redis, then to the database, then settles it in Redis. A crash in
// between is repaired by the next start. Whenever the two differ, or one of
// them has none, the start is refused. The operator can say that this Redis (or
// database) takes the other's place. Then both get a new id, and the deployment
// that had the old one is refused in turn. It returns the id, which is also
// noted beside every foreign list (List.BelongTo).
func Identify(ctx context.Context, r *Redis, store store.Store, partitions int, replace bool) (string, error) {
	if err := identify(ctx, r, store, partitions, replace); err != nil {
		return "", err
	}
	id, _, err := r.identity(ctx, "", "")
	return strconv.FormatUint(id, 10), err
}

func identify(ctx context.Context, r *Redis, db store.Store, partitions int, replace bool) error {
	if err := notHalfRestored(ctx, db); err != nil {
		return err
	}
	cursors, err := db.Cursors(ctx, identityFollower, []int{0})
	if err != nil {
		return fmt.Errorf("read the deployment of the database: %w", err)
	}
	there := cursors[0]
	if err := samePartitions(there, partitions); err != nil {
		return err
	}
	id, settled, err := r.identity(ctx, "", "")
	if err != nil {
		return err
	}
	switch {
	case there.Major != 0 && id == there.Major:
		_, _, err = r.identity(ctx, strconv.FormatUint(id, 10), "settle")
		return err
	case there.Major == 0 && !settled: // new, both of them, or half-way there
		return begin(ctx, r, db, partitions)
	case !replace:
		return r.foreign(id, there)
	}
	return r.replaceIdentity(ctx, db, there, partitions)
}

// notHalfRestored returns an error for a database that a restore is changing.
func notHalfRestored(ctx context.Context, db store.Store) error {
	dumps, ok := db.(store.DumpStore)
	if !ok {
		return nil
	}
	half, err := dumps.Restoring(ctx)
	if err == nil && half {
		err = errors.New("the database is half restored: a `sluice restore` was broken off, or is at work; run it again, to its end")
	}
	return err
}

// SameDeployment returns the deployment of a Redis and a database, for what works beside
// the processes and moves something from one to the other. It returns an error if they
// do not belong together, if no program has run on them yet, or if the database is half
// restored. It changes nothing.
func SameDeployment(ctx context.Context, r *Redis, db store.Store) (Deployment, error) {
	if err := notHalfRestored(ctx, db); err != nil {
		return Deployment{}, err
	}
	d, err := DeploymentOf(ctx, db)
	if err != nil {
		return d, err
	}
	id, err := r.Deployment(ctx)
	if err == nil && (d.ID == 0 || d.ID != id) {
		err = fmt.Errorf("redis %s and the database do not belong together, or no program has run on them yet; are --redis and --database right?", r)
	}
	return d, err
}

// PartitionsOf returns with how many partitions a database was set up, by the
// cursors in it; 0: it is new.
func PartitionsOf(cursors []doctor.Cursor) int {
	for _, c := range cursors {
		if c.Follower == identityFollower {
			return int(c.Position.Minor)
		}
	}
	return 0
}

// anyMoved reports whether a follower has moved in a database, by the cursors in it:
// then processes have been at work on it.
func anyMoved(cursors []doctor.Cursor) bool {
	return slices.ContainsFunc(cursors, func(c doctor.Cursor) bool {
		return c.Follower != identityFollower && c.Follower != PartitionByPerson && !c.Position.IsZero()
	})
}

func samePartitions(there sluice.Position, partitions int) error {
	if there.Minor != 0 && there.Minor != uint64(partitions) {
		return fmt.Errorf("this database was set up for %d partitions, the configuration says %d; set partitions: %d (changing it takes export and import)", there.Minor, partitions, there.Minor)
	}
	return nil
}

func (r *Redis) foreign(id uint64, there sluice.Position) error {
	return fmt.Errorf("redis %s belongs to %s, the database to %s: cursors in one database point into one Redis, and would lose what is in another; "+
		"is --redis or --database wrong, or do two installations share one of them? If one took the other's place (emptied, replaced, restored), start once with --accept-gaps: what was in Redis and not stored is lost",
		r, deploymentName(id), deploymentName(there.Major))
}

// Match says why a start on this Redis and a database with these cursors would
// be refused, and changes nothing. nil: it would not.
func (r *Redis) Match(ctx context.Context, cursors []doctor.Cursor, partitions int) (refused, err error) {
	var there sluice.Position
	for _, c := range cursors {
		if c.Follower == identityFollower {
			there = c.Position
		}
	}
	if refused := samePartitions(there, partitions); refused != nil {
		return refused, nil
	}
	id, settled, err := r.identity(ctx, "", "")
	if err != nil {
		return nil, err
	}
	if id == there.Major || there.Major == 0 && !settled {
		return nil, nil
	}
	return r.foreign(id, there), nil
}

func deploymentName(id uint64) string {
	if id == 0 {
		return "no deployment yet"
	}
	return fmt.Sprintf("deployment %x", id)
}

// begin gives a new Redis and a new database the same id.
func begin(ctx context.Context, r *Redis, store store.Store, partitions int) error {
	id, _, err := r.identity(ctx, newDeployment(), "") // another process may have been first
	if err != nil {
		return err
	}
	err = moveIdentity(ctx, store, sluice.Position{}, sluice.Position{Major: id, Minor: uint64(partitions)})
	if err != nil {
		return err
	}
	_, _, err = r.identity(ctx, strconv.FormatUint(id, 10), "settle")
	return err
}

func (r *Redis) replaceIdentity(ctx context.Context, store store.Store, from sluice.Position, partitions int) error {
	text := newDeployment()
	id, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return err
	}
	if err := moveIdentity(ctx, store, from, sluice.Position{Major: id, Minor: uint64(partitions)}); err != nil {
		return err
	}
	_, _, err = r.identity(ctx, text, "force")
	return err
}

// moveIdentity writes the database's id.
func moveIdentity(ctx context.Context, db store.Store, from, to sluice.Position) error {
	if err := moveNote(ctx, db, identityFollower, from, to); err != nil {
		return fmt.Errorf("write the deployment of the database: %w", err)
	}
	return nil
}

// moveNote writes what the database says once for all processes, as the cursor of a follower.
// If another process has written the same, that is as good.
func moveNote(ctx context.Context, db store.Store, follower string, from, to sluice.Position) error {
	p, err := db.Prepare(&store.Effect{Moves: []store.Move{{Follower: follower, From: from, To: to}}})
	if err == nil {
		_, err = db.Apply(ctx, p)
	}
	if err == nil {
		return nil
	}
	now, readErr := db.Cursors(ctx, follower, []int{0})
	if readErr == nil && now[0] == to {
		return nil
	}
	return err
}

// identity reads and takes identities, see identity.lua.
func (r *Redis) identity(ctx context.Context, id, how string) (uint64, bool, error) {
	answer, err := r.callTexts(ctx, "read the deployment of redis", "identity", []string{identityKey()}, []string{id, how})
	if err != nil {
		return 0, false, err
	}
	if answer[0] == "" {
		return 0, false, nil
	}
	n, err := strconv.ParseUint(answer[0], 10, 64)
	if err != nil {
		return 0, false, fmt.Errorf("read the deployment of redis %s: %w", r, err)
	}
	return n, answer[1] == "1", nil
}

// newDeployment returns 61 random bits and one that is set, so never 0, in decimal: they fit every
// database's integers.
func newDeployment() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return strconv.FormatUint(binary.LittleEndian.Uint64(b[:])>>2|1, 10)
}
