package percolator_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

var updateTraces = flag.Bool("update-traces", false, "write testdata/traces anew")

// traced records the spans of a client.
type traced struct {
	*testing.T
	env      *percolatortest.Env
	c        *percolator.Client
	ctx      context.Context
	recorder *tracetest.SpanRecorder
}

func newTraced(t *testing.T, opts ...percolatortest.Option) *traced {
	t.Helper()
	recorder := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
	env := fixture.NewEnv(t, opts...)
	c := env.NewClient(percolatortest.Configure(func(cfg *percolator.Config) { cfg.LockTTL, cfg.TracerProvider = time.Hour, provider }))
	return &traced{t, env, c, fixture.Context(t), recorder}
}

// golden compares what was traced since the last call with a file, as a tree: a span's name,
// attributes, events, and what it encloses.
func (tr *traced) golden(name string) {
	tr.Helper()
	fixture.Must(tr, tr.c.Flush(tr.ctx))
	started := tr.recorder.Started()
	if ended := tr.recorder.Ended(); len(ended) != len(started) {
		tr.Errorf("%d of %d spans have ended", len(ended), len(started))
	}
	tr.recorder.Reset()
	var b strings.Builder
	for _, s := range started {
		if !s.Parent().IsValid() {
			writeSpan(&b, started, s, "")
		}
	}
	path := filepath.Join("testdata", "traces", name+".txt")
	if *updateTraces {
		fixture.Must(tr, os.WriteFile(path, []byte(b.String()), 0o644))
	}
	want, err := os.ReadFile(path)
	fixture.Must(tr, err)
	if b.String() != string(want) {
		tr.Errorf("traced\n%s\nwant\n%s", b.String(), want)
	}
}

func writeSpan(b *strings.Builder, all []sdktrace.ReadWriteSpan, s sdktrace.ReadOnlySpan, indent string) {
	fmt.Fprintf(b, "%s%s%s", indent, s.Name(), words(s.Attributes()))
	if s.Status().Code == codes.Error {
		b.WriteString(" FAILED")
	}
	b.WriteString("\n")
	for _, e := range s.Events() {
		fmt.Fprintf(b, "%s  * %s%s\n", indent, e.Name, words(e.Attributes))
	}
	for _, child := range all {
		if child.Parent().SpanID() == s.SpanContext().SpanID() {
			writeSpan(b, all, child, indent+"  ")
		}
	}
}

// words are the attributes; timestamps differ from run to run.
func words(attrs []attribute.KeyValue) string {
	var out []string
	for _, a := range attrs {
		value := a.Value.String()
		if strings.HasSuffix(string(a.Key), "timestamp") && value != "0" {
			value = "T"
		}
		out = append(out, fmt.Sprintf("%s=%s", strings.TrimPrefix(string(a.Key), "percolator."), value))
	}
	slices.Sort(out)
	if len(out) == 0 {
		return ""
	}
	return " " + strings.Join(out, " ")
}

func TestTraceOfATransaction(t *testing.T) {
	t.Parallel()
	tr := newTraced(t)
	fixture.Put(t, tr.ctx, tr.env.Client, "a", "c", "1", "b", "c", "2")
	_, err := tr.c.Update(tr.ctx, func(ctx context.Context, tx *percolator.Txn) error {
		if _, err := tx.Get(ctx, fixture.Cell("a", "c")); err != nil {
			return err
		}
		if _, err := tx.GetMulti(ctx, fixture.Cell("b", "c"), fixture.Cell("x", "c")); err != nil {
			return err
		}
		for _, err := range tx.Scan(ctx, "t", percolator.All()) {
			if err != nil {
				return err
			}
		}
		return errors.Join(tx.Set(fixture.Cell("a", "c"), []byte("3")), tx.Set(fixture.Cell("b", "c"), []byte("4")), tx.Delete(fixture.Cell("d", "c")))
	})
	fixture.Must(t, err)
	tr.golden("update")
}

