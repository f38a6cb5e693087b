package main

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"google.golang.org/api/option"

	"github.com/gopercolator/percolator/cmd/webindex/index"
	"github.com/gopercolator/percolator/cmd/webindex/load"
	"github.com/gopercolator/percolator/cmd/webindex/verify"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/backup"
	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

// TestRestoredIndexPassesVerify backs the index up, restores it into another instance, and has
// "webindex verify" judge that one.
func TestRestoredIndexPassesVerify(t *testing.T) {
	fixture.Long(t)
	store := runStore(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	file := filepath.Join(t.TempDir(), "summary.json")
	do := func(args ...string) {
		t.Helper()
		if status, stdout, stderr := webindex(t, append(args, "--summary", file)...); status != 0 {
			t.Fatalf("%q: status %d: %s%s", args, status, stdout, stderr)
		}
	}
	do("init")
	do("load", "--input", site(t, ""))
	do("worker", "--until-idle")
	do("verify")
	want := summaries(t, file)[0]

	at := backup.Dir(t.TempDir())
	client := openInstance(ctx, t, store.oracle, "webindex")
	if _, err := backup.Run(ctx, client, at, backup.Options{MissWeak: true}); err != nil { // nothing is notified any more
		t.Fatal(err)
	}
	restore(ctx, t, store.oracle, at, "elsewhere")
	do("verify", "--instance", "elsewhere")
	for _, key := range []string{"documents", "clusters", "canonical", "links", "differences"} {
		expect(t, summaries(t, file)[0], map[string]float64{key: want[key].(float64)})
	}
	do("load", "--instance", "elsewhere", "--input", site(t, " changed")) // and it goes on living
	do("worker", "--instance", "elsewhere", "--until-idle")
	do("verify", "--instance", "elsewhere")
}

// TestIndexBackedUpWhileItIsBuilt takes the backup of an index that is not up to date, and has
// workers finish it after the snapshot and before it is read: all their notifications and part of
// their results are gone or too new by then. Workers on the restored index do what was not done in
// the snapshot, and it is right.
func TestIndexBackedUpWhileItIsBuilt(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		log := slog.New(slog.DiscardHandler)
		bigtable, err := emulator.Start(emulator.InMemory())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { bigtable.Close() })
		local := &localStore{log: log}
		t.Cleanup(local.close)
		oracle, err := local.startOracle(ctx)
		if err != nil {
			t.Fatal(err)
		}
		schema := index.Schema() // with timings for which a test can wait
		schema.Timing = percolator.Timing{RequestLifetime: 2 * time.Second, MetaMaxAge: 2 * time.Second}
		if err := percolator.CreateSchema(ctx, "p", "source", schema, bigtable.ClientOptions()...); err != nil {
			t.Fatal(err)
		}
		source := openInstance(ctx, t, oracle, "source", bigtable.ClientOptions()...)
		loadSite := func(change string) {
			t.Helper()
			if err := (&load.Loader{Client: source, Log: log}).Load(ctx, load.Path(site(t, change))); err != nil {
				t.Fatal(err)
			}
		}
		loadSite("")
		finish(ctx, t, source, log)
		loadSite(" changed")
		once := sync.Once{}
		at := backup.Dir(t.TempDir())
		m, err := backup.Run(ctx, source, at, backup.Options{Progress: func(backup.Progress) {
			once.Do(func() { finish(ctx, t, source, log) })
		}})
		if err != nil {
			t.Fatal(err)
		}
		if m.Total.Notified == 0 {
			t.Error("nothing was pending")
		}
		copied := restore(ctx, t, oracle, at, "copy", bigtable.ClientOptions()...)
		finish(ctx, t, copied, log)
		err = copied.View(ctx, func(ctx context.Context, snap *percolator.Snapshot) error {
			_, err := verify.Run(ctx, snap, func(d verify.Difference) { t.Error(d) })
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

// finish runs a worker until nothing is left to do.
func finish(ctx context.Context, t *testing.T, c *percolator.Client, log *slog.Logger) {
	t.Helper()
	w, err := startWorkers(ctx, []*percolator.Client{c}, log)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.waitIdle(ctx), w.stop(), c.Flush(ctx)); err != nil {
		t.Fatal(err)
	}
}

func openInstance(ctx context.Context, t *testing.T, oracle tso.Oracle, instance string, opts ...option.ClientOption) *percolator.Client {
	t.Helper()
	project := "p"
	if len(opts) == 0 {
		project = "webindex"
	}
	c, err := percolator.NewClient(ctx, percolator.Config{Project: project, Instance: instance, Oracle: oracle}, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// restore restores a backup into a new instance, and returns a client of it.
func restore(ctx context.Context, t *testing.T, oracle tso.Oracle, at backup.Store, instance string, opts ...option.ClientOption) *percolator.Client {
	t.Helper()
	project := "p"
	if len(opts) == 0 {
		project = "webindex"
	}
	m, schema, err := backup.Prepared(ctx, at)
	if err != nil {
		t.Fatal(err)
	}
	if err := backup.PrepareRestore(ctx, admin.Instance{Project: project, ID: instance, Options: opts}, m.ID, schema); err != nil {
		t.Fatal(err)
	}
	if _, err := backup.Restore(ctx, openInstance(ctx, t, oracle, instance, opts...), at, backup.RestoreOptions{}); err != nil {
		t.Fatal(err)
	}
	return openInstance(ctx, t, oracle, instance, opts...)
}
