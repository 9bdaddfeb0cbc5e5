package alert

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/ops/alertstate"
)

const (
	// passEvery is how often everything is looked at.
	passEvery = 15 * time.Second

	// sendTimeout bounds one delivery; tellTimeout all that follows a look, with its
	// deliveries.
	sendTimeout = 20 * time.Second
	tellTimeout = 2 * time.Minute
)

// Watcher looks after alerts in one process.
//
// The invariants. What is told is written down in Redis before it is sent,
// under the lease: who has lost the lease is refused, and sends nothing. What
// was sent is written down after it. So a notice is sent once, and twice only
// if the process dies, Redis goes away in between, or the answer to it is lost. When Redis is away,
// which is a problem worth telling, the holder tells all the same. A look has its own
// time: what it asks may hang, and what was found is told then too.
type Watcher struct {
	State    *alertstate.State
	Leases   *flow.Leases
	Clock    sluice.Clock
	Log      *slog.Logger
	Host     string
	Rules    Rules
	Channels []Channel

	// Look returns what is wrong: with this process, and, if it tells, with what
	// all share. all: nothing could not be looked at. LookTimeout bounds it.
	Look        func(ctx context.Context, tells bool) (problems []Problem, all bool)
	LookTimeout time.Duration

	state *state // nil: this process does not tell
	read  bool   // what was told before is in state
}

// Run looks every passEvery, and when leases change, until fetch ends.
func (w *Watcher) Run(fetch, _ context.Context) {
	for fetch.Err() == nil {
		held, _ := w.Leases.Held(Role)
		if err := w.Pass(fetch); err != nil && fetch.Err() == nil {
			w.Log.Warn("alerts could not be judged in full, it is tried again", "in", passEvery, "error", err)
		}
		pause, stop := context.WithTimeout(fetch, passEvery)
		w.Leases.WaitForChange(pause, Role, held)
		stop()
	}
}

// Pass looks once, and tells what is to be told.
func (w *Watcher) Pass(ctx context.Context) error {
	held, _ := w.Leases.Held(Role)
	lease := held[0]
	looking, stop := context.WithTimeout(ctx, w.LookTimeout)
	problems, all := w.Look(looking, lease != nil)
	stop()
	ctx, cancel := context.WithTimeout(ctx, tellTimeout)
	defer cancel()
	errs := []error{w.post(ctx, problems, all)}
	if lease == nil {
		w.state, w.read = nil, false
		return errors.Join(errs...)
	}
	errs = append(errs, w.load(ctx))
	others, complete, err := w.others(ctx)
	errs = append(errs, err)
	w.state.look(w.Clock.Now(), append(problems, others...), all && complete, w.Rules, w.Channels)
	err = w.keep(ctx, lease)
	if errors.Is(err, sluice.ErrLeaseLost) {
		w.state, w.read = nil, false
		return errors.Join(append(errs, err)...)
	}
	errs = append(errs, err)
	if w.send(ctx) {
		errs = append(errs, w.keep(ctx, lease))
	}
	return errors.Join(errs...)
}

// post is what is wrong with a process, in the shared state.
type post struct {
	Problems []Problem `json:"problems"`
	All      bool      `json:"all"`
}

func (w *Watcher) post(ctx context.Context, problems []Problem, all bool) error {
	text, err := json.Marshal(post{problems, all})
	if err != nil {
		return fmt.Errorf("encode what is wrong: %w", err)
	}
	return w.State.Post(ctx, string(text))
}

// others returns what the other living processes have posted.
func (w *Watcher) others(ctx context.Context) (problems []Problem, all bool, err error) {
	posts, err := w.State.Posts(ctx)
	if err != nil {
		return nil, false, err
	}
	all = true
	for id, text := range posts {
		if id == w.Leases.ID() {
			continue
		}
		var p post
		if err := json.Unmarshal([]byte(text), &p); err != nil {
			return problems, false, fmt.Errorf("read what process %s has posted: %w", id, err)
		}
		problems, all = append(problems, p.Problems...), all && p.All
	}
	return problems, all, nil
}

// load takes up what was told before, once. While Redis does not say, the state begins
// anew and is not kept. A state that cannot be read is no reason to be silent either.
func (w *Watcher) load(ctx context.Context) error {
	if w.state == nil {
		w.state = newState()
	}
	if w.read {
		return nil
	}
	text, err := w.State.Kept(ctx)
	if err != nil {
		return err
	}
	w.read = true
	if text == "" {
		return nil
	}
	before, err := readState([]byte(text), w.Clock.Now())
	if err != nil {
		return fmt.Errorf("read what was told of alerts: %w", err)
	}
	w.state.takeOver(before)
	return nil
}

// keep writes down what was told, but not over what was told before and is not read yet.
func (w *Watcher) keep(ctx context.Context, lease *flow.Lease) error {
	if !w.read {
		return nil
	}
	text, err := json.Marshal(w.state)
	if err != nil {
		return fmt.Errorf("encode what was told of alerts: %w", err)
	}
	return w.State.Keep(ctx, lease, string(text))
}

// send delivers what is due, and reports whether anything was.
func (w *Watcher) send(ctx context.Context) bool {
	any := false
	for _, c := range w.Channels {
		notices := w.state.due(c.Name(), w.Clock.Now())
		if len(notices) == 0 {
			continue
		}
		any = true
		ctx, cancel := context.WithTimeout(ctx, sendTimeout)
		err := c.Send(ctx, newMessage(w.Host, w.Clock.Now(), notices))
		cancel()
		_, part := errors.AsType[*PartError](err)
		switch {
		case part:
			w.Log.Error("alerts delivered, but some recipients were refused and do not get these", "channel", c.Name(), "alerts", len(notices), "error", err)
			err = nil
		case err != nil:
			w.Log.Error("alerts not delivered, they are tried again", "channel", c.Name(), "alerts", len(notices), "error", err)
		default:
			w.Log.Info("alerts delivered", "channel", c.Name(), "alerts", len(notices))
		}
		w.state.delivered(c.Name(), w.Clock.Now(), err)
	}
	return any
}
