package spill

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"sluice"
	"sluice/lib/faults"
	"sluice/lib/filelock"
)

// Writer appends events to files in a directory. Its methods may be called from
// several goroutines at once.
//
// The idea. A caller that comes while a write is under way leaves its record in
// the buffer. The next caller that writes takes the whole buffer, writes and
// syncs it in one go, and wakes the others. So a disk that syncs a hundred
// times a second takes in thousands of events.
//
// The invariants. Write returns nil only when the event is on disk. Behind the
// synced records the file has only unfinished ones: a failed write is cut off
// again, or its file is ended. An open file is locked, so nobody replays a file
// that still grows.
type Writer struct {
	dir        string
	deployment string
	clock      sluice.Clock
	id         string // of events that have none
	items      bool   // its records are items
	maxFile    int64
	maxDir     int64

	mu      sync.Mutex
	woken   *sync.Cond
	waiting *group // what is not being written yet; nil: nothing
	writing bool
	events  int64 // begun
	stats   Stats

	// Owned by the caller that writes; with the lock by others while none does.
	file   *os.File
	path   string // of the file: it was opened under another name
	size   int64  // what is on disk of the file
	others int64  // what the directory's other files have
}

// group is the records that are written in one go.
type group struct {
	data   []byte
	events int64
	done   bool
	err    error
}

// Stats counts what a writer has done with events.
type Stats struct {
	Kept    int64 // on disk
	Refused int64 // not: the files are full, or the disk failed
}

// Open prepares a writer to a directory, which is made with the first event.
func Open(dir string, deployment string, clock sluice.Clock) *Writer {
	w := &Writer{dir: dir, deployment: deployment, clock: clock, id: newID(), maxFile: MaxFileBytes, maxDir: MaxDirBytes}
	w.woken = sync.NewCond(&w.mu)
	return w
}

// OpenItems is Open of a writer of items, by WriteItems.
func OpenItems(dir string, deployment string, clock sluice.Clock) *Writer {
	w := Open(dir, deployment, clock)
	w.items = true
	return w
}

// Stats returns the counts.
func (w *Writer) Stats() Stats {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stats
}

// Write puts an event on disk. It must have a time; without an id it gets one,
// so that it is stored once however often its file is replayed. The error is
// ErrFull or the disk's; then the event may or may not be kept.
func (w *Writer) Write(e sluice.Event) error {
	if e.TimeMillis <= 0 || e.Name == "" || w.items {
		return fmt.Errorf("spill event %q: it has no name or no time, or the file is one of items", e.Name)
	}
	return w.add(func(n int64) []byte {
		if e.ID == "" {
			e.ID = "sp-" + w.id + "-" + strconv.FormatInt(n, 10)
		}
		return sluice.AppendEvent(nil, &e)[sluice.ItemHeaderBytes:]
	})
}

// WriteItems puts items that belong together on disk. Errors are those of Write.
func (w *Writer) WriteItems(items []byte) error {
	if len(items) == 0 || !w.items {
		return errors.New("spill items: there are none, or the file is one of events")
	}
	return w.add(func(int64) []byte { return items })
}

// add puts a record on disk, which is made with its number.
func (w *Writer) add(record func(n int64) []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waiting == nil {
		w.waiting = &group{}
	}
	g := w.waiting
	w.events++
	g.data = appendRecord(g.data, record(w.events))
	g.events++
	for !g.done {
		if w.writing {
			w.woken.Wait()
			continue
		}
		w.flush()
	}
	return g.err
}

// flush writes what waits. It is called with the lock, and lets it go meanwhile.
func (w *Writer) flush() {
	g := w.waiting
	w.waiting, w.writing = nil, true
	w.mu.Unlock()
	err := w.put(g.data)
	w.mu.Lock()
	w.writing = false
	g.done, g.err = true, err
	if err != nil {
		w.stats.Refused += g.events
	} else {
		w.stats.Kept += g.events
	}
	w.woken.Broadcast()
}

