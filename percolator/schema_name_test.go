package percolator_test

import (
	"context"
	"testing"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// Two teams share an instance: each applies, extends and expects the schema of its own name, and
// their tables are in one namespace, in which transactions span both.
func TestSchemasByName(t *testing.T) {
	t.Parallel()
	ctx := fixture.Context(t)
	orders := func(tables ...percolator.Table) *percolator.Schema {
		return &percolator.Schema{Name: "orders", Tables: tables}
	}
	search := func(tables ...percolator.Table) *percolator.Schema {
		return &percolator.Schema{Name: "search", Tables: tables}
	}
	order, page := percolator.Table{Name: "order", Observed: []string{"c"}}, percolator.Table{Name: "page", Indexes: []percolator.Index{{Name: "ix", Column: "c"}}}
	env := percolatortest.New(t, fixture.Schema()) // a third one, without a name
	create := func(s *percolator.Schema) error {
		return percolator.CreateSchema(ctx, env.Project, env.Instance, s, env.Options()...)
	}
	expect := func(s *percolator.Schema) error {
		c, err := percolator.NewClient(ctx, percolator.Config{Project: env.Project, Instance: env.Instance, Schema: s, Oracle: env.Oracle}, env.Options()...)
		if err == nil {
			fixture.Must(t, c.Close())
		}
		return err
	}
	fixture.WantErr(t, create(&percolator.Schema{Name: "a/b", Tables: []percolator.Table{order}}), percolator.ErrInvalidArgument)
	fixture.Must(t, create(orders(order)))
	fixture.Must(t, create(search(page)))
	fixture.Must(t, create(fixture.Schema()))
	fixture.WantErr(t, create(search(page, percolator.Table{Name: "order"})), percolator.ErrSchemaMismatch)
	fixture.WantErr(t, create(search(page, percolator.Table{Name: "t"})), percolator.ErrSchemaMismatch)
	fixture.WantErr(t, create(&percolator.Schema{Tables: append(fixture.Schema().Tables, order)}), percolator.ErrSchemaMismatch)

	// A name's schema grows, and does not shrink.
	more := percolator.Table{Name: "customer"}
	fixture.Must(t, create(orders(order, more)))
	fixture.WantErr(t, create(orders(more)), percolator.ErrSchemaMismatch)

	fixture.Must(t, expect(orders(more, order)))
	fixture.Must(t, expect(search(page)))
	fixture.Must(t, expect(fixture.Schema()))
	fixture.Must(t, expect(env.NewClient().Schema())) // of all of them
	fixture.WantErr(t, expect(orders(order)), percolator.ErrSchemaMismatch)
	fixture.WantErr(t, expect(search(page, order)), percolator.ErrSchemaMismatch)
	fixture.WantErr(t, expect(&percolator.Schema{Name: "other", Tables: []percolator.Table{page}}), percolator.ErrSchemaMismatch)

	c := env.NewClient()
	_, err := c.Update(ctx, func(_ context.Context, tx *percolator.Txn) error {
		fixture.Must(t, tx.Set(percolator.Cell{Table: "order", Row: "1", Column: "c"}, []byte("v")))
		return tx.Set(percolator.Cell{Table: "page", Row: "1", Column: "c"}, []byte("v"))
	})
	fixture.Must(t, err)
	fixture.Must(t, create(c.Schema())) // what is stored fits itself
}
