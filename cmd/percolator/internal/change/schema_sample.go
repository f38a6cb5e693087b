package change

import (
	"context"
	"fmt"
	"io"
	"strings"

	"google.golang.org/api/option"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/internal/ordered"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
)

// SampleJSON is what was looked at in a table before its columns get types.
type SampleJSON struct {
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

func newSampleJSON(s admin.ValueSample) SampleJSON {
	return SampleJSON{s.Table, s.Places, s.Rows, s.Values, ordered.Map(s.Findings, func(f admin.SampleFinding) sampledJSON {
		return sampledJSON{cli.Shown(f.Column), f.Type, f.Values, ordered.Map(f.Rows, cli.Shown)}
	})}
}

// SampleValues looks at values to which a plan gives types, and prints what it has seen. The error
// is ErrSchemaMismatch if some are of others.
func SampleValues(ctx context.Context, w io.Writer, in cli.InstanceName, plan model.SchemaPlan, s *percolator.Schema, opts ...option.ClientOption) ([]SampleJSON, error) {
	samples, err := admin.Instance{Project: in.Project, ID: in.Instance, AppProfile: in.AppProfile, Options: opts}.SampleValues(ctx, plan, s)
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
			_, _ = fmt.Fprintf(w, "  column %s: %d of them %s, in rows like %s\n", cli.Shown(found.Column), found.Values, what, strings.Join(ordered.Map(found.Rows, cli.Shown), ", "))
		}
	}
	if wrong > 0 {
		err = fmt.Errorf("%w: columns hold values that the new schema does not allow: rewrite or declare them; percolator schema apply --no-sample leaves them as they are, readable as bytes",
			percolator.ErrSchemaMismatch)
	}
	return ordered.Map(samples, newSampleJSON), err
}
