package flow

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"sluice"
	"sluice/lib/doctor"
)

// readsWord is the name under which processes say which forms they read.
// SchemaWord is the name under which they say up to which version they know the
// schema of the database.
const (
	readsWord  = "reads"
	SchemaWord = "schema"
)

// formsEvery is how often a process looks which forms are in use, and whether all
// that live read its own.
const formsEvery = time.Second

// schemaTurns is in how many of these looks once the database is asked as well.
const schemaTurns = 5

// Forms keeps a process and those of other versions apart: sluice.Forms.
type Forms struct {
	Redis  *Redis
	Leases *Leases
	Schema func(context.Context) error // says by sluice.ErrNewer that the database cannot be used any more
	Log    *slog.Logger

	// AllCursors returns where all followers stand in the database.
	AllCursors func(context.Context) ([]doctor.Cursor, error)
}

// newer says that forms are in use that this program does not read.
func (f *Forms) newer(used sluice.Forms) error {
	return fmt.Errorf("redis %s: forms %s are in use, this program reads %s: %w; run that one", f.Redis, used, sluice.KnownForms(), sluice.ErrNewer)
}

// Begin has the process say what it reads. It fails if newer programs have written
// what this one does not read. Where no process has shown itself, and no
// follower has moved in the database, it is the first of a new deployment. Then
// it writes its new forms at once: otherwise the first mail would not be
// counted as pending. A Redis without beats alone may have been emptied under
// processes that live. Call it before Leases.Run.
func (f *Forms) Begin(ctx context.Context) error {
	used, err := f.Redis.forms(ctx, sluice.Forms{})
	if err != nil {
		return err
	}
	if known := sluice.KnownForms(); !known.Cover(used) {
		return f.newer(used)
	}
	sluice.WriteForms(used)
	f.Leases.Say(readsWord, func() string { return sluice.KnownForms().String() })
	beats, err := f.Redis.beats(ctx)
	if err != nil || len(beats) > 0 {
		return err
	}
	cursors, err := f.AllCursors(ctx)
	if err != nil || anyMoved(cursors) {
		return err
	}
	if _, err := f.Redis.forms(ctx, sluice.KnownForms()); err != nil {
		return err
	}
	sluice.WriteNewForms()
	return nil
}

// Run lets the process write its new forms as soon as all living processes read
// them. It gives up the leases for good once newer forms are in use than the
// process reads. It ends with the context.
func (f *Forms) Run(ctx context.Context) {
	known := sluice.KnownForms()
	writes, left, told := false, false, ""
	for turn := 0; ; turn++ {
		used, err := f.Redis.forms(ctx, sluice.Forms{})
		if err == nil && !known.Cover(used) {
			err = f.newer(used)
		}
		if err == nil && turn%schemaTurns == 0 {
			if wrong := f.Schema(ctx); errors.Is(wrong, sluice.ErrNewer) {
				err = wrong
			}
		}
		if err == nil {
			sluice.WriteForms(used)
		}
		switch {
		case err != nil:
		case !writes:
			writes, err = f.begin(ctx, known, used)
		case !used.Cover(known): // Redis has gone back, or was emptied
			_, err = f.Redis.forms(ctx, known)
		}
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, sluice.ErrNewer) && !left:
			left = true
			f.Leases.Leave(err)
			f.Log.Error("this process gives up its leases: stop it, or run the newer program in its place", "error", err)
		case err != nil && err.Error() != told && !left:
			told = err.Error()
			f.Log.Warn("look which forms are in use failed, trying again", "error", err)
		}
		if sluice.Pause(ctx, sluice.Rest(time.Now(), formsEvery)) != nil {
			return
		}
	}
}

// begin notes that the new forms are in use, if all living processes read them.
// A Redis that knows of no forms may have been emptied. Living processes have
// yet to come back: begin gives them the time for that.
func (f *Forms) begin(ctx context.Context, known, used sluice.Forms) (bool, error) {
	if !used.Cover(known) {
		living, sure := f.Leases.Living()
		if !sure || used == (sluice.Forms{}) && f.Leases.watched() < returnWithin(f.Leases.Timeout) {
			return false, nil
		}
		for _, m := range living {
			if !sluice.ParseForms(m.Words[readsWord]).Cover(known) {
				return false, nil
			}
		}
		if _, err := f.Redis.forms(ctx, known); err != nil {
			return false, err
		}
	}
	sluice.WriteNewForms()
	return true, nil
}

