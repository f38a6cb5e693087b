// Package layertest builds the layers up to the resolution of locks on Google's emulator, for tests
// of the layers themselves. Tests of a whole client use percolatortest.
package layertest

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/gopercolator/percolator/internal/engine/dispatch"
	"github.com/gopercolator/percolator/internal/engine/locks"
	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/engine/telemetry"
	"github.com/gopercolator/percolator/internal/engine/timestamps"
	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// Counter is an oracle that counts from Last, which a test may set.
type Counter struct{ Last atomic.Int64 }

// Next is the next timestamp.
func (o *Counter) Next(context.Context) (tso.Timestamp, error) {
	return tso.Timestamp(o.Last.Add(1)), nil
}

// NextBlock is the next n timestamps.
func (o *Counter) NextBlock(_ context.Context, n int) (tso.Timestamp, error) {
	return tso.Timestamp(o.Last.Add(int64(n))-int64(n)) + 1, nil
}

// Pass lets the oracle's time go on.
func (o *Counter) Pass(d time.Duration) { o.Last.Add(int64(tso.Timestamp(0).Add(d))) }

// Layers are wired as those of a client are.
type Layers struct {
	Config   store.Settings
	Oracle   *Counter
	Store    *store.Store
	Bulk     *store.BulkWriter
	Clock    *timestamps.Source
	Meta     *meta.Watcher
	Dispatch *dispatch.Dispatcher
	Locks    *locks.Resolver
}

// StartEmulator starts an emulator for one test.
func StartEmulator(t testing.TB) *emulator.Server {
	t.Helper()
	em, err := emulator.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { em.Close() })
	return em
}

// Create makes an instance with the table t, whose column seen is observed and whose column poke is
// weak, and returns the settings of a client of it.
func Create(t testing.TB, em *emulator.Server, instance string) store.Settings {
	t.Helper()
	schema := &model.Schema{Tables: []model.Table{{Name: "t", Observed: []string{"seen"}, Weak: []string{"poke"}}}}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := meta.ApplySchema(ctx, "p", instance, "", model.TableProtection{}, schema, em.ClientOptions()...); err != nil {
		t.Fatal(err)
	}
	return store.Settings{Project: "p", Instance: instance, LockTTL: 10 * time.Second, Retention: time.Hour, MaxParallelism: 64,
		Logger: slog.New(slog.DiscardHandler)}
}

// New creates an instance and builds the layers on it.
func New(t testing.TB, em *emulator.Server, instance string) *Layers {
	t.Helper()
	l := &Layers{Config: Create(t, em, instance), Oracle: new(Counter)}
	backend, err := store.Connect(t.Context(), l.Config.Project, instance, "", em.ClientOptions())
	if err != nil {
		t.Fatal(err)
	}
	l.Store = store.New(context.Background(), backend, &telemetry.Counters{})
	t.Cleanup(func() { l.Store.Close() })
	l.Store.Trace = telemetry.NewSpans(nil)
	if l.Store.Metrics, err = telemetry.NewInstruments(nil); err != nil {
		t.Fatal(err)
	}
	l.Bulk = store.NewBulkWriter(l.Store.Background, l.Store)
	t.Cleanup(func() {
		l.Store.Stop()
		l.Bulk.Close()
	})
	l.Clock = &timestamps.Source{Store: l.Store, Config: l.Config, Oracle: l.Oracle}
	l.Meta = &meta.Watcher{Store: l.Store, Clock: l.Clock, Config: l.Config}
	l.Dispatch = &dispatch.Dispatcher{Store: l.Store, Hints: dispatch.NewHinter(l.Config, l.Oracle, l.Store.Count)}
	t.Cleanup(l.Dispatch.Hints.Close)
	l.Locks = &locks.Resolver{Store: l.Store, Clock: l.Clock, Meta: l.Meta, Dispatch: l.Dispatch, Config: l.Config}
	if l.Locks.Decided, err = lru.New[locks.TxnID, locks.TxnStatus](locks.DecidedRemembered); err != nil {
		t.Fatal(err)
	}
	if l.Locks.Sessions, err = locks.NewSessions(l.Oracle); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Meta.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.Meta.CheckSchema(nil); err != nil {
		t.Fatal(err)
	}
	return l
}

// Plant writes a cell of table t that the protocol would not write.
func Plant(t testing.TB, s *store.Store, row, family, column string, ts tso.Timestamp, value []byte) {
	t.Helper()
	mut := store.NewMutation(1)
	mut.Put(family, column, ts, value)
	if err := s.Mutate(t.Context(), "t", row, mut); err != nil {
		t.Fatal(err)
	}
}
