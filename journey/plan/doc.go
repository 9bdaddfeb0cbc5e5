// Package plan is a journey as people write it, and as it is carried out. A Document
// is read from JSON or YAML and compiled into a Plan:
//
//	doc, p, err := plan.LoadYAML(text, env)
//
// The error is Problems: all that is wrong, each with its place. INTERFACES.md has the
// form of documents, schema.json the same for programs. Nothing here does I/O, but for
// the zone database and what an Env does.
//
// CONTRIBUTING.md, "Add a kind of step to journeys", says what else a kind of step needs.
package plan

//go:generate go test -run TestSchemaIsPublished -write
