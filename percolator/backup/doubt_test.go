package backup_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/commit"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/backup"
	"github.com/gopercolator/percolator/percolator/percolatortest"

	"cloud.google.com/go/bigtable"
)

// hooked is a memory store with a hook before each operation.
type hooked struct {
	*memory
	before func(op, name string) error
}

func (h *hooked) Put(ctx context.Context, name string, b []byte) error {
	if err := h.before("put", name); err != nil {
		return err
	}
	return h.memory.Put(ctx, name, b)
}

func (h *hooked) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	if err := h.before("get", name); err != nil {
		return nil, err
	}
	return h.memory.Get(ctx, name)
}

func plainRows(n int) values {
	v := values{}
	for i := range n {
		v[cell("t", fmt.Sprintf("%04d", i), "c")] = fmt.Sprintf("%060d", i)
	}
	return v
}

var plain = &percolator.Schema{Tables: []percolator.Table{{Name: "t"}}, Timing: quick}

// A restore is stopped (Ctrl-Z, a stalled network). Meanwhile the tables are emptied and the restore is abandoned, as documented. When the
// process goes on, it fills an instance that everybody uses.
func TestAbandonedRestoreGoesOn(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, plain)
	set(t, env.Client, plainRows(60))
	ctx, store := testContext(t), newMemory()
	m := run(t, env.Client, store, small)
	g := newTarget(t, env)
	c := g.client(store)
	stop, stopped := make(chan struct{}), make(chan struct{})
	var once sync.Once
	ended := make(chan error, 1)
	go func() {
		_, err := backup.Restore(ctx, c, store, backup.RestoreOptions{Concurrency: 1, Progress: func(backup.Progress) {
			once.Do(func() { close(stopped); <-stop })
		}})
		ended <- err
	}()
	<-stopped
	bt, err := bigtable.NewClient(ctx, env.Project, g.instance, env.Options()...)
	must(t, err)
	defer bt.Close()
	tbl := bt.Open("t")
	var rows []string
	must(t, tbl.ReadRows(ctx, bigtable.InfiniteRange(""), func(r bigtable.Row) bool { rows = append(rows, r.Key()); return true }))
	for _, r := range rows {
		mut := bigtable.NewMutation()
		mut.DeleteRow()
		must(t, tbl.Apply(ctx, r, mut))
	}
	user := g.open()
	must(t, admin.New(user).AbandonRestore(ctx))
	user = g.open()
	set(t, user, values{cell("t", "mine", "c"): "v"})
	time.Sleep(3 * time.Second) // longer than the drain: everybody knows
	close(stop)
	t.Logf("the restore ended with %v", <-ended)
	got := contents(t, g.open())
	if len(got) != 1 {
		t.Errorf("%d chunks in all: %d cells in an instance in use; want 1", len(m.Chunks), len(got))
	}
}

// A restore is stopped in the middle of a chunk, another process finishes it. Rows are deleted and collected; then the first goes on.
func TestSecondRestoreRevives(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, plain)
	set(t, env.Client, plainRows(60))
	ctx, store := testContext(t), newMemory()
	run(t, env.Client, store, small)
	g := newTarget(t, env)
	a := g.client(store)
	stop, stopped := make(chan struct{}), make(chan struct{})
	var once sync.Once
	slow := &hooked{store, func(op, name string) error {
		if strings.HasPrefix(name, "chunks/") {
			once.Do(func() { close(stopped); <-stop })
		}
		return nil
	}}
	ended := make(chan error, 1)
	go func() {
		_, err := backup.Restore(ctx, a, slow, backup.RestoreOptions{Concurrency: 1})
		ended <- err
	}()
	<-stopped
	b := g.open()
	_, err := backup.Restore(ctx, b, store, backup.RestoreOptions{})
	must(t, err)
	u := g.open()
	_, err = u.Update(ctx, func(_ context.Context, tx *percolator.Txn) (err error) {
		for i := range 60 {
			err = errors.Join(err, tx.Delete(cell("t", fmt.Sprintf("%04d", i), "c")))
		}
		return err
	})
	must(t, err)
	must(t, u.Flush(ctx))
	env.Clock.Advance(3 * 24 * time.Hour)
	col, err := admin.New(u).NewCollector(admin.CollectorConfig{})
	must(t, err)
	_, err = col.Collect(ctx)
	must(t, err)
	if got := contents(t, u); len(got) > 0 {
		t.Fatalf("%d left", len(got))
	}
	close(stop)
	t.Logf("the stopped restore ended with %v", <-ended)
	if got := contents(t, g.open()); len(got) > 0 {
		t.Errorf("%d deleted cells are there again", len(got))
	}
}

// A deletion was pending at the snapshot and older than the mark. The observers ran for it after the snapshot, and it was collected before
// its row was read.
func TestPendingDeletionCollected(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, observed)
	c, ctx := env.Client, testContext(t)
	set(t, c, values{cell("docs", "r", "in"): "v", cell("other", "r", "c"): "v"})
	acknowledge(t, c, "r", "one", "two")
	remove(t, c, "r")
	env.Clock.Advance(3 * 24 * time.Hour) // a backlog, or parked
	store := newMemory()
	var once sync.Once
	opts := small
	opts.Concurrency = 1
	opts.Progress = func(backup.Progress) {
		once.Do(func() {
			acknowledge(t, c, "r", "one", "two")
			collect(t, env)
		})
	}
	_ = ctx
	m := run(t, c, store, opts)
	t.Logf("%+v", m.Total)
	r := restored(t, env, store)
	want := map[string]int{"one r deleted": 1, "two r deleted": 1}
	if got := runs(t, r); !maps.Equal(got, want) {
		t.Errorf("ran %v, want %v", got, want)
	}
}

