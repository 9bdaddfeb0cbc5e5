package child

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Server is what servers with files share: a directory with a lock, a socket, and
// the calls on them. A kind of server embeds it.
type Server struct {
	Runner

	// Credential is whom the server runs as; nil: ourselves.
	Credential *syscall.Credential

	// SocketHome is the private directory of the socket, removed with the server;
	// empty: the socket lies in the server's directory.
	SocketHome string

	name     string        // for messages
	dir      string        // of its files
	patience time.Duration // with its end, before it is killed
}

// Settle gives the server its directory; option names it to a caller that has given
// none. The server is killed if it does not end within patience.
func (s *Server) Settle(name, option, dir string, patience time.Duration) (err error) {
	if dir == "" {
		return fmt.Errorf("start %s: %s is empty: name a directory for its data", name, option)
	}
	s.name, s.patience = name, patience
	if s.dir, err = filepath.Abs(dir); err != nil {
		return fmt.Errorf("start %s in %s: %w", name, dir, err)
	}
	return nil
}

// Run starts the process under the directory's lock, and returns when it is ready.
func (s *Server) Run(ctx context.Context, spec Spec, prepare func(lock *os.File) error, ready func(p *Process) error) error {
	lock, err := lockDir(ctx, s.dir)
	if err != nil {
		return fmt.Errorf("start %s in %s: %w", s.name, s.dir, err)
	}
	defer lock.Close() // the server holds it now, or no process
	if err := prepare(lock); err != nil {
		return fmt.Errorf("start %s in %s: %w", s.name, s.dir, err)
	}
	p, err := Start(s.name, s.Complete(spec, lock))
	if err != nil {
		return err
	}
	if err := ready(p); err != nil {
		return errors.Join(err, p.Kill())
	}
	s.Set(p)
	return nil
}

// Complete adds to a spec what is the same for all processes on the directory.
func (s *Server) Complete(spec Spec, lock *os.File) Spec {
	spec.Dir, spec.LogPath, spec.Credential, spec.held = s.dir, s.LogPath(), s.Credential, lock
	return spec
}

// DialSocket connects for one look at a server, which ends within some time.
func DialSocket(socket string, within time.Duration) (net.Conn, error) {
	conn, err := net.DialTimeout("unix", socket, within)
	if err != nil {
		return nil, err
	}
	if err := conn.SetDeadline(time.Now().Add(within)); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// LogPath returns the file with what the server prints.
func (s *Server) LogPath() string { return filepath.Join(s.dir, s.name+".log") }

// Dir returns the directory, which the server can read.
func (s *Server) Dir() string { return s.dir }

// Stop asks the server to end, and kills it if it takes longer than ctx or its
// patience, which is then the error. It returns when the server is gone. Stopping
// one that is gone is no error.
func (s *Server) Stop(ctx context.Context) error {
	err := s.Current().Stop(ctx, s.patience)
	s.removeSocketHome()
	return err
}

func (s *Server) removeSocketHome() {
	if s.SocketHome != "" {
		os.RemoveAll(s.SocketHome)
	}
}
