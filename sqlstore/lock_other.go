//go:build !unix

package sqlstore

import "fmt"

func lockFile(path string) (unlock func() error, err error) {
	return nil, fmt.Errorf("lock %s: this system has no flock: use MariaDB or MySQL here", path)
}