// The first attempt loses against a write that is committed in between, or against a live lock.
func TestTraceOfAConflict(t *testing.T) {
	t.Parallel()
	tr := newTraced(t)
	fixture.Put(t, tr.ctx, tr.env.Client, "a", "c", "1", "b", "c", "1")
	attempts := 0
	_, err := tr.c.Update(tr.ctx, func(ctx context.Context, tx *percolator.Txn) error {
		if attempts++; attempts == 1 {
			fixture.Put(t, tr.ctx, tr.env.Client, "a", "c", "other")
		}
		return tx.Set(fixture.Cell("a", "c"), []byte("mine"))
	})
	fixture.Must(t, err)
	tr.golden("conflict")

	fixture.CrashAfter(t, tr.env, nil, "a")
	_, err = tr.c.Update(tr.ctx, func(ctx context.Context, tx *percolator.Txn) error {
		return errors.Join(tx.Set(fixture.Cell("a", "c"), []byte("mine")))
	}, percolator.MaxAttempts(1))
	fixture.WantErr(t, err, percolator.ErrConflict)
	tr.golden("conflict-lock")
}

// A reader meets the lock of a client that died, and rolls it back.
func TestTraceOfALockWait(t *testing.T) {
	t.Parallel()
	tr := newTraced(t)
	fixture.Put(t, tr.ctx, tr.env.Client, "a", "c", "1")
	fixture.CrashAfter(t, tr.env, nil, "a")
	tr.env.Clock.Advance(fixture.LockTTL)
	fixture.Must(t, tr.c.View(tr.ctx, func(ctx context.Context, s *percolator.Snapshot) error {
		return fixture.ErrOf(s.Get(ctx, fixture.Cell("a", "c")))
	}))
	tr.golden("lock-wait")
	if s := tr.c.Stats(); s.LockWaits != 1 || s.LockWaitTime <= 0 || s.RolledBack != 1 {
		t.Errorf("stats: %d waits of %v, %d rolled back", s.LockWaits, s.LockWaitTime, s.RolledBack)
	}
}

// Reads that wait for one under way travel together, each in its own trace.
func TestTraceOfABatch(t *testing.T) {
	t.Parallel()
	tr := newTraced(t)
	fixture.Put(t, tr.ctx, tr.env.Client, "a", "c", "1", "b", "c", "1", "d", "c", "1", "e", "c", "1")
	s, err := tr.c.Snapshot(tr.ctx)
	fixture.Must(t, err)
	hold := percolatortest.NewHold()
	tr.env.FaultsOf(tr.c).Handle(func(r percolatortest.Request) percolatortest.Action {
		if r.Table == "t" {
			return hold
		}
		return percolatortest.Pass
	})
	done := make(chan error)
	read := func(row string) { done <- fixture.ErrOf(s.Get(tr.ctx, fixture.Cell(row, "c"))) }
	for i, row := range []string{"a", "b"} { // as many requests as there may be under way
		go read(row)
		hold.Wait(t, i+1)
	}
	for i, row := range []string{"d", "e"} {
		go read(row)
		fixture.Eventually(t, "a read waits", func() bool { return tr.c.Engine().Reads.Waiting() == i+1 })
	}
	hold.Release()
	for range 4 {
		fixture.Must(t, <-done)
	}
	tr.golden("batch")
}

// A panic of the caller's function ends the spans around it: the root of a trace is wanted most
// when something went wrong.
func TestSpansEndOnPanic(t *testing.T) {
	t.Parallel()
	ctx := fixture.Context(t)
	w := newWatched(fixture.NewEnv(t), slog.LevelInfo)
	for _, call := range []func(){
		func() {
			_, _ = w.c.Update(ctx, func(context.Context, *percolator.Txn) error { panic("mine") })
		},
		func() { _ = w.c.View(ctx, func(context.Context, *percolator.Snapshot) error { panic("mine") }) },
	} {
		func() {
			defer func() { _ = recover() }()
			call()
		}()
	}
	open := map[string]int{}
	for _, s := range w.spans.Started() {
		open[s.Name()]++
	}
	for _, s := range w.spans.Ended() {
		open[s.Name()]--
	}
	for name, n := range open {
		if n != 0 {
			t.Errorf("%s: %d spans never ended", name, n)
		}
	}
	if len(open) == 0 {
		t.Error("no spans")
	}
}
