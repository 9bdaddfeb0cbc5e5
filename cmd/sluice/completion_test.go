package main

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Bash completes commands, the words of one, and its flags, by what the program prints.
func TestCompletionOfBash(t *testing.T) {
	script := mustRun(t, t.TempDir(), "completion", "bash").stdout
	for _, tt := range []struct {
		line string // the last word is completed
		want []string
	}{
		{"sluice jou", []string{"journey"}},
		{"sluice key cr", []string{"create"}},
		{"sluice journey pa", []string{"pause"}},
		{"sluice journey --alo", []string{"--alone"}},
		{"sluice help mail", []string{"mailbox"}},
		{"sluice completion ", []string{"bash", "zsh", "fish", "--help", "--help-all"}},
		{"sluice xyzzy x", nil},
	} {
		words := strings.Split(tt.line, " ")
		run := exec.CommandContext(t.Context(), "bash", "-c", script+`COMP_WORDS=("$@"); COMP_CWORD=$(($#-1)); _sluice; printf '%s\n' "${COMPREPLY[@]}"`, "bash")
		run.Args = append(run.Args, words...)
		out, err := run.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		got := strings.Fields(string(out))
		slices.Sort(got)
		if want := slices.Sorted(slices.Values(tt.want)); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", tt.line, got, want)
		}
	}
}

// What is printed for the other shells names every command, its words and flags, and
// has as many quotes as it needs.
func TestCompletionOfOtherShells(t *testing.T) {
	dir := t.TempDir()
	for shell, wants := range map[string][]string{
		"zsh":  {"#compdef sluice", "'journey:write, check, publish and stop journeys'", "  key) compadd -- create list revoke --help --help-all --name"},
		"fish": {"complete -c sluice -f -n __fish_use_subcommand -a serve -d 'run the program'", "complete -c sluice -f -n '__fish_seen_subcommand_from key' -a 'create list revoke'", "-l permission -r -d"},
	} {
		out := mustRun(t, dir, "completion", shell).stdout
		for _, want := range wants {
			if !strings.Contains(out, want) {
				t.Errorf("%s: no %q", shell, want)
			}
		}
		for line := range strings.Lines(out) {
			if strings.Count(strings.ReplaceAll(line, `'\''`, ""), "'")%2 != 0 {
				t.Errorf("%s: a quote is open: %s", shell, line)
			}
		}
		for _, cmd := range commands() {
			if !strings.Contains(out, cmd.name) {
				t.Errorf("%s: %s is not there", shell, cmd.name)
			}
		}
	}
}

// The manual page has every command and setting, and no line that roff would take for a
// request of its own.
func TestMan(t *testing.T) {
	page := mustRun(t, t.TempDir(), "man").stdout
	for _, cmd := range commands() {
		if !strings.Contains(page, `.SS "`+roff(cmd.name)) {
			t.Errorf("%s has no section", cmd.name)
		}
		for _, f := range flagsOf(cmd) {
			if !strings.Contains(page, ".B "+roff("--"+f.name)) {
				t.Errorf("%s: %s is missing", cmd.name, f.name)
			}
		}
	}
	for line := range strings.Lines(page) {
		request, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		if strings.HasPrefix(request, ".") && !slices.Contains([]string{".TH", ".SH", ".SS", ".B", ".TP", ".PP", ".nf", ".fi"}, request) {
			t.Errorf("a line of text is a request: %s", line)
		}
	}
	if v, long := mustRun(t, filepath.Join(t.TempDir()), "-v").stdout, mustRun(t, t.TempDir(), "version").stdout; v != long {
		t.Errorf("-v prints %q, version %q", v, long)
	}
}
