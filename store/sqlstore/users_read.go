package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"sluice/user"
)

var _ user.Store = (*Store)(nil)

// Users implements user.Store. It is several statements, each of up to
// maxUserKeys keys. The data of one user does not fall apart, since a key
// brings its user in the same statement, but of an address that very many have.
func (s *Store) Users(ctx context.Context, q user.Query) (user.Answer, error) {
	a := newAnswer(q.MaxBytes)
	a.Numbers = make(map[int]user.Numbers)
	if n := len(q.Keys) + len(q.IDs); n > user.MaxQuery {
		return a.Answer, fmt.Errorf("read users from %s: %d keys and ids at once, at most %d", s.where, n, user.MaxQuery)
	}
	for _, read := range []func(context.Context, *user.Query, *answer) error{s.usersByKey, s.usersByID, s.userNumbers, s.userChains} {
		if err := read(ctx, &q, a); err != nil {
			return a.Answer, s.failed(err, "read users from")
		}
	}
	return a.Answer, nil
}

// answer is a user.Answer while it is read.
type answer struct {
	user.Answer
	most int // bytes of profiles; 0: any
}

func newAnswer(most int) *answer {
	return &answer{user.Answer{ByKey: make(map[user.Key][]user.ID), Users: make(map[user.ID]user.Row)}, most}
}

// add adds a user. The error is ErrTooManyBytes if there is no room for the profile.
func (a *answer) add(u user.Row) error {
	before := len(a.Users)
	if a.Users[u.ID] = u; len(a.Users) > before {
		a.Bytes += len(u.Profile)
	}
	if a.most > 0 && a.Bytes > a.most {
		return user.ErrTooManyBytes
	}
	return nil
}

func (s *Store) usersByKey(ctx context.Context, q *user.Query, a *answer) error {
	names := make(map[user.KeyKind][]string)
	for _, k := range q.Keys {
		names[k.Kind] = append(names[k.Kind], k.Name)
	}
	for _, kind := range slices.Sorted(maps.Keys(names)) {
		find := s.keyOwners
		switch kind {
		case user.KeyExternal, user.KeyAlias:
		case user.KeyRememberedEmail, user.KeyRememberedPhone:
			some, err := exists(ctx, s.reads, query(s.d, "user_key_any"), int(kind))
			if err != nil {
				return err
			}
			if !some { // nearly always
				continue
			}
		case user.KeyEmail, user.KeyPhone:
			find = s.addressOwners
		default:
			return fmt.Errorf("keys of kind %d are not looked up", kind)
		}
		// In the order of the index, pages are read once.
		slices.Sort(names[kind])
		most := s.d.keysAtOnce()
		for piece := range slices.Chunk(names[kind], most) {
			n := len(piece)
			if most < maxUserKeys && n > 1 { // few statements, which stay prepared
				n = most
			}
			if err := find(ctx, kind, piece, n, a); err != nil {
				return err
			}
		}
	}
	for _, ids := range a.ByKey {
		slices.SortFunc(ids, user.ID.Compare)
	}
	return nil
}

// keyOwners finds the users of keys that have one each, by a statement for n.
func (s *Store) keyOwners(ctx context.Context, kind user.KeyKind, names []string, n int, a *answer) error {
	_, err := s.owners(ctx, "user_by_key", kind, names, n, a)
	return err
}

