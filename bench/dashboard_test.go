package bench

import (
	"fmt"
	"testing"
)

// What grows is told by the last two quarters: what is made once at first does not count.
func TestGrowth(t *testing.T) {
	r := newReport("test")
	for _, v := range []float64{1, 2, 3, 4, 4, 4, 4, 5} {
		r.add("heap", "the heap", "MB", v)
	}
	if got := r.growth("heap"); got != 4.5/4 {
		t.Errorf("it has grown by %v", got)
	}
}

// The time of a frame is that of the page's own tasks from its begin on.
func TestFramesOfATrace(t *testing.T) {
	thread := func(pid int, name string) traced {
		x := traced{Name: "thread_name", PID: pid, TID: 1}
		x.Args.Name = name
		return x
	}
	all := []traced{
		{Name: "RunTask", TS: 5, Dur: 9e6, PID: 1, TID: 1}, // before the first frame
		{Name: "RunTask", TS: 31, Dur: 2e6, PID: 1, TID: 1}, {Name: "BeginMainThreadFrame", TS: 10, PID: 1, TID: 1}, {Name: "RunTask", TS: 11, Dur: 1e6, PID: 1, TID: 1},
		{Name: "Layout", TS: 12, Dur: 1e6, PID: 1, TID: 1}, {Name: "RunTask", TS: 13, Dur: 1e6, PID: 1, TID: 2}, {Name: "RunTask", TS: 14, Dur: 3e6, PID: 1, TID: 1},
		{Name: "BeginMainThreadFrame", TS: 30, PID: 1, TID: 1}, {Name: "BeginMainThreadFrame", TS: 20, PID: 2, TID: 1}, {Name: "RunTask", TS: 21, Dur: 1e6, PID: 2, TID: 1},
		{Name: "RunTask", TS: 22, Dur: 90e6, PID: 3, TID: 1},
		thread(2, "CrRendererMain"), thread(1, "CrRendererMain"), thread(3, "CrBrowserMain"),
	}
	if got := fmt.Sprint(framesOf(all)); got != "[{4 1} {2 1}]" {
		t.Errorf("got %s", got)
	}
}
