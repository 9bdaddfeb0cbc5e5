package main

import (
	"context"
	"fmt"
	"io"
	"strings"
)

const completionLong = `
Prints what a shell needs to complete commands, their words and flags with the Tab key.

    bash    . <(sluice completion bash)                in ~/.bashrc
    zsh     . <(sluice completion zsh)                 in ~/.zshrc, behind compinit
    fish    sluice completion fish | source            in ~/.config/fish/config.fish
`

func runCompletion(_ context.Context, c *call) error {
	shell, rest, err := c.word("bash", "zsh", "fish")
	if err != nil {
		return err
	}
	if len(rest) > 0 {
		return usagef("completion %s: takes no arguments, but %q is one", shell, rest[0])
	}
	var text strings.Builder
	map[string]func(io.Writer, []command){"bash": completeBash, "zsh": completeZsh, "fish": completeFish}[shell](&text, commands())
	c.print("%s", strings.TrimSuffix(text.String(), "\n"))
	return nil
}

// wordsOf returns the words that may stand behind a command: those of its table row,
// or the small ones of its arguments.
func wordsOf(cmd command) []string {
	if len(cmd.words) > 0 {
		return cmd.words
	}
	if cmd.name == "help" {
		var names []string
		for _, other := range commands() {
			names = append(names, other.name)
		}
		return names
	}
	var words []string
	for choice := range strings.SplitSeq(strings.Trim(cmd.args, "[]"), "|") {
		word, _, _ := strings.Cut(strings.TrimSpace(choice), " ")
		if word != "" && strings.ToLower(word) == word && !strings.HasPrefix(word, "-") {
			words = append(words, word)
		}
	}
	return words
}

// completeBash writes a function for bash. Behind the words of a command it completes
// names of files.
func completeBash(w io.Writer, all []command) {
	fmt.Fprint(w, "_sluice() {\n  local words=''\n  if [ \"$COMP_CWORD\" -eq 1 ]; then\n    words='")
	for _, cmd := range all {
		fmt.Fprint(w, cmd.name+" ")
	}
	fmt.Fprint(w, "'\n  else\n    case \"${COMP_WORDS[1]}\" in\n")
	for _, cmd := range all {
		fmt.Fprintf(w, "    %s) words='%s' ;;\n", cmd.name, strings.Join(append(wordsOf(cmd), dashed(cmd)...), " "))
	}
	fmt.Fprint(w, "    esac\n  fi\n  COMPREPLY=($(compgen -W \"$words\" -- \"${COMP_WORDS[COMP_CWORD]}\"))\n}\ncomplete -o default -F _sluice sluice\n")
}

// completeZsh writes a function for zsh, for a file in fpath or to be read.
func completeZsh(w io.Writer, all []command) {
	fmt.Fprint(w, "#compdef sluice\n_sluice() {\n  if (( CURRENT == 2 )); then\n    local -a all=(\n")
	for _, cmd := range all {
		fmt.Fprintf(w, "      %s\n", quoted(cmd.name+":"+cmd.line))
	}
	fmt.Fprint(w, "    )\n    _describe command all\n    return\n  fi\n  case $words[2] in\n")
	for _, cmd := range all {
		fmt.Fprintf(w, "  %s) compadd -- %s ;;\n", cmd.name, strings.Join(append(wordsOf(cmd), dashed(cmd)...), " "))
	}
	fmt.Fprint(w, "  esac\n  _files\n}\ncompdef _sluice sluice\n")
}

// completeFish writes lines for fish, which shows what each word does.
func completeFish(w io.Writer, all []command) {
	for _, cmd := range all {
		fmt.Fprintf(w, "complete -c sluice -f -n __fish_use_subcommand -a %s -d %s\n", cmd.name, quoted(cmd.line))
		here := quoted("__fish_seen_subcommand_from " + cmd.name)
		if words := wordsOf(cmd); len(words) > 0 && cmd.name != "help" {
			noFiles := " -f"
			if strings.Contains(cmd.args, "FILE") || strings.Contains(cmd.args, "DIR") {
				noFiles = ""
			}
			fmt.Fprintf(w, "complete -c sluice%s -n %s -a %s\n", noFiles, here, quoted(strings.Join(words, " ")))
		}
		for _, f := range flagsOf(cmd) {
			takes := ""
			if f.value != "" {
				takes = " -r"
			}
			fmt.Fprintf(w, "complete -c sluice -n %s -l %s%s -d %s\n", here, f.name, takes, quoted(f.help))
		}
	}
}

// dashed returns the flags of a command as they are typed.
func dashed(cmd command) []string {
	names := []string{"--help", "--help-all"}
	for _, f := range flagsOf(cmd) {
		names = append(names, "--"+f.name)
	}
	return names
}

// quoted quotes a text for the three shells: a quote in it is written outside of quotes.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

const manLong = `
Prints the manual page of all commands, as roff: sluice man > /usr/local/share/man/man1/sluice.1
`

func runMan(_ context.Context, c *call) error {
	w := &strings.Builder{}
	fmt.Fprintf(w, ".TH SLUICE 1 \"\" \"sluice %s\"\n.SH NAME\nsluice \\- takes in users, events and mail, and sends the mail\n.SH SYNOPSIS\n.B sluice\nCOMMAND [FLAGS]\n.SH COMMANDS\n", roff(version))
	for _, cmd := range commands() {
		fmt.Fprintf(w, ".SS \"%s\"\n%s.\n.PP\n.nf\n%s\n.fi\n", roff(strings.TrimSpace(cmd.name+" "+cmd.args)), roff(cmd.line), roff(strings.TrimSpace(cmd.long)))
		for _, f := range cmd.flags {
			fmt.Fprintf(w, ".TP\n.B %s\n%s\n", roff(strings.TrimSpace("--"+f.name+" "+f.value)), roff(f.help))
		}
	}
	fmt.Fprint(w, ".SH CONFIGURATION\nMost commands read it: \\-\\-config FILE, without it that of SLUICE_CONFIG, or ./sluice.yaml.\nEach setting is a flag, too.\n")
	serve, err := findCommand("serve")
	if err != nil {
		return err
	}
	for _, f := range flagsOf(serve)[len(serve.flags):] {
		fmt.Fprintf(w, ".TP\n.B %s\n%s\n", roff(strings.TrimSpace("--"+f.name+" "+f.value)), roff(f.help))
	}
	fmt.Fprint(w, ".SH EXIT STATUS\n0 done, 1 failed, 2 the command line is wrong.")
	c.print("%s", w)
	return nil
}

// roff writes text so that roff reads it as text: a dash is no hyphen, and no line is a
// request.
func roff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`, `"`, `\(dq`).Replace(s)
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
