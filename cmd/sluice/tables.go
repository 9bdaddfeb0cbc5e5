package main

import (
	"context"
	"fmt"

	"sluice"
	"sluice/config"
	"sluice/ingest"
)

// openTable looks at the table of a list, and prepares how its elements become
// rows of it.
func (e *engine) openTable(ctx context.Context, list config.List) (sluice.Table, *ingest.RowMapper, error) {
	spec := sluice.TableSpec{Table: list.Table}
	var columns []ingest.RowColumn
	for _, c := range list.Columns {
		spec.Columns = append(spec.Columns, c.Column)
		columns = append(columns, ingest.RowColumn{Column: c.Column, Field: c.Field})
		if c.Field == list.Dedupe {
			spec.Dedupe = c.Column
		}
	}
	if list.Dedupe != "" && spec.Dedupe == "" {
		return nil, nil, fmt.Errorf("dedupe: %s: no column holds that field; add it to columns", list.Dedupe)
	}
	table, err := e.store.OpenTable(ctx, spec)
	if err != nil {
		return nil, nil, err
	}
	mapper, err := ingest.NewRowMapper(columns, list.Dedupe)
	return table, mapper, err
}
