package plan

import (
	_ "embed" // of the schema
)

// schema is made from the types of Document: go generate ./journey/plan.
//
//go:embed schema.json
var schema []byte

// Schema returns the JSON Schema of documents (draft 2020-12), for editors and for
// programs that write journeys. What it takes may still be refused: it does not follow
// ways from step to step.
func Schema() []byte { return schema }
