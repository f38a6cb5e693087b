package observers_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// typedSchema observes columns of declared types, if they are declared, and one that is weak.
func typedSchema(declared bool) *percolator.Schema {
	table := percolator.Table{Name: "t", Observed: []string{"number", "text", "json", "bytes"}, Weak: []string{"poke"}}
	if declared {
		table.Columns = []percolator.ColumnSchema{
			{Name: "number", Type: percolator.TypeInt64}, {Name: "text", Type: percolator.TypeString}, {Name: "json", Type: percolator.TypeJSON},
			{Name: "bytes"}, {Name: "poke", Type: percolator.TypeInt64},
		}
	}
	return &percolator.Schema{Tables: []percolator.Table{table}, Timing: percolator.Timing{RequestLifetime: 2 * time.Second, MetaMaxAge: 2 * time.Second}}
}

// ofType registers an observer of a typed column, of single cells or of batches, which counts what
// it is called for.
func ofType[T any](r *observers.Registry, name string, col percolator.Column[T], batch bool, called func()) {
	if batch {
		observers.ObserveBatch(r, name, col, func(context.Context, *percolator.Txn, []observers.TypedChange[T]) error {
			called()
			return nil
		})
		return
	}
	observers.Observe(r, name, col, func(context.Context, *percolator.Txn, observers.Change, T) error {
		called()
		return nil
	})
}

// NewWorker refuses observers of columns that the schema declares with another type, as Get and Set
// do.
func TestObserverOfAnotherType(t *testing.T) {
	t.Parallel()
	c := percolatortest.New(t, typedSchema(true)).Client
	for name, test := range map[string]struct {
		register func(r *observers.Registry, batch bool)
		column   string
		want     error
	}{
		"string of int64":         {register(percolator.String("t", "number")), "number", percolator.ErrInvalidArgument},
		"ordered int64 of int64":  {register(percolator.OrderedInt64("t", "number")), "number", percolator.ErrInvalidArgument},
		"int64 of string":         {register(percolator.Int64("t", "text")), "text", percolator.ErrInvalidArgument},
		"int64":                   {register(percolator.Int64("t", "number")), "number", nil},
		"bytes of int64":          {register(percolator.Bytes("t", "number")), "number", nil},
		"string of JSON":          {register(percolator.String("t", "json")), "json", nil},
		"int64 of bytes":          {register(percolator.Int64("t", "bytes")), "bytes", nil},
		"bytes of a weak column":  {register(percolator.Bytes("t", "poke")), "poke", nil},
		"string of a weak column": {register(percolator.String("t", "poke")), "poke", nil}, // there are no values
	} {
		for kind, batch := range map[string]bool{"single": false, "batch": true} {
			t.Run(name+", "+kind, func(t *testing.T) {
				t.Parallel()
				r := observers.NewRegistry()
				test.register(r, batch)
				_, err := observers.NewWorker(c, r, observers.Config{Columns: []observers.Column{{Table: "t", Name: test.column}}})
				fixture.WantErr(t, err, test.want)
				_, err = observers.NewWorker(c, r, observers.Config{}) // without an observer of the other columns
				fixture.WantErr(t, err, percolator.ErrSchemaMismatch)
				if errors.Is(err, percolator.ErrInvalidArgument) != (test.want != nil) {
					t.Errorf("%v, want %v as well", err, test.want)
				}
			})
		}
	}
}

func register[T any](col percolator.Column[T]) func(r *observers.Registry, batch bool) {
	return func(r *observers.Registry, batch bool) { ofType(r, "o", col, batch, func() {}) }
}

// A column whose type is declared while the worker runs is not decoded as another one: the run
// fails.
func TestObserverOfATypeThatIsDeclaredLater(t *testing.T) {
	t.Parallel()
	for kind, batch := range map[string]bool{"single": false, "batch": true} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			percolatortest.Bubble(t, func(t *testing.T) {
				pe := percolatortest.New(t, typedSchema(false))
				e := &env{t, pe, t.Context(), pe.Client, byJournal}
				r := observers.NewRegistry()
				called := 0
				ofType(r, "o", percolator.String("t", "number"), batch, func() { called++ })
				w, stop := e.start(e.client, r, observers.Config{Columns: []observers.Column{{Table: "t", Name: "number"}}, MaxAttempts: 1})
				defer stop()
				fixture.Must(t, percolator.CreateSchema(e.ctx, e.Project, e.Instance, typedSchema(true), e.Options()...))
				fixture.Must(t, fixture.ErrOf(e.client.Engine().Meta.Refresh(e.ctx)))
				fixture.Must(t, fixture.Update(e.ctx, e.client, func(tx *percolator.Txn) error { return percolator.Int64("t", "number").Set(tx, "r", 5) }))
				fixture.Must(t, w.WaitIdle(e.ctx))
				if n := w.Stats().Parked; called != 0 || n != 1 {
					t.Errorf("the observer was called %d times, and %d cells are parked", called, n)
				}
			})
		})
	}
}
