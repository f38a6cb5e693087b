package backup_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/backup"
	"github.com/gopercolator/percolator/percolator/loader"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// A backup that is taken while a drop is unfinished knows nothing of the table that goes: what is
// restored can be collected.
func TestBackupBesideADrop(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testBackupBesideADrop)
}

func testBackupBesideADrop(t *testing.T) {
	env := percolatortest.New(t, &percolator.Schema{Tables: []percolator.Table{{Name: "gone"}, {Name: "t"}}, Timing: quick})
	want := values{cell("t", "r", "c"): "v"}
	set(t, env.Client, want)
	died := errors.New("died")
	_, err := admin.New(env.Client).DropFromSchema(testContext(t), &percolator.Schema{Tables: []percolator.Table{{Name: "t"}}, Timing: quick},
		admin.DropOptions{ClientOptions: env.Options(), Wait: func(context.Context, time.Duration) error { return died }})
	expect(t, err, died)
	c := env.NewClient()
	if len(c.Schema().Dropping) == 0 {
		t.Fatal("no drop is unfinished")
	}
	store := newMemory()
	schema, err := run(t, c, store, small).DecodeSchema()
	must(t, err)
	if len(schema.Dropping) > 0 {
		t.Errorf("the backup's schema drops %q", schema.Dropping)
	}
	back := restored(t, env, store)
	equal(t, contents(t, back), want)
	fixture.Collect(t, testContext(t), back)
}

// A backup that is resumed after an import into one of its tables says that only a new one helps.
func TestBackupAcrossAnImport(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testBackupAcrossAnImport)
}

func testBackupAcrossAnImport(t *testing.T) {
	env := percolatortest.New(t, &percolator.Schema{Tables: []percolator.Table{{Name: "t"}, {Name: "u"}}, Timing: quick})
	want := values{cell("t", "r", "c"): "v"}
	set(t, env.Client, want)
	store, broken, opts := newMemory(), errors.New("broken"), small
	opts.Concurrency = 1
	_, err := backup.Run(testContext(t), env.Client, &hooked{store, func(_, name string) error {
		if strings.HasPrefix(name, "chunks/") {
			return broken
		}
		return nil
	}}, opts)
	expect(t, err, broken) // before u is read
	imported := loader.Row{Row: "i", Cells: []loader.Cell{{Column: "c", Value: []byte("w")}}}
	_, err = loader.Bulk(testContext(t), env.NewClient(), loader.BulkConfig{Table: "u", Source: "a test"}, loader.Replay(func(context.Context) iter.Seq2[loader.Row, error] {
		return func(yield func(loader.Row, error) bool) { yield(imported, nil) }
	}, nil))
	must(t, err)
	want[cell("u", "i", "c")] = "w"
	_, err = backup.Run(testContext(t), env.Client, store, opts)
	expect(t, err, percolator.ErrSnapshotTooOld)
	if !strings.Contains(err.Error(), "--restart") {
		t.Error(err)
	}
	opts.Restart = true
	_, err = backup.Run(testContext(t), env.Client, store, opts)
	must(t, err)
	equal(t, contents(t, restored(t, env, store)), want)
}
