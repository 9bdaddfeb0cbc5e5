package baseline

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// Tracker is how an API that tracks users is written first: each call reads the
// user, changes and writes the row, and commits. Users are rows of
//
//	naive_users (external_id VARCHAR(255) PRIMARY KEY, profile LONGTEXT)
//
// It knows events only, and keeps of each name how often, when first, when last.
type Tracker struct {
	db                  *sql.DB
	read, write, insert *sql.Stmt
}

// trackConns is how many calls it works on at once.
const trackConns = 32

// trackTries bounds how often a call begins again after a deadlock.
const trackTries = 20

// NewTracker makes the table, and prepares the statements.
func NewTracker(ctx context.Context, db *sql.DB) (*Tracker, error) {
	t := &Tracker{db: db}
	db.SetMaxOpenConns(trackConns)
	db.SetMaxIdleConns(trackConns)
	for _, s := range []string{"DROP TABLE IF EXISTS naive_users", "CREATE TABLE naive_users (external_id VARCHAR(255) NOT NULL PRIMARY KEY, profile LONGTEXT NOT NULL) DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin"} {
		if _, err := db.ExecContext(ctx, s); err != nil {
			return nil, fmt.Errorf("make the naive users: %w", err)
		}
	}
	for _, p := range []struct {
		statement **sql.Stmt
		text      string
	}{
		{&t.read, "SELECT profile FROM naive_users WHERE external_id = ? FOR UPDATE"},
		{&t.write, "UPDATE naive_users SET profile = ? WHERE external_id = ?"},
		{&t.insert, "INSERT INTO naive_users (external_id, profile) VALUES (?, ?)"},
	} {
		var err error
		if *p.statement, err = db.PrepareContext(ctx, p.text); err != nil {
			return nil, fmt.Errorf("prepare for the naive users: %w", err)
		}
	}
	return t, nil
}

// Add inserts a user.
func (t *Tracker) Add(ctx context.Context, id, custom string) error {
	text, err := json.Marshal(trackProfile{Custom: json.RawMessage(custom), Events: map[string]*trackEvent{}})
	if err == nil {
		_, err = t.insert.ExecContext(ctx, id, string(text))
	}
	return err
}

type trackProfile struct {
	Custom json.RawMessage        `json:"custom"`
	Events map[string]*trackEvent `json:"events"`
}

type trackEvent struct {
	Count int64  `json:"count"`
	First string `json:"first"`
	Last  string `json:"last"`
}

type trackCall struct {
	Events []struct {
		ExternalID string `json:"external_id"`
		Name       string `json:"name"`
		Time       string `json:"time"`
	} `json:"events"`
}

// ServeHTTP implements http.Handler.
func (t *Tracker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var call trackCall
	if err := json.NewDecoder(r.Body).Decode(&call); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	for _, e := range call.Events {
		var err error
		for range trackTries {
			if err = t.apply(r.Context(), e.ExternalID, e.Name, e.Time); err == nil {
				break
			}
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, `{"message":"success","events_processed":%d}`, len(call.Events))
}

func (t *Tracker) apply(ctx context.Context, id, name, at string) (err error) {
	tx, err := t.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, tx.Rollback())
		}
	}()
	var text []byte
	if err := tx.StmtContext(ctx, t.read).QueryRowContext(ctx, id).Scan(&text); err != nil {
		return err
	}
	var p trackProfile
	if err := json.Unmarshal(text, &p); err != nil {
		return err
	}
	e := p.Events[name]
	if e == nil {
		e = &trackEvent{First: at}
		p.Events[name] = e
	}
	e.Count++
	e.Last = max(e.Last, at)
	if text, err = json.Marshal(&p); err != nil {
		return err
	}
	if _, err := tx.StmtContext(ctx, t.write).ExecContext(ctx, string(text), id); err != nil {
		return err
	}
	return tx.Commit()
}