// FormsInUse returns the newest forms that may stand in the logs.
func (l *Log) FormsInUse(ctx context.Context) (sluice.Forms, error) {
	return l.redis.forms(ctx, sluice.Forms{})
}

// Readable returns ErrNewer if a batch has forms that newer programs write and
// this one does not read. The batch then waits for a program that reads them. A
// kind that no living program writes is not held back: the reader of the batch
// makes dead letters of its items. Readable asks Redis only if this program
// does not read all forms.
func (l *Log) Readable(ctx context.Context, batch []byte) error {
	found, ok := sluice.KnownForms().Beyond(batch)
	if ok {
		return nil
	}
	used, err := l.FormsInUse(ctx)
	if err != nil || !used.Cover(found) {
		return err
	}
	return fmt.Errorf("forms %s: %w; its process goes on with it", found, sluice.ErrNewer)
}

// Readable is Log.Readable for a batch in a lane.
func (l *Lanes) Readable(ctx context.Context, b *LaneBatch) error {
	if err := l.log.Readable(ctx, b.Data); err != nil {
		return fmt.Errorf("read lane %s of partition %d, entry %s: %w", b.Lane, l.Partition(), b.Entry, err)
	}
	return nil
}

// CheckForms returns an error unless all forms that this program writes are in use: each
// process that lives reads them then.
func (r *Redis) CheckForms(ctx context.Context) error {
	used, err := r.forms(ctx, sluice.Forms{})
	if known := sluice.KnownForms(); err == nil && !used.Cover(known) {
		err = fmt.Errorf("redis %s: forms %s are in use, this program writes %s: a program of an older version runs, wait until it has ended", r, used, known)
	}
	return err
}

// forms notes forms as in use and returns the newest of all that were noted.
func (r *Redis) forms(ctx context.Context, f sluice.Forms) (sluice.Forms, error) {
	const verb = "read which forms are in use"
	all, err := r.call(ctx, "forms", []string{formsKey()}, []string{
		strconv.Itoa(int(f.Item)), strconv.Itoa(int(f.Update)), strconv.Itoa(f.Scripts),
	}).AsIntSlice()
	if err != nil {
		return sluice.Forms{}, r.wrap(verb, err)
	}
	if len(all) != 3 {
		return sluice.Forms{}, fmt.Errorf("%s: redis %s: the script answered %d values, want 3", verb, r, len(all))
	}
	return sluice.Forms{Item: sluice.ItemKind(all[0]), Update: byte(all[1]), Scripts: int(all[2])}, nil
}

// Words returns what the living processes say under a name, by their ids; ""
// for a process that does not say it. It only watches: it looks which beats
// change, for LeaseTimeout, since a process may live that has not been seen
// yet. In a Redis that knows of no forms it looks for longer, as Forms.begin
// does.
func Words(ctx context.Context, r *Redis, name string) (map[string]string, error) {
	return words(ctx, r, name, LeaseTimeout)
}

func words(ctx context.Context, r *Redis, name string, timeout time.Duration) (map[string]string, error) {
	used, err := r.forms(ctx, sluice.Forms{})
	if err != nil {
		return nil, err
	}
	first, err := r.beats(ctx)
	if err != nil {
		return nil, err
	}
	look := timeout
	if used == (sluice.Forms{}) {
		look = returnWithin(timeout)
	}
	said := make(map[string]string)
	err = r.watchBeats(ctx, timeout/(LeaseTimeout/beatEvery), time.Now().Add(look), func(now map[string]string) bool {
		for id, beat := range now {
			if first[id] != beat {
				first[id] = beat
				said[id] = heard(beat, time.Time{}).words[name]
			}
		}
		return false
	})
	return said, err
}

// Leave has this process give back all its leases and take none any more: others
// share them as if it were not there. why is what Status says from then on.
func (l *Leases) Leave(why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.left = why
}

// abstain gives back all leases, and frees those that still stand in this
// process's name.
func (l *Leases) abstain(ctx context.Context, roles []*role) error {
	var errs []error
	for _, r := range roles {
		errs = append(errs, each(r.all(), func(i int) error { return l.giveBack(ctx, r, i) }))
	}
	looked, err := l.look(ctx, roles)
	errs = append(errs, err)
	for _, r := range roles {
		state := looked[r]
		known := slices.DeleteFunc(r.all(), func(i int) bool { return state[i] == nil })
		errs = append(errs, l.disown(ctx, r, known, state))
	}
	return joinOnce(errs)
}
