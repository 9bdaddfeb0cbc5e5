package flow

import "testing"

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// A round ends when as many have come as there were callers at the end of the
// one before, and with the tick if fewer come.
func TestRounds(t *testing.T) {
	r := newRounds()
	first := r.current()
	r.join() // nobody is expected beside him
	if !isClosed(first) {
		t.Fatal("one caller waits for nobody")
	}
	second := r.current()
	r.join()
	if !isClosed(second) {
		t.Fatal("the other is in flight: nobody more is expected")
	}
	third := r.current() // two were inside when the second ended
	r.leave()
	r.leave()
	r.join()
	if isClosed(third) {
		t.Fatal("the second of two is not waited for")
	}
	r.join()
	if !isClosed(third) {
		t.Fatal("both wait")
	}
	fourth := r.current()
	r.leave()
	r.leave()
	r.join()
	r.wait(fourth) // the other never comes
	if !isClosed(fourth) || r.expected != 1 {
		t.Errorf("after the tick %d are expected", r.expected)
	}
	r.wait(first) // long ago
}
