package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"sluice"
	"sluice/store"
	"sluice/store/sqlstore"
	"sluice/user"
	"sluice/user/profile"
	"sluice/user/rule"
	"sluice/user/segment"
)

// `bench rules`: ten rules over a million profiles in SQLite, read and matched.
const (
	ruleUsers      = 1_000_000
	ruleUsersQuick = 100_000
	ruleRuns       = 5
	rulePartitions = 16
	ruleStep       = 10_000 // users a transaction

	// What is promised: profiles a second.
	wantMatched = 300_000
)

// ruleTexts are ten as people write them: every kind of condition.
var ruleTexts = []string{
	`{"attribute":"plan","is":"equals","value":"gold"}`,
	`{"and":[{"field":"country","is":"is_one_of","value":["AT","DE","CH"]},{"subscription":"email","is":"not_equal","value":"unsubscribed"}]}`,
	`{"event":"login","is":"greater_than_or_equal_to","value":5}`,
	`{"event":"login","of":"last","is":"less_than_x_days_ago","value":7}`,
	`{"or":[{"spent":"EUR","is":"greater_than","value":99.5},{"purchase":"shoe","is":"exists"}]}`,
	`{"attribute":"tags","is":"includes_value","value":"b"}`,
	`{"attribute":"city","is":"matches_regex","value":"^Wi"}`,
	`{"group":"news","is":"equals","value":"subscribed"}`,
	`{"bucket":"spring","is":"less_than","value":5000}`,
	`{"not":{"attribute":"renewal","is":"before","value":"2026-06-01"}}`,
}

// ruleProfile is the i-th user's, of some 300 bytes.
func ruleProfile(i int, nowMillis int64) string {
	p := &profile.Profile{ExternalID: fmt.Sprint("user-", 1_000_000+i), CreatedMillis: nowMillis - int64(i)*1000}
	p.SetAttributes(fmt.Sprintf(`{"plan":"%s","city":"%s","score":%d,"tags":["a","%c"],"renewal":"2026-0%d-01","country":"%s","email_subscribe":"opted_in"}`,
		[]string{"gold", "free", "free"}[i%3], []string{"Wien", "Graz"}[i%2], i%1000, 'b'+i%5, 1+i%9, []string{"AT", "FR"}[i/2%2]), 0)
	for n := range i % 7 {
		p.CountEvent("login", nowMillis-int64(n+1)*3*24*3_600_000)
	}
	if i%4 == 0 {
		p.CountPurchase("hat", "EUR", int64(i%200)*1e6, 1, nowMillis-1e9)
	}
	p.SetGroup("news", i%3 > 0, nowMillis-1e9)
	return string(p.Append(nil))
}

// runRules is `sluice-bench rules`.
func runRules(ctx context.Context, r *run) (err error) {
	dir, err := os.MkdirTemp("", "sluice-bench-")
	if err != nil {
		return fmt.Errorf("make a directory for the bench: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	store, err := sqlstore.Open(ctx, "sqlite:"+filepath.Join(dir, "rules.db"), sqlstore.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if err := store.Migrate(ctx); err != nil {
		return err
	}
	users := pick(r, ruleUsers, ruleUsersQuick)
	bytes, err := fillUsers(ctx, r, store, users)
	if err != nil {
		return err
	}
	r.report.Settings["users"] = fmt.Sprintf("%d in %d partitions of SQLite, profiles of %d bytes on average; %d rules", users, rulePartitions, bytes/users, len(ruleTexts))
	var rules []*rule.Rule
	for _, text := range ruleTexts {
		compiled, err := rule.Compile(text)
		if err != nil {
			return err
		}
		rules = append(rules, compiled)
	}
	if err := matchRuns(ctx, r, store, users, rules); err != nil {
		return err
	}
	r.report.judge(target{ratio: "profiles_a_second", value: wantMatched}, r.report.value("ten_rules"))
	return nil
}

// matchRuns counts by one rule and by all, several times each.
func matchRuns(ctx context.Context, r *run, store *sqlstore.Store, users int, rules []*rule.Rule) error {
	scanner := segment.NewScanner(store, rulePartitions, sluice.SystemClock{})
	for _, x := range []struct {
		id, label string
		rules     []*rule.Rule
	}{{"one_rule", "one rule", rules[:1]}, {"ten_rules", "ten rules together", rules}} {
		for n := range pick(r, ruleRuns, 3) {
			if err := r.watchBusy(ctx); err != nil {
				return err
			}
			r.say("%s, run %d", x.label, n+1)
			before, err := cpuTimeOf(os.Getpid())
			if err != nil {
				return err
			}
			started := time.Now()
			counts, err := scanner.Count(ctx, x.rules...)
			if err != nil {
				return err
			}
			took := time.Since(started)
			after, err := cpuTimeOf(os.Getpid())
			if err != nil {
				return err
			}
			if counts.Users != int64(users) || counts.Unread > 0 {
				return fmt.Errorf("%d users were read of %d, and %d have no profile", counts.Users, users, counts.Unread)
			}
			for i, held := range counts.Holds {
				if held == 0 || held == counts.Users {
					return fmt.Errorf("rule %d holds for %d of %d: it separates no users", i, held, counts.Users)
				}
			}
			r.report.add(x.id, "Sluice, "+x.label, "profiles/s", float64(users)/took.Seconds())
			r.report.add(x.id+"_cpu", "its CPU, "+x.label, "µs/profile", float64((after-before).Microseconds())/float64(users))
		}
	}
	return nil
}

// fillUsers stores users, and returns how many bytes their profiles have.
func fillUsers(ctx context.Context, r *run, db *sqlstore.Store, users int) (bytes int, err error) {
	now := time.Now().UnixMilli()
	for i := 0; i < users; {
		changes := &user.Changes{}
		for ; len(changes.Put) < ruleStep && i < users; i++ {
			// A partition's users come in the order of their numbers.
			id := user.ID{Partition: i % rulePartitions, Number: int64(i/rulePartitions) + 1}
			row := user.Row{ID: id, UpdatedMillis: now, Profile: ruleProfile(i, now)}
			bytes += len(row.Profile)
			changes.Put = append(changes.Put, row)
		}
		p, err := db.Prepare(&store.Effect{Users: changes})
		if err != nil {
			return 0, err
		}
		if _, err := db.Apply(ctx, p); err != nil {
			return 0, err
		}
		if i%(users/5) == 0 {
			r.say("%d users are stored", i)
		}
	}
	return bytes, nil
}
