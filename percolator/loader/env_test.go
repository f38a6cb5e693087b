package loader_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/loader"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

var schema = &percolator.Schema{Tables: []percolator.Table{{Name: "t"}}}

// limit bounds what a test waits for; nothing waits for it to pass.
const limit = 2 * time.Minute

// env is a store for one test.
type env struct {
	testing.TB
	*percolatortest.Env
	ctx context.Context
}

func newEnv(t testing.TB) *env {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	return &env{t, percolatortest.New(t, schema), ctx}
}

func cell(row string) percolator.Cell { return percolator.Cell{Table: "t", Row: row, Column: "c"} }

// names yields n names.
func names(prefix string, n int) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for i := range n {
			if !yield(name(prefix, i), nil) {
				return
			}
		}
	}
}

func name(prefix string, i int) string { return fmt.Sprintf("%s%06d", prefix, i) }

func source(prefix string, n int) loader.Source[string] {
	return loader.Replay(func(context.Context) iter.Seq2[string, error] { return names(prefix, n) }, func(string) int64 { return 10 })
}

// set writes the name into the row of that name.
func set(_ context.Context, tx *percolator.Txn, row string) error {
	return tx.Set(cell(row), []byte(row))
}

// stored counts the rows with the prefix, and fails the test unless their values are their names.
func (e *env) stored(prefix string) (n int) {
	e.Helper()
	err := e.Client.View(e.ctx, func(ctx context.Context, s *percolator.Snapshot) error {
		for entry, err := range s.Scan(ctx, "t", percolator.Prefix(prefix)) {
			if err != nil {
				return err
			}
			if n++; string(entry.Value) != entry.Cell.Row {
				e.Errorf("row %s holds %q", entry.Cell.Row, entry.Value)
			}
		}
		return nil
	})
	if err != nil {
		e.Fatal(err)
	}
	return n
}

// position is what the store says about a load.
func (e *env) position(load string) (p struct {
	Items, Failed int64
	Done          bool
}) {
	e.Helper()
	b, err := admin.New(e.Client).LoadPosition(e.ctx, load)
	if err != nil {
		e.Fatal(err)
	}
	if b != nil {
		if err := json.Unmarshal(b, &p); err != nil {
			e.Fatal(err)
		}
	}
	return p
}

// wantClaimed checks that the stored position claims nothing that is not there.
func (e *env) wantClaimed(load, prefix string) (claimed int64) {
	e.Helper()
	p := e.position(load)
	err := e.Client.View(e.ctx, func(ctx context.Context, s *percolator.Snapshot) error {
		for i := range p.Items {
			if _, err := s.Get(ctx, cell(name(prefix, int(i)))); err != nil {
				return fmt.Errorf("position %d of load %s: %w", p.Items, load, err)
			}
		}
		return nil
	})
	if err != nil {
		e.Error(err)
	}
	return p.Items
}

func (e *env) mentions(err error, words ...string) {
	e.Helper()
	for _, w := range words {
		if err == nil || !strings.Contains(err.Error(), w) {
			e.Errorf("%q is not in the error: %v", w, err)
		}
	}
}
