package backup_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/backup"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// testTimeout bounds what tests wait for.
const testTimeout = 3 * time.Minute

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	t.Cleanup(cancel)
	return ctx
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func expect(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("%v, want %v", err, want)
	}
}

// values is what is to be written: table, row, column.
type values map[percolator.Cell]string

func cell(table, row, column string) percolator.Cell {
	return percolator.Cell{Table: table, Row: row, Column: column}
}

func set(t *testing.T, c *percolator.Client, v values) {
	t.Helper()
	ctx := testContext(t)
	_, err := c.Update(ctx, func(_ context.Context, tx *percolator.Txn) error {
		for at, value := range v {
			if err := tx.Set(at, []byte(value)); err != nil {
				return err
			}
		}
		return nil
	})
	must(t, err)
	must(t, c.Flush(ctx))
}

// contents is everything that a client sees now, or in the snapshot that the options choose.
func contents(t *testing.T, c *percolator.Client, opts ...percolator.ReadOption) values {
	t.Helper()
	ctx := testContext(t)
	snap, err := c.Snapshot(ctx, opts...)
	must(t, err)
	out := values{}
	for _, table := range c.Schema().Tables {
		for e, err := range snap.Scan(ctx, table.Name, percolator.All()) {
			must(t, err)
			out[e.Cell] = string(e.Value)
		}
	}
	return out
}

func equal(t *testing.T, got, want values) {
	t.Helper()
	if maps.Equal(got, want) {
		return
	}
	for _, at := range slices.SortedFunc(maps.Keys(want), func(a, b percolator.Cell) int {
		return slices.Compare([]string{a.Table, a.Row, a.Column}, []string{b.Table, b.Row, b.Column})
	}) {
		if v, ok := got[at]; !ok || v != want[at] {
			t.Errorf("%s: %d bytes, there %v; want %d bytes", at, len(v), ok, len(want[at]))
		}
	}
	t.Fatalf("%d cells, want %d", len(got), len(want))
}

// target is an instance beside env's, on the same emulator and oracle, without a schema at first.
type target struct {
	t        *testing.T
	env      *percolatortest.Env
	instance string
}

func newTarget(t *testing.T, env *percolatortest.Env) *target {
	return &target{t, env, fmt.Sprintf("%s-restored", env.Instance)}
}

// client prepares the restore of what is in the store, and opens a client.
func (g *target) client(s backup.Store) *percolator.Client {
	g.t.Helper()
	ctx := testContext(g.t)
	m, schema, err := backup.Prepared(ctx, s)
	must(g.t, err)
	must(g.t, backup.PrepareRestore(ctx, admin.Instance{Project: g.env.Project, ID: g.instance, Options: g.env.Options()}, m.ID, schema))
	return g.open()
}

func (g *target) open() *percolator.Client {
	g.t.Helper()
	c, err := percolator.NewClient(testContext(g.t), percolator.Config{Project: g.env.Project, Instance: g.instance, Oracle: g.env.Oracle}, g.env.Options()...)
	must(g.t, err)
	g.t.Cleanup(func() { _ = c.Close() })
	return c
}

// audit looks for anything in the restored tables that the protocol does not allow.
func (g *target) audit(schema *percolator.Schema) *model.AuditReport {
	g.t.Helper()
	ctx := testContext(g.t)
	bt, err := bigtable.NewClient(ctx, g.env.Project, g.instance, g.env.Options()...)
	must(g.t, err)
	defer bt.Close()
	report, err := percolatortest.Audit(ctx, bt, model.AuditConfig{Schema: schema})
	must(g.t, err)
	if report.Found > 0 {
		g.t.Fatal(report)
	}
	return report
}

// restored restores what is in the store into an instance of its own, looks at it, and returns a
// client that was opened afterwards.
func restored(t *testing.T, env *percolatortest.Env, s backup.Store) *percolator.Client {
	t.Helper()
	g := newTarget(t, env)
	c := g.client(s)
	_, err := backup.Restore(testContext(t), c, s, backup.RestoreOptions{})
	must(t, err)
	g.audit(c.Schema())
	return g.open()
}

// small makes a chunk of every few rows.
var small = backup.Options{ChunkBytes: 1 << 10, Concurrency: 2}

func run(t *testing.T, c *percolator.Client, s backup.Store, opts backup.Options) *backup.Manifest {
	t.Helper()
	m, err := backup.Run(testContext(t), c, s, opts)
	must(t, err)
	return m
}

// quick are timings with which a test need not wait long for the drain.
var quick = percolator.Timing{RequestLifetime: 2 * time.Second, MetaMaxAge: 2 * time.Second}

func plainRows(n int) values {
	v := values{}
	for i := range n {
		v[cell("t", fmt.Sprintf("%04d", i), "c")] = fmt.Sprintf("%060d", i)
	}
	return v
}

var plain = &percolator.Schema{Tables: []percolator.Table{{Name: "t"}}, Timing: quick}
