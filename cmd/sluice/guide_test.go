package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sluice/config"
)

var (
	inCode       = regexp.MustCompile("`([^`\n]+)`")
	linkTo       = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	headingLine  = regexp.MustCompile(`(?m)^#+ (.+)$`)
	notInAnAncor = regexp.MustCompile(`[^a-z0-9 _-]`)
)

// anchors are the links that a page's headings make.
func anchors(page string) (all []string) {
	for _, m := range headingLine.FindAllStringSubmatch(page, -1) {
		text := notInAnAncor.ReplaceAllString(strings.ToLower(m[1]), "")
		all = append(all, strings.ReplaceAll(text, " ", "-"))
	}
	return all
}

// What the guides name is there: commands and their words, settings, files and
// headings.
func TestGuides(t *testing.T) {
	root := filepath.Join("..", "..")
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil || len(pages) < 3 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	decisions, err := filepath.Glob(filepath.Join(root, "docs", "decisions", "*.md"))
	if err != nil || len(decisions) < 3 {
		t.Fatalf("%d decisions, %v", len(decisions), err)
	}
	pages = append(pages, decisions...)
	for _, page := range []string{"README.md", "GLOSSARY.md", "ARCHITECTURE.md", "INTERFACES.md", "CONTRIBUTING.md", "CHANGELOG.md", "store/sqlstore/TABLES.md"} {
		pages = append(pages, filepath.Join(root, page))
	}
	var settings strings.Builder
	if err := config.WriteSample(&settings); err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		content, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		text := string(content)
		for _, m := range regexp.MustCompile("(?m)(?:`|^    (?:\\./bin/)?|\\$\\(|&& )sluice ([a-z]+)").FindAllStringSubmatch(text, -1) {
			if !slices.ContainsFunc(commands(), func(c command) bool { return c.name == m[1] }) {
				t.Errorf("%s: there is no command %q", page, m[1])
			}
		}
		for _, m := range linkTo.FindAllStringSubmatch(text, -1) {
			to, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(to, "://") {
				continue
			}
			target := page
			if to != "" {
				target = filepath.Join(filepath.Dir(page), to)
			}
			info, err := os.Stat(target)
			if err != nil {
				t.Errorf("%s: %v", page, err)
				continue
			}
			if anchor == "" || info.IsDir() {
				continue
			}
			there, err := os.ReadFile(target)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Contains(anchors(string(there)), anchor) {
				t.Errorf("%s: %s has no heading %q", page, target, anchor)
			}
		}
	}
	guide, err := os.ReadFile(filepath.Join(root, "docs", "operate.md"))
	if err != nil {
		t.Fatal(err)
	}
	setting := regexp.MustCompile(`^[a-z]+(_[a-z]+)+(\.[a-z_]+)?$`)
	named := 0
	for _, m := range inCode.FindAllStringSubmatch(string(guide), -1) {
		if !setting.MatchString(m[1]) || slices.Contains([]string{"local_infile", "series_changes", "user_id", "external_id"}, m[1]) || strings.HasPrefix(m[1], "sluice_") {
			continue
		}
		named++
		for part := range strings.SplitSeq(m[1], ".") {
			if !strings.Contains(settings.String(), part+":") {
				t.Errorf("operate.md: there is no setting %q", m[1])
			}
		}
	}
	if named < 5 {
		t.Errorf("only %d settings were found in the guide: this test shows little", named)
	}
}
