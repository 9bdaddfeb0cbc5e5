//go:build pretend_next

package sqlstore

import "os"

// pretendBreaking is an environment variable. It makes the migration of a program
// that pretends to be the next version one that older programs cannot go on after.
const pretendBreaking = "PRETEND_BREAKING"

func init() {
	pretended = func(last int) []migration {
		m := migration{version: last + 1, name: "pretended", statements: []string{"CREATE TABLE IF NOT EXISTS pretended (n INTEGER)"}, readable: last}
		if os.Getenv(pretendBreaking) != "" {
			m.readable = m.version
		}
		return []migration{m}
	}
}
