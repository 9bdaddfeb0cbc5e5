package servers

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"sluice/lib/child"
)

const sesAnswerWithin = busyWithin // they load a lot of Python or JavaScript

// SES is a private server that stands in for Amazon SES, in the memory of a
// process. Neither checks signatures.
type SES struct {
	child.Runner
	URL string
}

// StartSESLocal starts aws-ses-v2-local, which takes any mail and shows what it
// has got: GET /store. scripts is the directory of that name in the tree, dir
// one for its log. ctx bounds the start, not its life.
func StartSESLocal(ctx context.Context, scripts, dir string) (*SES, error) {
	tools, err := Tools(scripts, "node", "npm-test/package-lock.json")
	if err != nil {
		return nil, fmt.Errorf("start aws-ses-v2-local: %w", err)
	}
	node, err := child.Find("run `make deps-test`, which installs it", "node")
	if err != nil {
		return nil, fmt.Errorf("start aws-ses-v2-local: %w", err)
	}
	program := filepath.Join(tools, "node_modules", "aws-ses-v2-local", "dist", "cli.js")
	return startSES(ctx, "aws-ses-v2-local", dir, "/health-check", func(port string) child.Spec {
		return child.Spec{Program: node, Args: []string{program, "--host", "127.0.0.1", "--port", port}}
	})
}

// StartMoto starts moto, which takes mail of identities that were made before,
// and refuses all other.
func StartMoto(ctx context.Context, scripts, dir string) (*SES, error) {
	tools, err := Tools(scripts, "python", "requirements-test.txt")
	if err != nil {
		return nil, fmt.Errorf("start moto: %w", err)
	}
	return startSES(ctx, "moto", dir, "/moto-api/", func(port string) child.Spec {
		return child.Spec{Program: filepath.Join(tools, "bin", "moto_server"), Args: []string{"-H", "127.0.0.1", "-p", port}}
	})
}

// startSES tries other ports while the one it found free is taken meanwhile.
func startSES(ctx context.Context, name, dir, health string, with func(port string) child.Spec) (*SES, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, sesAnswerWithin, fmt.Errorf("no answer within %s", sesAnswerWithin))
	defer cancel()
	for attempt := 1; ; attempt++ {
		port, err := freePort()
		if err != nil {
			return nil, fmt.Errorf("start %s: %w", name, err)
		}
		s := with(strconv.Itoa(port))
		s.Dir, s.LogPath = dir, filepath.Join(dir, name+".log")
		p, err := child.Start(name, s)
		if err != nil {
			return nil, err
		}
		address := "http://127.0.0.1:" + strconv.Itoa(port)
		err = p.Await(ctx, s.LogPath, func() (bool, error) { return answers(ctx, address+health) })
		if err == nil {
			server := &SES{URL: address}
			server.Set(p)
			return server, nil
		}
		if err = errors.Join(err, p.Kill()); attempt == portAttempts || !portTaken(err) {
			return nil, err
		}
	}
}

// answers reports whether a GET is answered 200.
func answers(ctx context.Context, address string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return false, err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return false, err
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode == http.StatusOK, err
}

// Tools returns the directory of the tests' tools of a kind, python or node.
// install-deps.sh has made it from a list below scripts; its name is a hash of
// the list.
func Tools(scripts, kind, list string) (string, error) {
	pins, err := os.ReadFile(filepath.Join(scripts, filepath.FromSlash(list)))
	if err != nil {
		return "", fmt.Errorf("find the tests' tools of %s: %w", kind, err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the tests' tools of %s: %w", kind, err)
	}
	hash := sha256.Sum256(pins)
	dir := filepath.Join(cache, "sluice", kind+"-"+hex.EncodeToString(hash[:6]))
	if _, err := os.Stat(filepath.Join(dir, "complete")); err != nil {
		return "", fmt.Errorf("the tests' tools of %s are missing: run `make deps-test`, which installs them (%w)", kind, err)
	}
	return dir, nil
}
