package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"time"
)

// chromium is a browser that is told what to do by the DevTools protocol, over two pipes:
// JSON, each message ended by a zero byte (--remote-debugging-pipe). Its methods may be
// called from several goroutines at once.
type chromium struct {
	cmd    *exec.Cmd
	to     *os.File
	from   *os.File
	exited chan struct{} // closed when nothing more is read

	mu      sync.Mutex
	last    int
	waiting map[int]chan said
	events  chan said // of the one page
}

// said is a message of the browser: the answer to a call, or an event.
type said struct {
	ID      int             `json:"id"`
	Session string          `json:"sessionId"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params"`
	Result  json.RawMessage `json:"result"`
	Error   *struct {
		Message string `json:"message"`
	} `json:"error"`
}

const (
	chromiumAnswer     = 60 * time.Second
	chromiumEvents     = 4096 // that wait to be read; more are dropped
	chromiumMostBytes  = 256 << 20
	chromiumCloseAfter = 10 * time.Second
)

// chromiumFlags have it run without a window, and ask nobody for anything.
var chromiumFlags = []string{
	"--headless=new", "--no-sandbox", "--remote-debugging-pipe", "--no-first-run", "--no-default-browser-check", "--disable-extensions", "--disable-sync",
	"--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage", "--window-size=1280,900",
}

// openChromium starts the browser that the tests use: CHROMIUM, or the system's. It is
// closed with the environment.
func (e *env) openChromium(ctx context.Context) (*chromium, error) {
	file := os.Getenv("CHROMIUM")
	if file == "" {
		file = "/usr/bin/chromium"
	}
	theirIn, to, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe to chromium: %w", err)
	}
	from, theirOut, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe from chromium: %w", err)
	}
	c := &chromium{cmd: exec.Command(file, append(chromiumFlags, "--user-data-dir="+filepath.Join(e.dir, "chromium"), "about:blank")...),
		to: to, from: from, exited: make(chan struct{}), waiting: make(map[int]chan said), events: make(chan said, chromiumEvents)}
	c.cmd.ExtraFiles = []*os.File{theirIn, theirOut} // 3 and 4
	c.cmd.SysProcAttr = childAttributes()
	started := make(chan error, 1)
	go func() { // ends with the browser; on one thread, as child.start is
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := c.cmd.Start()
		started <- err
		_, _ = theirIn.Close(), theirOut.Close()
		if err == nil {
			_ = c.cmd.Wait() // how it ended says nothing: it is told to, or killed
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start chromium: %w; `make deps-test` installs it", err)
	}
	go c.read() // until the browser has ended
	e.closers = append(e.closers, c.close)
	var version struct{ Product string }
	if err := c.call(ctx, "", "Browser.getVersion", nil, &version); err != nil {
		return nil, err
	}
	e.run.report.Versions["chromium"] = version.Product
	return c, nil
}

// read takes what the browser says until it says nothing more.
func (c *chromium) read() {
	defer close(c.exited)
	in := bufio.NewScanner(c.from)
	in.Buffer(make([]byte, 1<<20), chromiumMostBytes)
	in.Split(func(data []byte, end bool) (int, []byte, error) {
		if i := bytes.IndexByte(data, 0); i >= 0 {
			return i + 1, data[:i], nil
		}
		if end && len(data) > 0 {
			return len(data), nil, nil
		}
		return 0, nil, nil
	})
	for in.Scan() {
		var m said
		if json.Unmarshal(in.Bytes(), &m) != nil {
			continue
		}
		if m.ID == 0 {
			select {
			case c.events <- m:
			default: // nobody reads: what is waited for does not come, which is an error there
			}
			continue
		}
		c.mu.Lock()
		answer := c.waiting[m.ID]
		delete(c.waiting, m.ID)
		c.mu.Unlock()
		if answer != nil {
			answer <- m
		}
	}
}

