package servers

import (
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// account is the user that a server runs as, when that is not ours.
type account struct {
	name string
	syscall.Credential
}

// credential returns whom the server runs as; nil: ourselves.
func (a *account) credential() *syscall.Credential {
	if a == nil {
		return nil
	}
	return &a.Credential
}

// databaseAccount returns the account that a database server is to run as: it
// refuses to run as root. Nil if we are not root.
func databaseAccount(name, remedy string) (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		return nil, fmt.Errorf("find the user %s, as whom the server runs when we are root: %w: %s", name, err, remedy)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("read the id of user %s: %w", name, err)
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("read the group of user %s: %w", name, err)
	}
	return &account{u.Username, syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
}

// own gives a directory and all in it to the account.
func (a *account) own(dir string) error {
	if a == nil {
		return nil
	}
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, int(a.Uid), int(a.Gid))
	})
	if err != nil {
		return fmt.Errorf("give %s to user %s: %w", dir, a.name, err)
	}
	return nil
}

// letThrough lets the account pass the directories above dir. Those of tests
// (testing.T.TempDir) belong to root with mode 0700; below the temporary
// directory "pass, but not list" is added to them. Anywhere else it is the
// operator's decision, and an error.
func (a *account) letThrough(dir string) error {
	if a == nil {
		return nil
	}
	temp, err := filepath.Abs(os.TempDir())
	if err != nil {
		return err
	}
	for up := filepath.Dir(dir); ; up = filepath.Dir(up) {
		info, err := os.Stat(up)
		if err != nil {
			return err
		}
		if mode := info.Mode().Perm(); mode&0o001 == 0 {
			in, err := filepath.Rel(temp, up)
			if err != nil || in == "." || !filepath.IsLocal(in) {
				return fmt.Errorf("user %s cannot reach %s through %s (mode %o): use another directory, or chmod o+x it", a.name, dir, up, mode)
			}
			if err := os.Chmod(up, mode|0o001); err != nil {
				return err
			}
		}
		if up == filepath.Dir(up) {
			return nil
		}
	}
}

// give makes directories that the account owns and reaches; "" is none.
func (a *account) give(dirs ...string) error {
	for _, dir := range dirs {
		if dir == "" {
			continue
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		if err := a.letThrough(dir); err != nil {
			return err
		}
		if err := a.own(dir); err != nil {
			return err
		}
	}
	return nil
}