// While a backup is made a column becomes observed, old cells are notified, and an observer runs. The backup is complete and verified, and cannot be restored.
func TestSchemaGrowsMeanwhile(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, plain)
	c, ctx := env.Client, testContext(t)
	set(t, c, plainRows(60))
	store := newMemory()
	var once sync.Once
	opts := small
	opts.Concurrency = 1
	opts.Progress = func(at backup.Progress) {
		once.Do(func() {
			next := &percolator.Schema{Tables: []percolator.Table{{Name: "t", Observed: []string{"c"}}}, Timing: quick}
			must(t, percolator.CreateSchema(ctx, env.Project, env.Instance, next, env.Options()...))
			time.Sleep(time.Second) // clients adopt it
			_, err := admin.New(c).BackfillObserver(ctx, "t", "c", "o", admin.ObserverOptions{})
			must(t, err)
			_, err = c.Update(ctx, func(ctx context.Context, tx *percolator.Txn) error {
				ack, err := (*commit.Txn)(tx).Acknowledge(ctx, cell("t", "0059", "c"), "o", []string{"o"})
				if err == nil && !ack.Run {
					err = errors.New("nothing to do")
				}
				return err
			})
			must(t, err)
			must(t, c.Flush(ctx))
		})
	}
	m, err := backup.Run(ctx, c, store, opts)
	if err != nil {
		t.Skipf("refused: %v", err)
	}
	v, err := backup.Verify(ctx, store, nil)
	must(t, err)
	t.Logf("verified: %d problems, notified %d", len(v.Problems), m.Total.Notified)
	g := newTarget(t, env)
	r := g.client(store)
	must(t, errOf(backup.Restore(ctx, r, store, backup.RestoreOptions{})))
}

// The place cannot be written. Every attempt leaves a hold that stops collection for six hours.
func TestUnwritablePlaceLeavesHold(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, plain)
	ctx := testContext(t)
	file := t.TempDir() + "/file"
	must(t, os.WriteFile(file, nil, 0o600))
	full := &hooked{newMemory(), func(op, name string) error {
		if op == "put" {
			return errors.New("no space left on device")
		}
		return nil
	}}
	for range 3 {
		_, err := backup.Run(ctx, env.Client, full, backup.Options{})
		if err == nil {
			t.Fatal("no error")
		}
	}
	holds, err := admin.New(env.Client).Holds(ctx)
	must(t, err)
	if len(holds) > 0 {
		t.Errorf("%d holds are left, until %v", len(holds), holds[0].Expires.Time())
	}
}

// Under a hold every run of a weak column adds a cell to its row.
func TestTracesGrow(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, observed)
	c, ctx := env.Client, testContext(t)
	_, err := admin.New(c).TakeHold(ctx, 0, admin.MaxHoldTTL, "somebody's report")
	must(t, err)
	for range 50 {
		notify(t, c, "r")
		ts, err := env.Oracle.Next(ctx)
		must(t, err)
		must(t, admin.New(c).ClearNotification(ctx, cell("docs", "r", "again"), ts))
		must(t, c.Flush(ctx))
	}
	row, err := env.Store().Open("docs").ReadRow(ctx, "r")
	must(t, err)
	if n := len(row["write"]); n > 1 {
		t.Errorf("%d traces of one cell; the newest says all", n)
	}
}

// A restore is interrupted while it waits for the fence to be in force; somebody has committed meanwhile. The backup is then not at hand.
func TestAbandonBeforeAnythingWasWritten(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, plain)
	set(t, env.Client, plainRows(3))
	ctx, store := testContext(t), newMemory()
	run(t, env.Client, store, small)
	same := percolatortest.New(t, plain)
	broken, interrupt := context.WithCancel(ctx)
	_, err := backup.Restore(broken, same.Client, store, backup.RestoreOptions{Waiting: func(time.Duration) {
		mine := bigtable.NewMutation() // of a client that did not know of the fence
		mine.Set("data", "c", 1000, []byte("v"))
		must(t, same.Store().Open("t").Apply(ctx, "mine", mine))
		interrupt()
	}})
	expect(t, err, context.Canceled)
	if err := admin.New(same.Client).AbandonRestore(ctx); err != nil {
		t.Errorf("nothing was restored, and users' data keeps the fence up: %v", err)
	}
}

// The restore took longer than the retention; a collector announces while it finishes.
func TestFinishMovesSafepointBack(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, plain)
	set(t, env.Client, plainRows(3))
	ctx, store := testContext(t), newMemory()
	run(t, env.Client, store, small)
	same := percolatortest.New(t, plain)
	c := same.NewClient()
	collecting := same.NewClient()
	armed := false
	var announced int64
	collected := make(chan error, 1)
	same.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
		if armed && r.Method == percolatortest.CheckAndMutateRow && r.Table == "percolator_meta" {
			armed = false
			col, err := admin.New(collecting).NewCollector(admin.CollectorConfig{})
			must(t, err)
			go func() { _, err := col.Collect(ctx); collected <- err }()
			for announced == 0 {
				b, err := admin.New(collecting).CollectionBounds(ctx)
				must(t, err)
				announced = int64(b.Safepoint)
			}
		}
		return percolatortest.Pass
	})
	_, err := backup.Restore(ctx, c, store, backup.RestoreOptions{Progress: func(at backup.Progress) {
		if at.Done == at.All {
			same.Clock.Advance(10 * 24 * time.Hour)
			armed = true
		}
	}})
	must(t, err)
	must(t, <-collected)
	b, err := admin.New(same.NewClient()).CollectionBounds(ctx)
	must(t, err)
	if announced == 0 || int64(b.Safepoint) < announced || b.Safepoint < b.Mark {
		t.Errorf("announced %d, and now the safepoint is %d, the mark %d", announced, b.Safepoint, b.Mark)
	}
}
