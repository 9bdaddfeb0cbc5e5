package web_test

import (
	"io/fs"
	"os"
	"testing"

	"sluice/web"
)

// Whatever the build has made is part of the program, however it is called.
func TestDistHasAllFiles(t *testing.T) {
	files := 0
	err := fs.WalkDir(os.DirFS("."), "dist", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files++
		_, err = fs.Stat(web.Dist, path)
		return err
	})
	if err != nil || files < 4 {
		t.Errorf("of %d files: %v", files, err)
	}
}
