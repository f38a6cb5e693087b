package engine

import (
	"context"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/testing/layertest"
	"github.com/gopercolator/percolator/percolator/model"
)

// newBareClient is a client of an emulator of its own with the table t.
func newBareClient(t *testing.T) (context.Context, *Engine) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	em := layertest.StartEmulator(t)
	settings := layertest.Create(t, em, "i")
	backend, err := store.Connect(ctx, settings.Project, settings.Instance, "", em.ClientOptions())
	if err != nil {
		t.Fatal(err)
	}
	e, err := Open(ctx, settings, Providers{}, backend)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	if err := e.Meta.CheckSchema(nil); err != nil {
		t.Fatal(err)
	}
	if err := e.Start(&layertest.Counter{}); err != nil {
		t.Fatal(err)
	}
	return ctx, e
}

func cell(row string) model.Cell { return model.Cell{Table: "t", Row: row, Column: "c"} }

func second[T any](_ T, err error) error { return err }
