package servers

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"sluice/lib/child"
)

// stopWithin bounds how long SIGSTOP may take to reach every thread: one that
// is inside a disk write stops after it.
const stopWithin = 10 * time.Second

// pause stops a process, and returns when every thread of it is stopped: kill(2)
// returns before that.
func pause(p *child.Process) error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	tick := time.NewTicker(look)
	defer tick.Stop()
	for limit := time.Now().Add(stopWithin); !allStopped(p.Pid()); <-tick.C {
		switch {
		case p.Gone():
			return fmt.Errorf("pause process %d: it has ended", p.Pid())
		case time.Now().After(limit):
			return fmt.Errorf("pause process %d: not every thread stopped within %s", p.Pid(), stopWithin)
		}
	}
	return nil
}

func allStopped(pid int) bool {
	stats, err := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "task", "*", "stat"))
	if err != nil || len(stats) == 0 {
		return false
	}
	for _, path := range stats {
		b, err := os.ReadFile(path)
		if err != nil {
			continue // the thread has ended since
		}
		// proc(5): "pid (name) state ..."; the name may hold anything.
		i := bytes.LastIndexByte(b, ')')
		if i < 0 || i+2 >= len(b) || b[i+2] != 'T' {
			return false
		}
	}
	return true
}