// call has the browser, or a page of it by its session, do something.
func (c *chromium) call(ctx context.Context, session, method string, params, result any) error {
	ctx, cancel := context.WithTimeout(ctx, chromiumAnswer)
	defer cancel()
	answer := make(chan said, 1)
	c.mu.Lock()
	c.last++
	id := c.last
	c.waiting[id] = answer
	text, err := json.Marshal(struct {
		ID      int    `json:"id"`
		Session string `json:"sessionId,omitempty"`
		Method  string `json:"method"`
		Params  any    `json:"params,omitempty"`
	}{id, session, method, params})
	if err == nil {
		_, err = c.to.Write(append(text, 0))
	}
	c.mu.Unlock()
	if err != nil {
		return fmt.Errorf("tell chromium %s: %w", method, err)
	}
	select {
	case m := <-answer:
		if m.Error != nil {
			return fmt.Errorf("chromium refuses %s: %s", method, m.Error.Message)
		}
		if result == nil {
			return nil
		}
		return json.Unmarshal(m.Result, result)
	case <-c.exited:
		return fmt.Errorf("tell chromium %s: it has ended", method)
	case <-ctx.Done():
		return fmt.Errorf("tell chromium %s: %w", method, context.Cause(ctx))
	}
}

func (c *chromium) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), chromiumCloseAfter)
	defer cancel()
	if err := c.call(ctx, "", "Browser.close", nil, nil); err != nil {
		_ = c.cmd.Process.Kill()
	}
	select {
	case <-c.exited:
	case <-ctx.Done():
		_ = c.cmd.Process.Kill()
		<-c.exited
	}
	return errors.Join(c.to.Close(), c.from.Close())
}

// page is a tab.
type page struct {
	*chromium
	session string
}

// open opens a tab.
func (c *chromium) open(ctx context.Context) (*page, error) {
	var target struct{ TargetID string }
	if err := c.call(ctx, "", "Target.createTarget", map[string]any{"url": "about:blank"}, &target); err != nil {
		return nil, err
	}
	var attached struct{ SessionID string }
	if err := c.call(ctx, "", "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached); err != nil {
		return nil, err
	}
	p := &page{c, attached.SessionID}
	return p, errors.Join(p.do(ctx, "Page.enable", nil, nil), p.do(ctx, "Runtime.enable", nil, nil))
}

// do is call for this page.
func (p *page) do(ctx context.Context, method string, params, result any) error {
	return p.call(ctx, p.session, method, params, result)
}

// evaluate runs a script in the page, waits for what it promises, and reads that.
func (p *page) evaluate(ctx context.Context, script string, result any) error {
	var answer struct {
		Result struct {
			Value json.RawMessage `json:"value"`
		} `json:"result"`
		ExceptionDetails *struct {
			Text      string `json:"text"`
			Exception struct {
				Description string `json:"description"`
			} `json:"exception"`
		} `json:"exceptionDetails"`
	}
	err := p.do(ctx, "Runtime.evaluate", map[string]any{"expression": script, "awaitPromise": true, "returnByValue": true}, &answer)
	if err != nil {
		return err
	}
	if e := answer.ExceptionDetails; e != nil {
		return fmt.Errorf("a script in the page fails: %s %s", e.Text, e.Exception.Description)
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(answer.Result.Value, result)
}

// await waits until a script in the page is true.
func (p *page) await(ctx context.Context, condition string) error {
	for until := time.Now().Add(chromiumAnswer); ; {
		met := false
		if err := p.evaluate(ctx, "Boolean("+condition+")", &met); err == nil && met {
			return nil
		} else if time.Now().After(until) {
			return errors.Join(fmt.Errorf("the page does not come to %s within %s", condition, chromiumAnswer), err)
		}
		if err := pause(ctx, countSlowly); err != nil {
			return err
		}
	}
}

// event returns what the page says next of a kind.
func (p *page) event(ctx context.Context, method string, params any) error {
	ctx, cancel := context.WithTimeout(ctx, chromiumAnswer)
	defer cancel()
	for {
		select {
		case m := <-p.events:
			if m.Session == p.session && m.Method == method {
				return json.Unmarshal(m.Params, params)
			}
		case <-p.exited:
			return fmt.Errorf("wait for %s: chromium has ended", method)
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", method, context.Cause(ctx))
		}
	}
}
