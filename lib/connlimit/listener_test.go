package connlimit

import (
	"io"
	"net"
	"runtime"
	"testing"
	"time"

	"sluice/test/clocktest"
)

// door is a listener with clients on the other side.
type door struct {
	t *testing.T
	l *Listener
}

func openDoor(t *testing.T, most int, grace time.Duration, clock *clocktest.Clock) *door {
	t.Helper()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &door{t, NewListener(inner, most, grace, clock)}
	t.Cleanup(func() { d.l.Close() })
	return d
}

// dial connects and does not wait to be accepted.
func (d *door) dial() net.Conn {
	d.t.Helper()
	c, err := net.Dial("tcp", d.l.Addr().String())
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { c.Close() })
	return c
}

// accept accepts in the background.
func (d *door) accept() <-chan *Conn {
	accepted := make(chan *Conn, 1)
	go func() {
		defer close(accepted)
		if c, err := d.l.Accept(); err == nil {
			accepted <- c.(*Conn)
		}
	}()
	return accepted
}

// next connects a client and accepts it.
func (d *door) next() (client net.Conn, conn *Conn) {
	d.t.Helper()
	client = d.dial()
	conn = <-d.accept()
	if conn == nil {
		d.t.Fatal("not accepted")
	}
	return client, conn
}

func (d *door) mustBeClosed(client net.Conn, what string) {
	d.t.Helper()
	if err := client.SetReadDeadline(time.Now().Add(3 * time.Minute)); err != nil {
		d.t.Fatal(err)
	}
	if _, err := client.Read(make([]byte, 1)); err != io.EOF {
		d.t.Errorf("%s is not closed: %v", what, err)
	}
}

// Beyond the bound the longest quiet connection goes, never a busy one.
func TestQuietConnectionsMakeRoom(t *testing.T) {
	d := openDoor(t, 3, 0, clocktest.At(time.Time{}))
	firstClient, first := d.next()
	secondClient, second := d.next()
	thirdClient, third := d.next()
	first.Quiet() // it has just been answered
	d.next()
	d.mustBeClosed(secondClient, "the longest quiet")
	third.Busy()
	d.next()
	d.mustBeClosed(firstClient, "the longest quiet that is not busy")
	if d.l.open != 3 || d.l.quiet.Len() != 2 {
		t.Errorf("%d open, %d of them quiet", d.l.open, d.l.quiet.Len())
	}
	second.Close() // a second Close gives no second place, a late turn none back
	second.Quiet()
	third.Quiet()
	for range 3 {
		d.next()
	}
	d.mustBeClosed(thirdClient, "one that was busy once")
	if d.l.open != 3 || d.l.quiet.Len() != 3 {
		t.Errorf("%d open, %d of them quiet", d.l.open, d.l.quiet.Len())
	}
}

// A known client loses its place when no unknown one is left.
func TestStrangersGoFirst(t *testing.T) {
	d := openDoor(t, 3, 0, clocktest.At(time.Time{}))
	knownClient, known := d.next()
	known.Known(true)
	revokedClient, revoked := d.next()
	revoked.Known(true)
	strangerClient, _ := d.next()
	_, fourth := d.next()
	d.mustBeClosed(strangerClient, "a stranger")
	fourth.Busy()
	revoked.Known(false)
	_, fifth := d.next()
	d.mustBeClosed(revokedClient, "one that is known no more")
	fifth.Known(true)
	fifth.Busy()
	fourth.Known(true) // while it is busy, it is none of the quiet
	d.next()
	d.mustBeClosed(knownClient, "the only one that is quiet")
	fourth.Quiet()
	if d.l.open != 3 || d.l.quiet.Len() != 1 || d.l.known.Len() != 1 {
		t.Errorf("%d open, quiet are %d strangers and %d others", d.l.open, d.l.quiet.Len(), d.l.known.Len())
	}
}

// While all are busy the next waits, until one is closed or done.
func TestBusyConnectionsAreWaitedFor(t *testing.T) {
	d := openDoor(t, 1, 0, clocktest.At(time.Time{}))
	for _, end := range []func(*Conn){
		(*Conn).Quiet,
		func(c *Conn) { c.Close() },
	} {
		_, conn := d.next()
		conn.Busy()
		d.dial()
		waiting := d.accept()
		select {
		case <-waiting:
			t.Fatal("two connections at once")
		default:
		}
		end(conn)
		if next := <-waiting; next == nil || d.l.open != 1 {
			t.Fatalf("%d open after %v", d.l.open, next)
		}
	}
	_, conn := d.next()
	conn.Busy()
	d.dial()
	waiting := d.accept()
	d.l.Close()
	if next := <-waiting; next != nil {
		t.Error("accepted after Close")
	}
}

// A client whose bytes the server has not read yet keeps its place, for a while,
// unless the server is writing to it.
func TestUnreadBytesKeepAPlace(t *testing.T) {
	clock := clocktest.At(time.UnixMilli(1_700_000_000_000))
	d := openDoor(t, 2, time.Millisecond, clock)
	speaker, first := d.next()
	silent, second := d.next()
	if _, err := speaker.Write([]byte("G")); err != nil {
		t.Fatal(err)
	}
	for !hasUnread(first.Conn) { // it is on its way
		runtime.Gosched()
	}
	clock.Move(time.Millisecond)
	if conn, _, ok := d.l.toClose(); conn != second || !ok {
		t.Error("a client that spoke goes before one that said nothing")
	}
	silent.Close()
	second.Close()
	_, third := d.next()
	third.Busy()
	for range maxSpared - 1 {
		clock.Move(time.Millisecond)
		if conn, wait, ok := d.l.toClose(); conn != nil || ok || wait != time.Millisecond {
			t.Fatalf("%v, %v, %v: not spared %d times", conn, wait, ok, maxSpared)
		}
	}
	clock.Move(time.Millisecond)
	if conn, _, _ := d.l.toClose(); conn != first {
		t.Error("spared for ever")
	}
	first.Quiet()
	first.writing.Store(true)
	clock.Move(time.Millisecond)
	if conn, _, _ := d.l.toClose(); conn != first {
		t.Error("spared although it does not read")
	}
}

// A new connection is not cut off before its client could speak.
func TestQuietConnectionsHaveGrace(t *testing.T) {
	clock := clocktest.At(time.UnixMilli(1_700_000_000_000))
	d := openDoor(t, 1, time.Millisecond, clock)
	client, _ := d.next()
	d.dial()
	waiting := d.accept()
	for range 20 { // its timer has run out by then, the clock stands
		if wait, ok := d.l.makeRoom(); ok || wait != time.Millisecond {
			t.Fatalf("room after %v", wait)
		}
		select {
		case <-waiting:
			t.Fatal("no grace")
		case <-time.After(time.Millisecond):
		}
	}
	clock.Move(time.Millisecond)
	if <-waiting == nil {
		t.Error("not accepted")
	}
	d.mustBeClosed(client, "the first")
}
