package main

import (
	"fmt"
	"slices"
	"strings"

	"sluice/lib/doctor"
)

// doctorReport is a report on its way to people or machines.
type doctorReport struct{ doctor.Report }

// show prints the report, and returns an error if it has errors.
func (r *doctorReport) show(c *call, command string) (err error) {
	if c.given.has("json") {
		err = c.printJSON(r)
	} else {
		err = r.write(c, c.given.has("all"))
	}
	if err == nil && r.Summary.Errors > 0 {
		err = fmt.Errorf("%s: errors found: %d", command, r.Summary.Errors)
	}
	return err
}

// doctorGroups are the headings, by the beginnings of the checks' names. What
// belongs to none is about what runs.
var doctorGroups = []struct{ title, prefix string }{
	{"Configuration", "config-"}, {"Redis", "redis-"}, {"Database", "database-"}, {"Disk", "disk-"}, {"Sender domains", "domain-"}, {"Running", ""},
}

func groupOf(c doctor.Check) string {
	for _, g := range doctorGroups {
		if strings.HasPrefix(string(c), g.prefix) {
			return g.title
		}
	}
	return ""
}

// write prints the report: in each group what is wrong, with its remedy, what
// could not be looked at, and in a line (with all: one each) what is in order.
func (r *doctorReport) write(c *call, all bool) error {
	var b strings.Builder
	for _, g := range doctorGroups {
		var in []doctor.Finding
		for _, f := range r.Findings {
			if groupOf(f.Check) == g.title {
				in = append(in, f)
			}
		}
		if len(in) > 0 {
			b.WriteString(g.title + "\n")
			writeGroup(&b, in, all)
		}
	}
	s := r.Summary
	fmt.Fprintf(&b, "Errors: %d, warnings: %d, in order: %d, not looked at: %d\n", s.Errors, s.Warnings, s.OK, s.Unknown)
	_, err := c.main.Stdout.Write([]byte(b.String()))
	return err
}

func writeGroup(b *strings.Builder, in []doctor.Finding, all bool) {
	for _, severity := range []doctor.Severity{doctor.SeverityError, doctor.SeverityWarning, doctor.SeverityUnknown} {
		for i, f := range in {
			if f.Severity != severity {
				continue
			}
			name := string(f.Check)
			if severity == doctor.SeverityUnknown {
				same := func(o doctor.Finding) bool {
					return o.Severity == severity && o.Where == f.Where && o.Found == f.Found
				}
				if slices.IndexFunc(in, same) < i {
					continue // told with the first of them
				}
				name = checksOf(in, same)
			}
			head := fmt.Sprintf("  %-8s ", severity)
			b.WriteString(hanging(head, safeText(name+": "+f.Where+": "+f.Found)))
			if f.Remedy != "" {
				b.WriteString(hanging("           -> ", safeText(f.Remedy)))
			}
		}
	}
	ok := func(f doctor.Finding) bool { return f.Severity == doctor.SeverityOK }
	if names := checksOf(in, ok); names != "" && !all {
		b.WriteString(hanging("  ok       ", names))
	}
	for _, f := range in {
		if all && ok(f) {
			b.WriteString(hanging("  ok       ", safeText(string(f.Check)+": "+f.Where+": "+f.Found)))
		}
	}
}

// checksOf lists the names of some findings' checks, each once.
func checksOf(in []doctor.Finding, which func(doctor.Finding) bool) string {
	var names []string
	for _, f := range in {
		if name := string(f.Check); which(f) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}
