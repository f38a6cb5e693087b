package percolator_test

import (
	"context"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// Column names are byte strings. One that is not UTF-8 must survive the schema's way through the
// store, or be refused.
func TestSchemaKeepsColumnsThatAreNotUTF8(t *testing.T) {
	t.Parallel()
	schema := &percolator.Schema{Tables: []percolator.Table{{Name: "t", Observed: []string{"\xff"}, Weak: []string{"\xfe"},
		Indexes: []percolator.Index{{Name: "ix", Column: "\xfd"}}}}}
	if err := percolator.ValidateSchema(schema); err != nil {
		fixture.WantErr(t, err, percolator.ErrInvalidArgument)
		return
	}
	env := percolatortest.New(t, schema)
	ctx := fixture.Context(t)
	tx := fixture.MustBegin(t, ctx, env.Client)
	fixture.Must(t, tx.Set(fixture.Cell("r", "\xff"), []byte("v")))
	fixture.Must(t, tx.Set(fixture.Cell("r", "\xfd"), []byte("v")))
	if err := tx.Notify(fixture.Cell("r", "\xfe")); err != nil {
		t.Error(err)
	}
	fixture.MustCommit(t, ctx, tx)
	fixture.Must(t, env.Client.Flush(ctx))
	if n := fixture.CellsOf(t, ctx, env, "t", "notify"); n != 2 {
		t.Errorf("%d notify cells, want 2: the write of an observed column and the weak notification", n)
	}
	s, err := env.Client.Snapshot(ctx)
	fixture.Must(t, err)
	n := 0
	for _, err := range s.ScanIndex(ctx, "t", "ix", percolator.All()) {
		fixture.Must(t, err)
		n++
	}
	if n != 1 {
		t.Errorf("%d index entries, want 1", n)
	}
}

// An index that is added to a table with data must know that data before it is read: ScanIndex that
// silently lacks rows, and a unique index that admits duplicates, would be worse.
func TestIndexAddedToTableWithData(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testIndexAddedToTableWithData)
}

func testIndexAddedToTableWithData(t *testing.T) {
	timing := percolator.Timing{RequestLifetime: 2 * time.Second, MetaMaxAge: 2 * time.Second}
	env := percolatortest.New(t, &percolator.Schema{Tables: []percolator.Table{{Name: "t"}}, Timing: timing})
	ctx := fixture.Context(t)
	fixture.Put(t, ctx, env.Client, "old", "mail", "x@example.org")
	fixture.Must(t, env.Client.Close())
	with := &percolator.Schema{Tables: []percolator.Table{{Name: "t", Indexes: []percolator.Index{{Name: "mail", Column: "mail", Unique: true}}}}, Timing: timing}
	fixture.Must(t, percolator.CreateSchema(ctx, env.Project, env.Instance, with, env.Options()...))
	c := env.NewClient()
	s, err := c.Snapshot(ctx)
	fixture.Must(t, err)
	fixture.WantErr(t, fixture.FirstError(s.ScanIndex(ctx, "t", "mail", percolator.All())), percolator.ErrSchemaMismatch)
	fixture.Must(t, fixture.ErrOf(admin.New(c).BackfillIndex(ctx, "t", "mail", admin.BackfillOptions{})))
	s, err = c.Snapshot(ctx)
	fixture.Must(t, err)
	n := 0
	for _, err := range s.ScanIndex(ctx, "t", "mail", percolator.All()) {
		fixture.Must(t, err)
		n++
	}
	if n != 1 {
		t.Errorf("ScanIndex finds %d of 1 rows", n)
	}
	// Another row takes the value that the old row holds.
	_, err = c.Update(ctx, func(ctx context.Context, tx *percolator.Txn) error {
		return tx.Set(fixture.Cell("new", "mail"), []byte("x@example.org"))
	})
	fixture.WantErr(t, err, percolator.ErrUnique)
}

func TestCreateSchemaOfNil(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	defer func() {
		if p := recover(); p != nil {
			t.Errorf("panic: %v", p)
		}
	}()
	fixture.WantErr(t, percolator.CreateSchema(fixture.Context(t), env.Project, env.Instance, nil, env.Options()...), percolator.ErrInvalidArgument)
}
