package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
)

// sameSettings are the settings in which runs of one record must agree.
var sameSettings = []string{"users", "partitions", "quick"}

// goOn goes on with the record of --merge, if there is one. After an error it stays as it
// is.
func (r *run) goOn() error {
	if r.merge == "" {
		return nil
	}
	err := r.report.readRecord(r.merge)
	if err != nil {
		r.merge = ""
	}
	return err
}

// readRecord takes over the rows of a record, if there is one: this run goes on with it.
// What it measures anew stands for what was there. A record of another machine, program
// or size is refused: its figures and these are no whole.
func (r *report) readRecord(file string) error {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the record to go on with: %w", err)
	}
	var old report
	if err := json.Unmarshal(text, &old); err != nil {
		return fmt.Errorf("read the record to go on with: %s: %w", file, err)
	}
	if err := r.agrees(&old); err != nil {
		return fmt.Errorf("go on with the record %s: %w; name another file, or remove it", file, err)
	}
	r.Rows, r.kept = old.Rows, make(map[string]bool)
	for _, x := range old.Rows {
		r.kept[x.ID] = true
	}
	for name, value := range old.Versions {
		if _, ok := r.Versions[name]; !ok {
			r.Versions[name] = value
		}
	}
	for name, value := range old.Settings {
		if _, ok := r.Settings[name]; !ok {
			r.Settings[name] = value
		}
	}
	return nil
}

// agrees returns an error if a record is of something else.
func (r *report) agrees(old *report) error {
	if old.Bench != r.Bench {
		return fmt.Errorf("it is of the bench %q", old.Bench)
	}
	if old.Machine != r.Machine {
		return fmt.Errorf("it is of another machine: %+v, this is %+v", old.Machine, r.Machine)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Versions)) {
		if was, ok := old.Versions[name]; ok && was != r.Versions[name] {
			return fmt.Errorf("it is of %s %s, this is %s", name, was, r.Versions[name])
		}
	}
	for _, name := range sameSettings {
		if was, now := old.Settings[name], r.Settings[name]; was != now {
			return fmt.Errorf("its %s are %q, now they are %q", name, was, now)
		}
	}
	return nil
}
