package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// generator sends requests over many connections that stay open, each its next
// as soon as it has its answer. It speaks just enough HTTP/1.1 to be cheap: a
// client that costs as much as the server would measure itself. What it could
// do at best is measured beside it (ceiling).
type generator struct {
	address string // HOST:PORT
	conns   int
	span    time.Duration

	most int64 // requests; 0: as many as go into span
	rate int64 // requests a second; 0: as many as are answered

	// next appends the next request to dst; it is called by all connections at
	// once. done is told its answer, and whether to send the same again.
	next func(dst []byte) (request []byte, items int)
	done func(status int) (again bool, err error)
}

// generated is what a run of a generator came to.
type generated struct {
	requests  int64
	items     int64
	repeats   int64
	took      time.Duration // until the last answer
	latencies []latency     // of every sampleEvery-th request of a connection
}

const (
	sampleEvery     = 16
	dialWithin      = 5 * time.Second
	generateAnswer  = 30 * time.Second
	maxAnswerBytes  = 1 << 20
	againAfter      = 20 * time.Millisecond
	contentLength   = "content-length:"
	ceilingAnswer   = "HTTP/1.1 204 No Content\r\n\r\n"
	ceilingBufBytes = 4 << 10
)

// run sends requests for the generator's time and waits for their answers.
func (g *generator) run(ctx context.Context) (generated, error) {
	conns := make([]net.Conn, 0, g.conns)
	defer func() {
		for _, c := range conns {
			_ = c.Close()
		}
	}()
	for range g.conns {
		c, err := net.DialTimeout("tcp", g.address, dialWithin)
		if err != nil {
			return generated{}, fmt.Errorf("connect to the server under measurement: %w", err)
		}
		conns = append(conns, c)
	}
	var mu sync.Mutex
	var all generated
	started := time.Now()
	var sent, paced atomic.Int64
	group, groupCtx := errgroup.WithContext(ctx)
	for _, c := range conns {
		group.Go(func() error {
			one, err := g.send(groupCtx, c, started.Add(g.span), &sent, &paced)
			mu.Lock()
			defer mu.Unlock()
			all.requests += one.requests
			all.items += one.items
			all.repeats += one.repeats
			all.latencies = append(all.latencies, one.latencies...)
			return err
		})
	}
	err := group.Wait()
	all.took = time.Since(started)
	return all, err
}

// send is one connection's work.
func (g *generator) send(ctx context.Context, c net.Conn, until time.Time, requests, paced *atomic.Int64) (one generated, err error) {
	in := bufio.NewReader(c)
	var request []byte
	for n := 0; time.Now().Before(until) && ctx.Err() == nil; n++ {
		if g.most > 0 && requests.Add(1) > g.most {
			break
		}
		if g.rate > 0 {
			due := until.Add(-g.span).Add(time.Duration(paced.Add(1)) * time.Second / time.Duration(g.rate))
			if err := pause(ctx, time.Until(due)); err != nil {
				return one, err
			}
		}
		var items int
		request, items = g.next(request[:0])
		for {
			sent := time.Now()
			if err := c.SetDeadline(sent.Add(generateAnswer)); err != nil {
				return one, fmt.Errorf("send request: %w", err)
			}
			if _, err := c.Write(request); err != nil {
				return one, fmt.Errorf("send request: %w", err)
			}
			status, err := readAnswer(in)
			if err != nil {
				return one, fmt.Errorf("read answer: %w", err)
			}
			again, err := g.done(status)
			if err != nil {
				return one, err
			}
			if !again {
				if n%sampleEvery == 0 {
					one.latencies = append(one.latencies, latency{time.Since(sent).Seconds(), 1})
				}
				break
			}
			one.repeats++
			if err := pause(ctx, againAfter); err != nil {
				return one, err
			}
		}
		one.requests++
		one.items += int64(items)
	}
	return one, nil
}

// readAnswer reads an answer to its end and returns its status.
func readAnswer(in *bufio.Reader) (status int, err error) {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	if len(line) < len("HTTP/1.1 200") {
		return 0, fmt.Errorf("status line %q", line)
	}
	if status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, fmt.Errorf("status line %q", line)
	}
	size := 0
	for {
		if line, err = in.ReadSlice('\n'); err != nil {
			return 0, err
		}
		if len(line) <= len("\r\n") {
			break
		}
		if len(line) > len(contentLength) && strings.EqualFold(string(line[:len(contentLength)]), contentLength) {
			if size, err = strconv.Atoi(strings.TrimSpace(string(line[len(contentLength):]))); err != nil || size > maxAnswerBytes {
				return 0, fmt.Errorf("header %q", line)
			}
		}
	}
	_, err = in.Discard(size)
	return status, err
}

// wantStatus returns a done that takes one status and nothing else; 503 says to
// try again.
func wantStatus(want int) func(int) (bool, error) {
	return func(status int) (bool, error) {
		if status == 503 {
			return true, nil
		}
		if status != want {
			return false, fmt.Errorf("the server answered %d, wanted %d", status, want)
		}
		return false, nil
	}
}

// ceiling measures the generator itself: its requests answered by something
// that only looks for their ends.
func ceiling(ctx context.Context, conns int, span time.Duration, request string) (float64, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("listen for the generator: %w", err)
	}
	var serving sync.WaitGroup
	var broken atomic.Pointer[error]
	serving.Go(func() { // ends when the listener is closed
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { // ends with the connection
				defer c.Close()
				if err := answerAll(c, len(request)); err != nil {
					broken.Store(&err)
				}
			})
		}
	})
	g := generator{address: l.Addr().String(), conns: conns, span: span, done: wantStatus(204),
		next: func(dst []byte) ([]byte, int) { return append(dst, request...), 1 }}
	all, err := g.run(ctx)
	err = errors.Join(err, l.Close())
	serving.Wait()
	if b := broken.Load(); b != nil {
		err = errors.Join(err, *b)
	}
	return float64(all.requests) / all.took.Seconds(), err
}

// answerAll answers requests of a known size until the connection is closed.
func answerAll(c net.Conn, size int) error {
	buf, have := make([]byte, ceilingBufBytes), 0
	for {
		n, err := c.Read(buf)
		if err == io.EOF || errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("answer the generator: %w", err)
		}
		for have += n; have >= size; have -= size {
			if _, err := c.Write([]byte(ceilingAnswer)); err != nil {
				return fmt.Errorf("answer the generator: %w", err)
			}
		}
	}
}
