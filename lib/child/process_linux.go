package child

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// stopWithin bounds how long SIGSTOP may take to reach every thread: one that
// is inside a disk write stops after it.
const stopWithin = 10 * time.Second

func childAttributes(as *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, Credential: as}
}

// awaitStopped waits until every thread of the process is stopped: kill(2)
// returns before that.
func awaitStopped(p *Process) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	limit := time.NewTimer(stopWithin)
	defer limit.Stop()
	for !allStopped(p.pid()) {
		select {
		case <-p.exited:
			return fmt.Errorf("pause %s (pid %d): it has ended: %w", p.name, p.pid(), errOr(p.err))
		case <-limit.C:
			return fmt.Errorf("pause %s (pid %d): not every thread stopped within %s", p.name, p.pid(), stopWithin)
		case <-tick.C:
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
