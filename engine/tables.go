package engine

import (
	"context"
	"fmt"

	"sluice/config"
	"sluice/ingest"
	"sluice/store"
)

// openTable looks at the table of a list, and prepares how its elements become
// rows of it.
func (e *core) openTable(ctx context.Context, list config.List) (store.Table, *ingest.RowMapper, error) {
	spec, columns, err := tableSpec(list)
	if err != nil {
		return nil, nil, err
	}
	table, err := e.store.OpenTable(ctx, spec)
	if err != nil {
		return nil, nil, err
	}
	mapper, err := ingest.NewRowMapper(columns, list.Dedupe)
	return table, mapper, err
}

// tableSpec says how a list fills its table.
func tableSpec(list config.List) (store.TableSpec, []ingest.RowColumn, error) {
	spec := store.TableSpec{Table: list.Table}
	var columns []ingest.RowColumn
	for _, c := range list.Columns {
		spec.Columns = append(spec.Columns, c.Column)
		columns = append(columns, ingest.RowColumn{Column: c.Column, Field: c.Field})
		if c.Field == list.Dedupe {
			spec.Dedupe = c.Column
		}
	}
	if list.Dedupe != "" && spec.Dedupe == "" {
		return spec, nil, fmt.Errorf("dedupe: %s: no column holds that field; add it to columns", list.Dedupe)
	}
	return spec, columns, nil
}

// TableSpecs are the users' tables of the configuration, as a start asks for them.
func TableSpecs(cfg *config.Config) []store.TableSpec {
	var specs []store.TableSpec
	for _, l := range cfg.Lists {
		if l.Table == "" {
			continue
		}
		if spec, _, err := tableSpec(l); err == nil { // the configuration was checked
			specs = append(specs, spec)
		}
	}
	return specs
}