// put writes records to the file and syncs it.
func (w *Writer) put(data []byte) error {
	if w.file != nil && w.size+int64(len(data)) > w.maxFile {
		if err := w.end(); err != nil {
			return err
		}
	}
	if w.file == nil {
		if err := w.begin(); err != nil {
			return err
		}
	}
	if w.others+w.size+int64(len(data)) > w.maxDir {
		// What was there when the file was begun may have been replayed since.
		if err := w.countOthers(); err != nil {
			return err
		}
		if w.others+w.size+int64(len(data)) > w.maxDir {
			return w.full()
		}
	}
	_, err := w.file.WriteAt(data, w.size)
	if err == nil {
		err = faults.Hit("spilled")
	}
	if err == nil {
		err = w.file.Sync()
	}
	if err == nil {
		w.size += int64(len(data))
		return nil
	}
	err = fmt.Errorf("spill to %s: %w", w.path, err)
	// What was written may be there or not. After a failed sync the kernel may
	// have dropped it and say nothing the next time: the file is not used again.
	return errors.Join(err, w.file.Truncate(w.size), w.end())
}

// begin opens a new file.
func (w *Writer) begin() error {
	if err := os.MkdirAll(w.dir, 0o700); err != nil {
		return fmt.Errorf("spill: make directory: %w", err)
	}
	// A power cut must not take the directory with the files in it.
	if err := filelock.SyncDir(filepath.Dir(w.dir)); err != nil {
		return fmt.Errorf("spill: sync the directory that %s is in: %w", w.dir, err)
	}
	if err := w.countOthers(); err != nil {
		return err
	}
	if w.others >= w.maxDir {
		return w.full()
	}
	removeUnborn(w.dir)
	h := Header{ID: newID(), Deployment: w.deployment, Items: w.items, Made: w.clock.Now()}
	// It gets the name of a spill file only when it is locked and has its
	// header. So it cannot be taken for one left behind.
	final := filepath.Join(w.dir, h.ID+Suffix)
	f, err := os.OpenFile(final+unborn, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("spill: %w", err)
	}
	head, err := h.append(nil)
	if err == nil {
		err = filelock.Take(f)
	}
	if err == nil {
		_, err = f.Write(head)
	}
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = os.Rename(final+unborn, final)
	}
	if err == nil {
		err = filelock.SyncDir(w.dir)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("spill: begin %s: %w", final, err), f.Close(), os.Remove(final+unborn))
	}
	w.file, w.path, w.size = f, final, int64(len(head))
	return nil
}

// unborn is behind the name of a file until it has its header.
const unborn = ".new"

// removeUnborn removes what processes that died while they began a file have
// left. There is no event in it. One that is being begun is younger than an hour.
func removeUnborn(dir string) {
	left, _ := filepath.Glob(filepath.Join(dir, "*"+Suffix+unborn)) // the pattern is a good one
	for _, path := range left {
		info, err := os.Stat(path)
		if err == nil && time.Since(info.ModTime()) > time.Hour {
			_ = os.Remove(path) // the next file tries again
		}
	}
}

// countOthers sums up what the directory has beside the file.
func (w *Writer) countOthers() error {
	files, err := List(w.dir)
	if err != nil {
		return err
	}
	w.others = 0
	for _, f := range files {
		if w.file == nil || f.Path != w.path {
			w.others += f.Bytes
		}
	}
	return nil
}

func (w *Writer) full() error {
	return fmt.Errorf("spill to %s: %w: %d MB wait there; bring Redis back, or run `sluice spill replay`", w.dir, ErrFull, w.maxDir>>20)
}

// end closes the file, so that another process may replay it.
func (w *Writer) end() error {
	f := w.file
	w.file, w.size = nil, 0
	if f == nil {
		return nil
	}
	return f.Close()
}

// Release ends the file that is being written, if there is one, so that it can
// be replayed. The next event begins another.
func (w *Writer) Release() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.writing {
		w.woken.Wait()
	}
	return w.end()
}
