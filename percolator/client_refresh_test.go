package percolator_test

import (
	"reflect"
	"testing"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
)

// What a client knows is the schema that is stored, also when it changes back, and cannot be read
// in between.
func TestRefreshTellsTheStoredSchema(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx, c := fixture.Context(t), env.Client
	stored := func() bigtable.ReadItem {
		row, err := env.Store().Open("percolator_meta").ReadRow(ctx, "meta")
		fixture.Must(t, err)
		for _, item := range row["meta"] {
			if item.Column == "meta:schema" {
				return item
			}
		}
		t.Fatal("no schema is stored")
		return bigtable.ReadItem{}
	}
	store := func(item bigtable.ReadItem, value []byte) {
		fixture.Plant(t, ctx, env, "percolator_meta", "meta", "meta", "schema", int64(item.Timestamp), string(value))
	}
	tables := func() int {
		t.Helper()
		var m meta.State
		fixture.Eventually(t, "the schema is read, or confirmed by a second look", func() (done bool) {
			var err error
			m, err = c.Engine().Meta.Refresh(ctx)
			return err == nil
		})
		fresh, err := env.NewClient().Engine().Meta.Refresh(ctx)
		fixture.Must(t, err)
		if !reflect.DeepEqual(m.Schema, fresh.Schema) {
			t.Errorf("known: %+v, stored: %+v", m.Schema, fresh.Schema)
		}
		return len(m.Schema.Tables)
	}
	first := stored()
	before := tables()
	more := fixture.Schema()
	more.Tables = append(more.Tables, percolator.Table{Name: "more"})
	fixture.Must(t, percolator.CreateSchema(ctx, env.Project, env.Instance, more, env.Options()...))
	second := stored()
	if now := tables(); now != before+1 {
		t.Errorf("%d tables, want one more than %d", now, before)
	}
	store(first, first.Value)
	if now := tables(); now != before {
		t.Errorf("%d tables, want the %d of before", now, before)
	}
	store(first, []byte("{"))
	fixture.WantErr(t, fixture.ErrOf(c.Engine().Meta.Refresh(ctx)), percolator.ErrCorrupt)
	store(first, second.Value)
	if now := tables(); now != before+1 {
		t.Errorf("%d tables, want one more than %d", now, before)
	}
}