// addressOwners finds the users of addresses, by a statement for n. Very many
// users may have one address: the statement returns some more rows than it has
// addresses. If that is not enough, each half of them is asked for by itself.
// So a crowd is read in some ten pieces of at most n and two hundred rows, not whole.
func (s *Store) addressOwners(ctx context.Context, kind user.KeyKind, names []string, n int, a *answer) error {
	most := n + 2*user.MaxSharing
	piece := newAnswer(a.most)
	rows, err := s.owners(ctx, "user_by_address", kind, names, n, piece, most)
	switch half := len(names) / 2; {
	case err != nil:
		return err
	case rows < most:
	case half > 0:
		if err := s.addressOwners(ctx, kind, names[:half], n, a); err != nil {
			return err
		}
		return s.addressOwners(ctx, kind, names[half:], n, a)
	default:
		k := user.Key{Kind: kind, Name: names[0]}
		if piece.ByKey[k], err = s.Sharing(ctx, k, user.ID{}, user.MaxSharing+1); err != nil {
			return err
		}
		if err := s.usersByID(ctx, &user.Query{IDs: piece.ByKey[k]}, piece); err != nil {
			return err
		}
	}
	for k, ids := range piece.ByKey {
		if len(ids) > user.MaxSharing {
			slices.SortFunc(ids, user.ID.Compare)
			ids = ids[:user.MaxSharing]
			if a.Shared == nil {
				a.Shared = make(map[user.Key]bool)
			}
			a.Shared[k] = true
		}
		a.ByKey[k] = ids
		for _, id := range ids {
			if u, ok := piece.Users[id]; ok {
				if err := a.add(u); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// owners runs a statement for n names, of which there are so many or fewer.
func (s *Store) owners(ctx context.Context, query string, kind user.KeyKind, names []string, n int, a *answer, more ...any) (found int, err error) {
	args := append(make([]any, 0, n+1+len(more)), int(kind))
	for _, name := range names {
		args = append(args, name)
	}
	for len(args) <= n {
		args = append(args, names[0])
	}
	rows, err := s.fixed(ctx, named(rawQuery(s.d, query), n), append(args, more...))
	if err != nil {
		return 0, err
	}
	return found, s.scanUsers(rows, func(name string, u user.Row) error {
		found++
		key := user.Key{Kind: kind, Name: name}
		a.ByKey[key] = append(a.ByKey[key], u.ID)
		if u.Profile != "" || !u.MergedInto.IsZero() {
			return a.add(u)
		}
		return nil
	})
}

func (s *Store) usersByID(ctx context.Context, q *user.Query, a *answer) error {
	numbers := make(map[int][]any)
	for _, id := range q.IDs {
		numbers[id.Partition] = append(numbers[id.Partition], id.Number)
	}
	for _, p := range slices.Sorted(maps.Keys(numbers)) {
		err := s.byNumber(ctx, "user_by_id", p, numbers[p], func(rows *sql.Rows) error {
			return s.scanUsers(rows, func(_ string, u user.Row) error { return a.add(u) })
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// byNumber runs a statement about users of a partition, for as many of them at a time as
// there may be in one.
func (s *Store) byNumber(ctx context.Context, statement string, partition int, numbers []any, read func(*sql.Rows) error) error {
	most := s.d.keysAtOnce()
	for piece := range slices.Chunk(numbers, most) {
		n := len(piece)
		if most < maxUserKeys && n > 1 { // few statements, which stay prepared
			n = most
		}
		args := append(make([]any, 0, n), piece...)
		for len(args) < n {
			args = append(args, piece[0])
		}
		rows, err := s.fixed(ctx, named(rawQuery(s.d, statement), n), s.d.userArgs(partition, args...))
		if err == nil {
			err = read(rows)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) userNumbers(ctx context.Context, q *user.Query, a *answer) error {
	if len(q.Numbers) == 0 {
		return nil
	}
	args := make([]any, len(q.Numbers))
	for i, p := range q.Numbers {
		args[i] = p
		a.Numbers[p] = user.Numbers{} // it has given none yet
	}
	return s.each(ctx, named(rawQuery(s.d, "user_numbers"), len(args)), args, func(scan scanner) error {
		var p int
		var n user.Numbers
		err := scan(&p, &n.User, &n.Forward)
		a.Numbers[p] = n
		return err
	})
}

// Bounds of following merged users.
const (
	chainSteps = 500       // in a statement: MariaDB and MySQL end a recursion after 1,000
	maxChain   = 1_000_000 // users of one answer
)

// userChains adds the users that took over users of the answer, over as many
// merges as there were. Nearly always none is missing, and nothing is asked.
func (s *Store) userChains(ctx context.Context, _ *user.Query, a *answer) error {
	looked := make(map[user.ID]bool) // a user who is not found was erased
	missing := missingOf(a.Users, a.Users, looked)
	for len(missing) > 0 {
		if len(a.Users) > maxChain {
			return fmt.Errorf("more than %d users were merged one into the other", maxChain)
		}
		found := make(map[user.ID]user.Row)
		for p, numbers := range missing {
			for piece := range slices.Chunk(numbers, s.d.keysAtOnce()) {
				statement := named(rawQuery(s.d, "user_chain"), len(piece))
				err := s.userRows(ctx, statement, append(s.d.userArgs(p, piece...), chainSteps), func(_ string, u user.Row) error {
					found[u.ID] = u
					if _, known := a.Users[u.ID]; known {
						return nil
					}
					return a.add(u)
				})
				if err != nil {
					return err
				}
			}
		}
		missing = missingOf(found, a.Users, looked)
	}
	return nil
}

// missingOf returns the numbers, by partition, of the users that took over some
// of these users, are not among them, and were not looked for.
func missingOf(some, all map[user.ID]user.Row, looked map[user.ID]bool) map[int][]any {
	var missing map[int][]any
	for _, u := range some {
		to := u.MergedInto
		if to.IsZero() || looked[to] {
			continue
		}
		if _, ok := all[to]; ok {
			continue
		}
		if missing == nil {
			missing = make(map[int][]any)
		}
		looked[to] = true
		missing[to.Partition] = append(missing[to.Partition], to.Number)
	}
	return missing
}

// Sharing implements user.Store.
func (s *Store) Sharing(ctx context.Context, k user.Key, after user.ID, limit int) ([]user.ID, error) {
	all, err := list(ctx, s.d, s.reads, func(scan scanner, id *user.ID) error { return scan(&id.Partition, &id.Number) },
		rawQuery(s.d, "user_sharing"), int(k.Kind), k.Name, after.Partition, after.Partition, after.Number, limit)
	return all, s.failed(err, "read the users of an address in")
}

// EachProfile implements user.Store. Its statement says to_number <= 0 where = 0 would say
// the same: without statistics PostgreSQL takes an equality for rare. Then it reads the
// rest of the partition and sorts it, for each page.
func (s *Store) EachProfile(ctx context.Context, partition int, after int64, limit int, f func(number int64, profile string) bool) error {
	err := s.each(ctx, rawQuery(s.d, "user_profiles"), append(s.d.usersAfter(partition, after), limit), func(scan scanner) error {
		var number int64
		var text string
		err := scan(&number, &text)
		if err == nil && !f(number, text) {
			err = errEnough
		}
		return err
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return s.failed(err, "read profiles of partition %d after %d from", partition, after)
}

// ProfilesOf implements user.Store.
func (s *Store) ProfilesOf(ctx context.Context, partition int, numbers []int64, f func(number int64, profile string) bool) error {
	if len(numbers) > user.MaxQuery {
		return fmt.Errorf("read profiles from %s: %d users at once, at most %d", s.where, len(numbers), user.MaxQuery)
	}
	err := s.byNumber(ctx, "user_profiles_of", partition, anys(numbers), func(rows *sql.Rows) error {
		return eachRow(rows, func(scan scanner) error {
			var number int64
			var text string
			err := scan(&number, &text)
			if err == nil && !f(number, text) {
				err = errEnough
			}
			return err
		})
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return s.failed(err, "read profiles of %d users of partition %d from", len(numbers), partition)
}

// forwardsBytes is after how many bytes of items Forwards returns no more: one that absorbs
// a user brings a whole profile.
const forwardsBytes = 8 << 20

// Forwards implements user.Store.
func (s *Store) Forwards(ctx context.Context, q user.ForwardQuery, limit int) ([]user.Forward, error) {
	least, most := q.To, q.To
	if q.To == user.AnyPartition {
		least, most = 0, math.MaxInt32
	}
	var all []user.Forward
	bytes := 0
	err := s.each(ctx, rawQuery(s.d, "forward_list"), []any{q.From, q.After, user.ForwardsBefore(q.OwnBefore), least, most, limit}, func(scan scanner) error {
		if bytes >= forwardsBytes {
			return errEnough
		}
		f := user.Forward{From: q.From}
		err := scan(&f.ID, &f.To, &f.Items)
		all, bytes = append(all, f), bytes+len(f.Items)
		return err
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	if err != nil {
		all = nil
	}
	return all, s.failed(err, "read forwards from partition %d in", q.From)
}

// Forwarded implements user.Store.
func (s *Store) Forwarded(ctx context.Context, from, to int, id int64) error {
	err := s.write(ctx, func(tx *txn) error {
		return tx.exec(ctx, "forward_done", from, to, id)
	})
	return s.failed(err, "remove forwards from partition %d that arrived in %d in", from, to)
}

// userRows reads users. The first column is the key that each was found by.
func (s *Store) userRows(ctx context.Context, statement string, args []any, f func(key string, u user.Row) error) error {
	rows, err := s.reads.QueryContext(ctx, s.d.placeholders(statement), args...)
	if err != nil {
		return err
	}
	return s.scanUsers(rows, f)
}

func (s *Store) scanUsers(rows *sql.Rows, f func(key string, u user.Row) error) error {
	return eachRow(rows, func(scan scanner) error {
		var key string
		var u user.Row
		var text sql.NullString // all of these are NULL for a key of an erased user
		var to [2]sql.NullInt64
		err := scan(&key, &u.ID.Partition, &u.ID.Number, s.instant(&u.UpdatedMillis), &to[0], &to[1], &text)
		u.MergedInto, u.Profile = user.ID{Partition: int(to[0].Int64), Number: to[1].Int64}, text.String
		if err == nil {
			err = f(key, u)
		}
		return err
	})
}

// sqliteKeysAtOnce is small, so that two statements do: parsing one costs SQLite
// as much as finding its users.
const sqliteKeysAtOnce = 100

func (plainSQL) keysAtOnce() int         { return maxUserKeys }
func (d *sqliteDialect) keysAtOnce() int { return sqliteKeysAtOnce }

// namesAtOnce is keysAtOnce of what has small rows, and not those of users.
func namesAtOnce(d dialect) int {
	if most := d.keysAtOnce(); most < maxUserKeys {
		return most
	}
	return maxNames
}

// maxPrepared bounds the statements that stay prepared.
const maxPrepared = 16

// fixed runs a statement of which there are few. Where so few keys go into one
// that there are, it stays prepared.
func (s *Store) fixed(ctx context.Context, statement string, args []any) (*sql.Rows, error) {
	if s.d.keysAtOnce() == maxUserKeys {
		return s.reads.QueryContext(ctx, s.d.placeholders(statement), args...)
	}
	s.prepared.Lock()
	p := s.prepared.statements[statement]
	if p == nil {
		if len(s.prepared.statements) >= maxPrepared {
			s.prepared.Unlock()
			return s.reads.QueryContext(ctx, statement, args...)
		}
		var err error
		if p, err = s.reads.PrepareContext(ctx, statement); err != nil {
			s.prepared.Unlock()
			return nil, err
		}
		if s.prepared.statements == nil {
			s.prepared.statements = make(map[string]*sql.Stmt)
		}
		s.prepared.statements[statement] = p
	}
	s.prepared.Unlock()
	return p.QueryContext(ctx, args...)
}
