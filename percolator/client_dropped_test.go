package percolator_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// logged is a log in memory.
type logged struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logged) warnings() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.buf.String(), "dropped without Close")
}

// dropClient opens a client, has use work with it, and forgets it. gone tells that it was
// collected.
func dropClient(t *testing.T, env *percolatortest.Env, log *logged, use func(c *percolator.Client)) (gone *atomic.Bool) {
	cfg := percolator.Config{Project: env.Project, Instance: env.Instance, Oracle: env.Oracle, Logger: slog.New(slog.NewTextHandler(log, nil))}
	c, err := percolator.NewClient(t.Context(), cfg, env.Options()...)
	fixture.Must(t, err)
	e := c.Engine()
	t.Cleanup(func() {
		if _, err := e.Close(); err != nil { // nobody else can
			t.Error(err)
		}
	})
	use(c)
	gone = new(atomic.Bool)
	runtime.AddCleanup(c, func(gone *atomic.Bool) { gone.Store(true) }, gone)
	return gone
}

// A client that nobody can close any more says so, once. What was made of it goes on working.
func TestDroppedClient(t *testing.T) {
	t.Parallel()
	env, ctx, log := fixture.NewEnv(t), fixture.Context(t), new(logged)
	at, ran := fixture.Cell("r", "seen"), make(chan struct{}, 1)
	fixture.Put(t, ctx, env.Client, "r", "plain", "before")
	var (
		tx   *percolator.Txn
		snap *percolator.Snapshot
		w    *observers.Worker
		a    *admin.Admin
	)
	dropClient(t, env, log, func(c *percolator.Client) {
		tx = fixture.MustBegin(t, ctx, c)
		a = admin.New(c)
		var err error
		snap, err = c.Snapshot(ctx)
		fixture.Must(t, err)
		r := observers.NewRegistry()
		r.Observe("o", "t", "seen", func(context.Context, *percolator.Txn, observers.Change) error { ran <- struct{}{}; return nil })
		w, err = observers.NewWorker(c, r, observers.Config{Columns: []observers.Column{{Table: "t", Name: "seen"}}})
		fixture.Must(t, err)
	})
	fixture.Eventually(t, "the warning", func() bool { runtime.GC(); return log.warnings() > 0 })

	working, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(working) }()
	fixture.Must(t, tx.Set(at, []byte("v")))
	fixture.MustCommit(t, ctx, tx)
	<-ran
	stop()
	fixture.Must(t, <-ended)
	for _, err := range snap.Scan(ctx, "t", percolator.All()) {
		fixture.Must(t, err)
		runtime.GC()
	}
	_, err := a.SampleRowKeys(ctx, "t")
	fixture.Must(t, err)
	runtime.GC()
	if n := log.warnings(); n != 1 {
		t.Errorf("%d warnings", n)
	}
}

// A client that was closed says nothing, nor does one that is in use.
func TestClosedClientSaysNothing(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testClosedClientSaysNothing)
}

func testClosedClientSaysNothing(t *testing.T) {
	env, ctx, log := fixture.NewEnv(t), fixture.Context(t), new(logged)
	gone := dropClient(t, env, log, func(c *percolator.Client) { fixture.Must(t, c.Close()) })
	var used *percolator.Client
	dropClient(t, env, log, func(c *percolator.Client) { used = c })
	fixture.Eventually(t, "the closed one is collected", func() bool { runtime.GC(); return gone.Load() })
	runtime.GC()
	if n := log.warnings(); n != 0 {
		t.Errorf("%d warnings", n)
	}
	fixture.Must(t, errors.Join(fixture.ErrOf(used.Begin(ctx)), used.Close()))
}
