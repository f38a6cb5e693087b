package change

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/internal/text"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/schemafile"
	"github.com/gopercolator/percolator/tso"
	"github.com/gopercolator/percolator/tso/spannerstore"
)

// storedJSON is what "schema show" prints for programs. Schema has the form of a schema file.
type storedJSON struct {
	Version uint64          `json:"version"`
	Schema  json.RawMessage `json:"schema"`
	Indexes []indexJSON     `json:"indexes"`
	Journal string          `json:"journal"` // building, ready or disabled
}

type indexJSON struct {
	Table string        `json:"table"`
	Name  string        `json:"name"`
	State string        `json:"state"`           // building or ready
	Since tso.Timestamp `json:"since,omitempty"` // it serves snapshots from here on; absent: all
}

// The states of an index and of the journal.
const (
	stateBuilding = "building"
	stateReady    = "ready"
	stateDisabled = "disabled"
)

func NewSchemaShow() *cobra.Command {
	var f schemaFlags
	var ddl bool
	var name string
	cmd := &cobra.Command{
		Use: "show",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if ddl {
				_, err := fmt.Fprintln(cmd.OutOrStdout(), strings.Join(spannerstore.Statements(), ";\n\n")+";")
				return err
			}
			return f.with(cmd, func(ctx context.Context) error {
				stored, err := storedSchema(ctx, f.InstanceName)
				if err != nil {
					return err
				}
				if cmd.Flags().Changed("name") {
					if stored.Schema, err = ofName(stored.Schema, name); err != nil {
						return err
					}
				}
				out, err := newStoredJSON(stored)
				if err != nil {
					return err
				}
				text, err := schemafile.YAML(stored.Schema)
				if err != nil {
					return err
				}
				return f.output.Emit(cmd.OutOrStdout(), out, func(w io.Writer) { out.print(w, stored.Schema, text) })
			})
		},
	}
	f.add(cmd)
	cmd.Flags().Lookup("output").Usage = strings.Replace(cmd.Flags().Lookup("output").Usage, "table", "table (YAML)", 1)
	cmd.Flags().StringVar(&name, "name", "", "only the schema with this name")
	cmd.Flags().BoolVar(&ddl, "spanner-ddl", false, "print the DDL of the oracle's tables in Spanner")
	return cmd
}

// ofName is the part of a stored schema that has a name, as the file has it that its team applies.
func ofName(stored *percolator.Schema, name string) (*percolator.Schema, error) {
	part := *stored
	part.Name, part.Tables = name, nil
	var names []string
	for _, t := range stored.Tables {
		names = append(names, t.Schema)
		if t.Schema == name {
			t.Schema = ""
			part.Tables = append(part.Tables, t)
		}
	}
	if len(part.Tables) == 0 {
		return nil, fmt.Errorf("schema %q: %w%s", name, percolator.ErrNotFound, text.DidYouMean(name, names...))
	}
	return &part, nil
}

// storedSchema is ErrNotFound where there is none.
func storedSchema(ctx context.Context, f cli.InstanceName) (model.StoredSchema, error) {
	stored, err := f.ReadSchema(ctx)
	if status.Code(err) == codes.NotFound || err == nil && stored.Schema == nil {
		return stored, fmt.Errorf("schema of %s/%s: %w (percolator schema apply stores one)", f.Project, f.Instance, percolator.ErrNotFound)
	}
	return stored, err
}

func newStoredJSON(stored model.StoredSchema) (storedJSON, error) {
	schema, err := schemafile.JSON(stored.Schema)
	out := storedJSON{Version: stored.Version, Schema: schema, Indexes: []indexJSON{}, Journal: stateReady}
	switch {
	case stored.Schema.DisableJournal:
		out.Journal = stateDisabled
	case stored.Journal.Building != "":
		out.Journal = stateBuilding
	}
	for _, t := range stored.Schema.Tables {
		for _, ix := range t.Indexes {
			st, state := stored.Indexes[t.Name+"."+ix.Name], stateReady
			if st.Building {
				state = stateBuilding
			}
			out.Indexes = append(out.Indexes, indexJSON{t.Name, ix.Name, state, st.Since})
		}
	}
	return out, err
}

// print has the schema and its text.
func (out storedJSON) print(w io.Writer, schema *percolator.Schema, text []byte) {
	_, _ = fmt.Fprintf(w, "# version %d\n", out.Version)
	for _, ix := range out.Indexes {
		if ix.State != stateReady {
			_, _ = fmt.Fprintf(w, "# index %s of %s is %s; this finishes it: %s\n", ix.Name, ix.Table, ix.State, cli.BackfillCommand(ix.Table, ix.Name))
		}
	}
	if out.Journal == stateBuilding {
		_, _ = fmt.Fprintf(w, "# the journal is %s; workers finish it, or this does: %s\n", out.Journal, cli.SweepCommand)
	}
	if schema.Timing != (percolator.Timing{}) {
		_, _ = fmt.Fprintln(w, "# leave the timing out for another instance, which has its own")
	}
	_, _ = w.Write(text)
}
