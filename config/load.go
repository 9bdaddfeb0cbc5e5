package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"sluice/lib/nearest"
)

// Sources is where a configuration is read from. The zero value reads the
// defaults and ./sluice.yaml.
type Sources struct {
	// File is the YAML file; it must exist. Empty: the one that the variable
	// FileEnv names, or DefaultFile in Dir, if it is there and SkipDefaultFile is
	// not set.
	File            string
	Dir             string // empty: the working directory
	SkipDefaultFile bool

	// Environ is the environment in the form of os.Environ.
	Environ []string

	// Flags are the values of flags, by the name without dashes.
	Flags map[string]string

	// Defaults changes the defaults before anything is read.
	Defaults func(*Config)
}

// Load reads the sources, the weaker before the stronger, and checks what
// comes out. Errors name the place (FILE:LINE, variable, flag), the key path
// and the remedy; several are joined, one a line.
func Load(src Sources) (*Config, error) {
	c := Default()
	if src.Defaults != nil {
		src.Defaults(c)
	}
	name, body, err := readFile(src)
	if err != nil {
		return nil, err
	}
	if body != nil {
		c.origins[""] = name
		if err := c.decode(name, body); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(c.applyEnviron(src.Environ), c.applyFlags(src.Flags)); err != nil {
		return nil, err
	}
	c.finish()
	if err := c.validate(); err != nil {
		return nil, err
	}
	return c, nil
}

// readFile returns the file's name for messages and its content, nil if there
// is none to read.
func readFile(src Sources) (string, []byte, error) {
	name, named := src.File, true
	for _, pair := range src.Environ {
		if value, ok := strings.CutPrefix(pair, FileEnv+"="); ok && name == "" {
			name = value
		}
	}
	if name == "" {
		if src.SkipDefaultFile {
			return "", nil, nil
		}
		name, named = filepath.Join(src.Dir, DefaultFile), false
	}
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) && !named {
		return "", nil, nil
	}
	if err != nil {
		return "", nil, fmt.Errorf("open configuration: %w; give another with --config FILE, or print a sample: sluice config", err)
	}
	defer f.Close()
	body, err := io.ReadAll(io.LimitReader(f, MaxFileBytes+1))
	if err != nil {
		return "", nil, fmt.Errorf("read configuration %s: %w", name, err)
	}
	if len(body) > MaxFileBytes {
		return "", nil, fmt.Errorf("read configuration %s: larger than %d bytes: is it the right file?", name, MaxFileBytes)
	}
	return name, body, nil
}

// Kubernetes sets these variables in every container of a namespace, for each Service of
// it: of one that is called sluice, or sluice-redis, they begin with SLUICE_. A port alone
// has an address there; SLUICE_PORT=8019 is a mistake.
var (
	serviceVariable = regexp.MustCompile(`_SERVICE_(HOST|PORT(_.*)?)$|_PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?$`)
	servicePort     = regexp.MustCompile(`_PORT=(tcp|udp|sctp)://`)
)

// applyEnviron takes every variable that begins with SLUICE_. The prefix is ours, but for
// the variables of Services, so one that is not known is a mistake.
func (c *Config) applyEnviron(environ []string) error {
	byEnv := map[string]Setting{}
	known := []string{FileEnv}
	for _, s := range Settings() {
		byEnv[s.Env] = s
		known = append(known, s.Env)
	}
	var errs []error
	for _, pair := range environ {
		name, value, _ := strings.Cut(pair, "=")
		if !strings.HasPrefix(name, "SLUICE_") || name == FailpointEnv || name == FileEnv {
			continue
		}
		s, ok := byEnv[name]
		if !ok && (c.hookVariable(name, value) || serviceVariable.MatchString(name) || servicePort.MatchString(pair)) {
			continue
		}
		if !ok {
			hint := "; `sluice config` lists all" // some 40 would be no help
			if nearest.Word(name, known) != "" {
				hint = nearest.DidYouMean(name, known)
			}
			errs = append(errs, fmt.Errorf("environment: unknown variable %s%s", name, hint))
			continue
		}
		errs = append(errs, c.setText(s.Path, value, s.Env))
	}
	return errors.Join(errs...)
}

// applyFlags takes the values of flags.
func (c *Config) applyFlags(flags map[string]string) error {
	var errs []error
	left := len(flags)
	for _, s := range Settings() {
		if value, ok := flags[s.Flag]; ok && s.Flag != "" {
			errs = append(errs, c.setText(s.Path, value, "--"+s.Flag))
			left--
		}
	}
	if left != 0 {
		errs = append(errs, fmt.Errorf("apply flags: %d of %v are no settings", left, flags))
	}
	return errors.Join(errs...)
}
