package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"google.golang.org/api/option"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
)

// sampleJSON is what was looked at in a table before its columns get types.
type sampleJSON struct {
	Table    string        `json:"table"`
	Places   int           `json:"places"`
	Rows     int           `json:"rows"`
	Values   int           `json:"values"`
	Findings []sampledJSON `json:"findings"`
}

// sampledJSON is a column with values that the new schema does not allow.
type sampledJSON struct {
	Column string `json:"column"`
	// Expected type; absent: the column is undeclared.
	Type   percolator.Type `json:"type,omitempty"`
	Values int             `json:"values"`
	Rows   []string        `json:"rows"` // some of them
}

func newSampleJSON(s admin.ValueSample) sampleJSON {
	return sampleJSON{s.Table, s.Places, s.Rows, s.Values, arrayOf(s.Findings, func(f admin.SampleFinding) sampledJSON {
		return sampledJSON{shown(f.Column), f.Type, f.Values, arrayOf(f.Rows, shown)}
	})}
}

// sampleValues looks at values to which a plan gives types, and prints what it has seen. The error
// is ErrSchemaMismatch if some are of others.
func sampleValues(ctx context.Context, w io.Writer, in instanceName, plan admin.SchemaPlan, s *percolator.Schema, opts ...option.ClientOption) ([]sampleJSON, error) {
	samples, err := admin.SampleValues(ctx, in.project, in.instance, in.appProfile, plan, s, opts...)
	if status.Code(err) == codes.PermissionDenied {
		return nil, fmt.Errorf("sampling values before they get types: %w; sample with --dry-run as an identity that may read the tables, then use --no-sample", err)
	}
	if err != nil {
		return nil, fmt.Errorf("sampling values before they get types (--no-sample leaves that out): %w", err)
	}
	wrong := 0
	for _, table := range samples {
		_, _ = fmt.Fprintf(w, "looked at %d values in %d rows, in %d places of table %s\n", table.Values, table.Rows, table.Places, table.Table)
		for _, found := range table.Findings {
			wrong++
			what := "of another type than " + string(found.Type)
			if found.Type == "" {
				what = "in a column that is not declared"
			}
			_, _ = fmt.Fprintf(w, "  column %s: %d of them %s, in rows like %s\n", shown(found.Column), found.Values, what, strings.Join(arrayOf(found.Rows, shown), ", "))
		}
	}
	if wrong > 0 {
		err = fmt.Errorf("%w: columns hold what the new schema does not allow: rewrite or declare it; percolator schema apply --no-sample leaves it as it is, readable as bytes",
			percolator.ErrSchemaMismatch)
	}
	return arrayOf(samples, newSampleJSON), err
}
