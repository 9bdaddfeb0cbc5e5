package servers

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
)

// templateHome has, below the user's cache, data directories as the installers of
// databases left them. To copy one takes a quarter of the processor time of an
// installer, and the tests start a hundred servers.
const templateHome = "sluice/templates"

// templateOf returns where the data directory is kept that a program makes with some
// arguments. Another version of the program has another.
func templateOf(program string, args []string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	at, err := filepath.EvalSymlinks(program)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(at)
	if err != nil {
		return "", err
	}
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %d %d %q", at, info.Size(), info.ModTime().UnixNano(), args)
	return filepath.Join(cache, filepath.FromSlash(templateHome), fmt.Sprintf("%s-%x", filepath.Base(at), h.Sum64())), nil
}

// filled makes the data directory dir of what a template has. Without one it has
// install fill the directory, and keeps that, but for the entries that are named, for
// others.
func filled(template, dir string, install func() error, but ...string) error {
	if _, err := os.Stat(template); err == nil {
		if err := os.CopyFS(dir, os.DirFS(template)); err != nil {
			return fmt.Errorf("copy a data directory that was made before: %w; remove %s, and it is made anew", err, template)
		}
		return nil
	}
	if err := install(); err != nil {
		return err
	}
	if err := keepTemplate(dir, template, but); err != nil {
		return fmt.Errorf("keep a data directory for others: %w", err)
	}
	return nil
}

// keepTemplate makes a template of a directory. It appears whole; if several
// processes make one, that of the first is kept.
func keepTemplate(dir, template string, but []string) error {
	home := filepath.Dir(template)
	if err := os.MkdirAll(home, 0o700); err != nil {
		return err
	}
	fresh, err := os.MkdirTemp(home, "new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(fresh)
	if err := os.CopyFS(fresh, os.DirFS(dir)); err != nil {
		return err
	}
	for _, name := range but {
		if err := os.RemoveAll(filepath.Join(fresh, name)); err != nil {
			return err
		}
	}
	if err := os.Rename(fresh, template); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}
