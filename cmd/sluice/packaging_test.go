package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"sluice/config"
)

// What packages the program is text that no compiler reads. These tests hold it
// against the program: its settings, its commands, its rules.

func readText(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../..", file))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// mustLoad checks that a program would start with these variables.
func mustLoad(t *testing.T, what string, environ []string) *config.Config {
	t.Helper()
	cfg, err := config.Load(config.Sources{SkipDefaultFile: true, Environ: environ})
	if err != nil {
		t.Fatalf("%s: the program does not start: %v", what, err)
	}
	return cfg
}

// instruction is a line of a Dockerfile: FROM, RUN, ...
type instruction struct{ word, rest string }

// dockerfile takes a Dockerfile apart: comments left out, lines joined.
func dockerfile(t *testing.T, text string) (all []instruction) {
	t.Helper()
	open := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if joined, more := strings.CutSuffix(line, `\`); more {
			open += joined
			continue
		}
		word, rest, _ := strings.Cut(open+line, " ")
		all = append(all, instruction{word, strings.TrimSpace(rest)})
		open = ""
	}
	if open != "" {
		t.Errorf("the Dockerfile ends within an instruction: %s", open)
	}
	return all
}

// execForm reads ["a", "b"].
func execForm(t *testing.T, text string) []string {
	t.Helper()
	var words []string
	if err := yaml.Unmarshal([]byte(text), &words); err != nil || len(words) == 0 {
		t.Fatalf("%s is no list of words: %v", text, err)
	}
	return words
}

func TestDockerfile(t *testing.T) {
	known := []string{"FROM", "WORKDIR", "COPY", "RUN", "ARG", "USER", "VOLUME", "ENV", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK", "ENTRYPOINT", "CMD"}
	stages, words := map[string]bool{}, map[string]string{} // of the last stage
	for _, i := range dockerfile(t, readText(t, "Dockerfile")) {
		if !slices.Contains(known, i.word) {
			t.Errorf("unknown instruction %s", i.word)
		}
		if i.word == "FROM" {
			words = map[string]string{}
			if _, name, ok := strings.Cut(i.rest, " AS "); ok {
				stages[name] = true
			}
			if strings.Contains(i.rest, ":latest") || !strings.Contains(i.rest, ":") {
				t.Errorf("FROM %s is not pinned", i.rest)
			}
			if version, ok := strings.CutPrefix(i.rest, "golang:"); ok && !strings.Contains(readText(t, "go.mod"), "\ngo "+version[:4]+".") {
				t.Errorf("FROM golang:%s is not the Go of go.mod", version)
			}
		}
		if from, ok := strings.CutPrefix(i.rest, "--from="); ok && !stages[strings.Fields(from)[0]] {
			t.Errorf("COPY %s: there is no such stage", i.rest)
		}
		words[i.word] += i.rest + "\n"
	}
	if user := strings.TrimSpace(words["USER"]); user == "" || user == "root" || user == "0" {
		t.Errorf("it runs as %q", user)
	}
	if got := strings.Join(execForm(t, words["ENTRYPOINT"]), " ") + " " + strings.Join(execForm(t, words["CMD"]), " "); got != "/usr/local/bin/sluice serve" {
		t.Errorf("it runs %s", got)
	}
	if _, check, _ := strings.Cut(words["HEALTHCHECK"], "CMD "); strings.Join(execForm(t, check), " ") != "/usr/local/bin/sluice health" {
		t.Errorf("its health is asked by %s", check)
	}
	cfg := mustLoad(t, "Dockerfile", append(strings.Fields(words["ENV"]), "SLUICE_ROOT_KEY="+testRoot))
	if !strings.HasSuffix(cfg.Listen, ":"+strings.TrimSpace(words["EXPOSE"])) || cfg.Data != strings.TrimSpace(words["VOLUME"]) || cfg.Redis != config.RedisEmbedded {
		t.Errorf("it listens on %s and exposes %s, keeps its data in %s and has the volume %s", cfg.Listen, words["EXPOSE"], cfg.Data, words["VOLUME"])
	}
}

// composition is what is looked at of a compose file; anything else in it is
// an error, which finds misspelt keys.
type composition struct {
	Name     string
	Services map[string]struct {
		Build, Image    string
		Restart         string
		DependsOn       map[string]struct{ Condition string } `yaml:"depends_on"`
		Environment     map[string]string
		Command         []string
		Ports, Volumes  []string
		ReadOnly        bool `yaml:"read_only"`
		Tmpfs           []string
		CapDrop         []string `yaml:"cap_drop"`
		SecurityOpt     []string `yaml:"security_opt"`
		StopGracePeriod string   `yaml:"stop_grace_period"`
		Healthcheck     struct {
			Test              []string
			Interval, Timeout string
			Retries           int
		}
	}
	Volumes map[string]any
}

func TestCompose(t *testing.T) {
	var c composition
	if err := yaml.UnmarshalWithOptions([]byte(readText(t, "deploy/compose.yaml")), &c, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	secret := regexp.MustCompile(`\$\{([A-Z_]+):\?[^}]+\}`)
	for name, s := range c.Services {
		if (s.Build == "") == (s.Image == "") || s.Image != "" && !regexp.MustCompile(`:\d+\.\d+`).MatchString(s.Image) {
			t.Errorf("%s: build %q, image %q: want one of them, pinned", name, s.Build, s.Image)
		}
		if s.Image != "" && len(s.Healthcheck.Test) == 0 {
			t.Errorf("%s has no healthcheck", name)
		}
		for other, wait := range s.DependsOn {
			if _, there := c.Services[other]; !there || wait.Condition != "service_healthy" {
				t.Errorf("%s depends on %s: %s", name, other, wait.Condition)
			}
		}
		if s.Image != "" && len(s.Ports) > 0 {
			t.Errorf("%s: ports %v are published, and sluice needs none of them", name, s.Ports)
		}
		for _, port := range s.Ports {
			if !strings.HasPrefix(port, "127.0.0.1:") {
				t.Errorf("%s: port %s is open to other machines", name, port)
			}
		}
		if len(s.Volumes) == 0 {
			t.Errorf("%s keeps nothing", name)
		}
		for _, volume := range s.Volumes {
			named, _, _ := strings.Cut(volume, ":")
			if _, there := c.Volumes[named]; !there {
				t.Errorf("%s: there is no volume %s", name, named)
			}
		}
		for variable, value := range s.Environment {
			if regexp.MustCompile(`PASSWORD|KEY|SECRET|AUTH|^SLUICE_(REDIS|DATABASE)$`).MatchString(variable) && variable != "MARIADB_RANDOM_ROOT_PASSWORD" && !secret.MatchString(value) {
				t.Errorf("%s: %s is written down", name, variable)
			}
		}
	}
	if command := strings.Join(c.Services["redis"].Command, " "); !strings.Contains(command, "--appendonly yes --appendfsync always") || !strings.Contains(command, "--maxmemory-policy noeviction") {
		t.Errorf("redis runs as %s, which loses what was accepted", command)
	} else if _, password, _ := strings.Cut(command, "--requirepass "); !secret.MatchString(password) || !strings.Contains(c.Services["sluice"].Environment["SLUICE_REDIS"], ":"+secret.FindString(password)+"@") {
		t.Errorf("redis runs as %s: want a password, that of SLUICE_REDIS", command)
	}
	environ := []string{"SLUICE_LISTEN=0.0.0.0:8019"} // of the image
	for variable, value := range c.Services["sluice"].Environment {
		environ = append(environ, variable+"="+secret.ReplaceAllString(value, testRoot))
	}
	cfg := mustLoad(t, "compose.yaml", environ)
	if cfg.RootKey == "" || !strings.HasSuffix(string(cfg.Redis), "@redis:6379") || !strings.Contains(string(cfg.Database), "@mariadb:") {
		t.Errorf("redis %s, database %s", cfg.Redis, cfg.Database)
	}
}

// What people put beside the sources by our own words, secrets in it, gets neither into
// the layers of a build, which has all of the folder, nor into a commit.
func TestSecretsStayOutOfBuildsAndCommits(t *testing.T) {
	if !strings.Contains(readText(t, "Dockerfile"), "\nCOPY . .\n") || !strings.Contains(readText(t, "deploy/compose.yaml"), "file .env beside this one") {
		t.Fatal("the Dockerfile copies other files, or secrets lie elsewhere: this test looks at nothing")
	}
	for file, wants := range map[string][]string{
		".dockerignore": {"**/.env", "**/sluice.yaml", "**/*.pem", "**/*.key", ".git", "sluice-data", "sluice-demo"},
		".gitignore":    {".env", "sluice.yaml", "*.pem", "*.key", "sluice-data/", "/sluice-demo/"},
	} {
		lines := strings.Split(readText(t, file), "\n")
		for _, want := range wants {
			if !slices.Contains(lines, want) {
				t.Errorf("%s has no line %s", file, want)
			}
		}
	}
}

func TestUnit(t *testing.T) {
	text := readText(t, "deploy/sluice.service")
	settings, section := map[string][]string{}, ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if strings.HasPrefix(line, "[") {
			section = line
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if !ok {
			t.Errorf("no setting: %s", line)
		}
		settings[section+key] = append(settings[section+key], value)
	}
	for key, want := range map[string]string{
		"[Service]ExecStart": "/usr/local/bin/sluice serve", "[Service]DynamicUser": "yes", "[Service]StateDirectory": "sluice",
		"[Service]ProtectSystem": "strict", "[Service]NoNewPrivileges": "yes", "[Service]CapabilityBoundingSet": "", "[Service]KillMode": "mixed",
		"[Service]Restart": "on-failure", "[Install]WantedBy": "multi-user.target",
	} {
		if got := settings[key]; len(got) != 1 || got[0] != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	if cfg := mustLoad(t, "sluice.service", settings["[Service]Environment"]); cfg.Data != "/var/lib/"+settings["[Service]StateDirectory"][0] {
		t.Errorf("it keeps its data in %s, which it may not write", cfg.Data)
	}

	// systemd's own judgement, where there is one. It wants the program to be
	// there, so any other stands for it.
	file := filepath.Join(t.TempDir(), "sluice.service")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(text, "/usr/local/bin/sluice", "/bin/true")), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "systemd-analyze", "verify", "--man=no", file).CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		t.Log("there is no systemd-analyze: what it would say is not known")
	} else if err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze: %v\n%s", err, out)
	}
}

// The command that supervisors run: 0 while the program lives, 1 when it does
// not, is not ready, or is not there.
func TestHealthCommand(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if r := sluiceRun(t, dir, "health", "--listen", "127.0.0.1:1"); r.code != exitFailed || !strings.Contains(r.stderr, "does it run") {
		t.Errorf("%+v", r)
	}
	s := startServe(t, dir)
	at := strings.TrimPrefix(s.url, "http://")
	for _, args := range [][]string{{"health", "--listen", at}, {"health", "--ready", "--listen", at}} {
		awaitRun(t, dir, func(r result) bool { return r.code == exitOK && strings.Contains(r.stdout, "true") }, args...)
	}
	for listen, want := range map[string]string{":8019": "localhost:8019", "0.0.0.0:1": "localhost:1", "[::]:1": "localhost:1", "10.0.0.1:1": "10.0.0.1:1", "[::1]:1": "[::1]:1", "h:1": "h:1"} {
		if got := reachable(listen); got != want {
			t.Errorf("%s is reached at %s, want %s", listen, got, want)
		}
	}
	if r := sluiceRun(t, dir, "health", "now"); r.code != exitUsage {
		t.Errorf("%+v", r)
	}
}
