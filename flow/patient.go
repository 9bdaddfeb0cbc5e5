package flow

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"sluice"
)

// Times of repeating what a server has refused for now.
const (
	// patientFor bounds how long one call is repeated. A caller of the API waits
	// meanwhile, and gets its 503 then.
	patientFor = 3 * time.Second

	patientSoonest = 10 * time.Millisecond
	patientLatest  = 200 * time.Millisecond
)

// patient is a client that repeats what a server has refused for now and has not
// done.
//
// The idea. While a slot moves, a master is promoted or a server starts, a server
// says so and does nothing. That is the one kind of failure that anybody may
// repeat, whatever the command is: a script is refused before its first write.
// So it is done here, below everything else. A lost connection is another thing.
// The command may have been done then, and only its caller knows how to ask.
//
// The invariant. Commands of one pipeline are done in their order. Those from the
// first refused one on are repeated if all of them were refused. Otherwise only
// commands that write nothing are.
type patient struct{ rueidis.Client }

// passing are the words by which a server says that it does nothing now. MOVED and
// ASK are among them: the library follows them, but not for ever.
var passing = []string{"TRYAGAIN", "CLUSTERDOWN", "LOADING", "READONLY", "MASTERDOWN", "NOREPLICAS", "MOVED", "ASK"}

// refusedForNow reports whether a server has done nothing, and may do it in a moment.
func refusedForNow(err error) bool {
	reply, ok := rueidis.IsRedisErr(err)
	return ok && slices.Contains(passing, firstWord(reply.Error()))
}

// IsAway reports whether an error says that a Redis does not answer now, but
// may in a moment without a change of configuration. It is not there, was there
// until now, reads its file, is no master yet, or is of a cluster that is down.
func IsAway(err error) bool {
	if errors.Is(err, errPassing) || errors.Is(err, rueidis.ErrNoSlot) {
		return true
	}
	if reply, ok := errors.AsType[*rueidis.RedisError](err); ok {
		return slices.Contains(passing, firstWord(reply.Error()))
	}
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// IsSilent is IsAway without the servers that are there. A replica answers and takes no
// writes: a URL may name it by mistake. An alert of TLS looks like an error of the network,
// and is an answer.
func IsSilent(err error) bool {
	_, there := errors.AsType[answers](err)
	return !there && !isAlert(err) && IsAway(err)
}

func firstWord(text string) string {
	word, _, _ := strings.Cut(text, " ")
	return word
}

// Do is that of the client.
func (p *patient) Do(ctx context.Context, command rueidis.Completed) rueidis.RedisResult {
	command = command.Pin() // it may be needed again
	answer := p.Client.Do(ctx, command)
	for again := newPatience(); refusedForNow(answer.Error()) && again.pause(ctx); {
		answer = p.Client.Do(ctx, command)
	}
	return answer
}

// DoMulti is that of the client.
func (p *patient) DoMulti(ctx context.Context, commands ...rueidis.Completed) []rueidis.RedisResult {
	for i := range commands {
		commands[i] = commands[i].Pin()
	}
	answers := p.bySlot(ctx, commands)
	for again := newPatience(); ; {
		refused := repeatable(commands, answers)
		if len(refused) == 0 || !again.pause(ctx) {
			return answers
		}
		some := make([]rueidis.Completed, len(refused))
		for n, i := range refused {
			some[n] = commands[i]
		}
		for n, answer := range p.bySlot(ctx, some) {
			answers[refused[n]] = answer
		}
	}
}

// bySlot is DoMulti of the client, also while a slot of the cluster has no server. Then
// the client sends none of the commands, whatever slots the others are of (ErrNoSlot).
// Those of each slot are sent by themselves then, side by side.
func (p *patient) bySlot(ctx context.Context, commands []rueidis.Completed) []rueidis.RedisResult {
	answers := p.Client.DoMulti(ctx, commands...)
	if len(answers) == 0 || !errors.Is(answers[0].Error(), rueidis.ErrNoSlot) {
		return answers // an error of this kind is that of all
	}
	slots := make(map[uint16][]int)
	for i := range commands {
		slots[commands[i].Slot()] = append(slots[commands[i].Slot()], i)
	}
	if len(slots) == 1 {
		return answers
	}
	var group sync.WaitGroup
	for _, of := range slots {
		group.Go(func() {
			some := make([]rueidis.Completed, len(of))
			for n, i := range of {
				some[n] = commands[i]
			}
			for n, answer := range p.Client.DoMulti(ctx, some...) {
				answers[of[n]] = answer
			}
		})
	}
	group.Wait()
	return answers
}

// repeatable returns which commands of a pipeline may be repeated.
func repeatable(commands []rueidis.Completed, answers []rueidis.RedisResult) (refused []int) {
	reads := true
	for i := range answers {
		if refusedForNow(answers[i].Error()) {
			refused = append(refused, i)
			reads = reads && commands[i].IsReadOnly()
		}
	}
	if len(refused) == 0 || reads || refused[0] == len(answers)-len(refused) {
		return refused
	}
	return nil
}

// patience counts the time of repeating one call.
type patience struct {
	began time.Time
	next  time.Duration
}

func newPatience() *patience { return &patience{time.Now(), patientSoonest} }

// pause waits before the next attempt; false: there is to be none.
func (p *patience) pause(ctx context.Context) bool {
	if time.Since(p.began) >= patientFor || sluice.Pause(ctx, p.next) != nil {
		return false
	}
	p.next = min(2*p.next, patientLatest)
	return true
}
