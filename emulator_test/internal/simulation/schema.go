package simulation

import (
	"context"
	"fmt"

	"github.com/gopercolator/percolator/emulator_test/internal/workload"
	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
)

// operators change the schema one at a time, as people agree to do: else one might apply what
// another has just taken away.
type operators chan struct{}

// alone waits for its turn, which ends when the function that it returns is called.
func (o operators) alone(ctx context.Context) (end func(), err error) {
	select {
	case o <- struct{}{}:
		return func() { <-o }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// addToSchema applies the stored schema with an addition.
func (w *world) addToSchema(ctx context.Context, p *process, add func(*model.Schema)) error {
	end, err := w.operators.alone(ctx)
	if err != nil {
		return err
	}
	defer end()
	schema, err := storedSchema(ctx, p)
	if err != nil {
		return err
	}
	add(schema)
	if err := meta.ApplySchemaOn(ctx, tables{w.cluster}, p.store, schema); err != nil {
		return fmt.Errorf("applying the schema: %w", err)
	}
	return nil
}

// storedSchema is a copy of the schema, without what is being dropped.
func storedSchema(ctx context.Context, p *process) (*model.Schema, error) {
	m, err := p.client.Engine().Meta.Refresh(ctx)
	if err != nil {
		return nil, err
	}
	return catalog.NormalizeSchema(catalog.WithDropping(m.Schema, nil)), nil
}

// firstSchema is the schema that an episode begins with.
func (w *world) firstSchema() *percolator.Schema {
	s := workload.Schema(w.cfg.Timing)
	s.Tables = append(s.Tables, workload.Permits(w.cfg.expiry.ttl, w.cfg.expiry.notify)...)
	s.Tables = append(s.Tables, workload.ArchiveTable(), workload.OutboxTable())
	w.work.NextImport().AddCargo(s) // the others come while all work
	workload.AddPasses(s)
	w.work.AddCards(s)
	workload.IndexCards(s)
	w.work.AddAnnexes(s, w.dice.next("annexes").Perm(workload.Drops))
	return s
}
