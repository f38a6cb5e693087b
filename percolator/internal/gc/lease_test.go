package gc

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/engine/telemetry"
	"github.com/gopercolator/percolator/internal/engine/timestamps"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// sinceOracle gives the time since the test began.
type sinceOracle struct{ started time.Time }

func (o sinceOracle) now() tso.Timestamp { return tso.Timestamp(1).Add(time.Since(o.started)) }

func (o sinceOracle) Next(context.Context) (tso.Timestamp, error) { return o.now(), nil }

// leaseStore holds the collector's lease. Of three attempts to renew it two get no answer. A pass
// over a table finds nothing for twenty minutes.
type leaseStore struct {
	store.Backend
	oracle   sinceOracle
	mu       sync.Mutex
	attempts int
	least    time.Duration // of the lease, when it was renewed
	expires  tso.Timestamp
}

func (s *leaseStore) CheckAndMutate(ctx context.Context, _, _ string, _ store.Query, next, _ *store.Mutation) (bool, error) {
	s.mu.Lock()
	s.attempts++
	lost := s.attempts%3 != 1
	s.mu.Unlock()
	if lost {
		<-ctx.Done()
		return false, ctx.Err()
	}
	st, err := decodeCollectorCell(next.Changes()[0].Value)
	if err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.expires > 0 {
		s.least = min(s.least, s.expires.Sub(s.oracle.now()))
	}
	s.expires = st.Expires
	return true, nil
}

// ReadRow reads an empty meta row: nothing is fenced.
func (s *leaseStore) ReadRow(context.Context, string, string, store.Query) (layout.Row, error) {
	return layout.Row{}, nil
}

func (s *leaseStore) ReadRows(ctx context.Context, _ string, rows store.Rows, _ store.Query, _ int, passed func(string), _ func(layout.Row) bool) error {
	<-ctx.Done()
	if from := rows.Ranges[0].Start; len(from) == 40 {
		return nil
	}
	passed(rows.Ranges[0].Start)
	return ctx.Err()
}

func (s *leaseStore) SampleKeys(context.Context, string) ([]string, error) { return nil, nil }

// The lease never ends while two attempts of three to renew it get no answer: not in a wait, and
// not in a pass that finds nothing.
func TestLeaseSurvivesTwoLostRenewalsOverAndOver(t *testing.T) {
	t.Parallel()
	for name, work := range map[string]func(context.Context, *collecting) error{
		"wait": func(ctx context.Context, s *collecting) error { return s.rest(ctx, 30*time.Minute) },
		"pass": func(ctx context.Context, s *collecting) error {
			return s.eachPage(ctx, store.Garbage(), func(context.Context, string, []layout.Row) error { return nil })
		},
	} {
		for _, lease := range []time.Duration{time.Minute, 3 * time.Minute} {
			t.Run(fmt.Sprint(name, " ", lease), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					cfg := store.Settings{Retention: time.Hour, Logger: slog.New(slog.DiscardHandler)}
					backend := &leaseStore{oracle: sinceOracle{time.Now()}, least: time.Hour}
					st := store.New(t.Context(), backend, &telemetry.Counters{})
					defer st.Stop()
					st.Trace = telemetry.NewSpans(nil)
					clock := &timestamps.Source{Store: st, Config: cfg, Oracle: backend.oracle}
					e := &engine.Engine{Config: cfg, Store: st, Clock: clock, Meta: &meta.Watcher{Store: st, Clock: clock, Config: cfg}}
					e.Meta.Catalog.Store(catalog.New(&model.Schema{Tables: []model.Table{{Name: "t"}}}))
					g, err := NewCollector(e, model.CollectorConfig{Lease: lease})
					if err != nil {
						t.Fatal(err)
					}
					s := &collecting{Collector: g}
					s.lease = collectorLease.held(g.e, g.cfg.Lease, &s.state, []byte("{}"))
					if err := s.save(t.Context()); err != nil {
						t.Fatal(err)
					}
					if err := work(t.Context(), s); err != nil {
						t.Fatal(err)
					}
					if backend.least <= 0 || backend.attempts < 6 {
						t.Errorf("after %d attempts: the lease had %v left when it was renewed", backend.attempts, backend.least)
					}
				})
			})
		}
	}
}

// refusing holds the collector's row, and refuses a request.
type refusing struct {
	store.Backend
	cells   map[string][]byte
	refuses bool
	applies bool // what it refuses
}

func (s *refusing) ReadRow(context.Context, string, string, store.Query) (layout.Row, error) {
	item := layout.Item{Family: layout.MetaFamily, Column: collectorState, Value: s.cells[collectorState]}
	return layout.Row{Key: collectorRow, Items: []layout.Item{item}}, nil
}

func (s *refusing) CheckAndMutate(_ context.Context, _, _ string, is store.Query, next, _ *store.Mutation) (bool, error) {
	if is.Shape == store.ShapeCellIs && s.cells[is.Column] != nil && !bytes.Equal(s.cells[is.Column], is.Value) {
		return false, nil
	}
	if s.refuses && !s.applies {
		s.refuses = false
		return false, status.Error(codes.PermissionDenied, "refused")
	}
	for _, c := range next.Changes() {
		if c.Kind == store.PutVersion {
			s.cells[c.Column] = c.Value
		} else {
			delete(s.cells, c.Column)
		}
	}
	if s.refuses {
		s.refuses = false
		return false, status.Error(codes.PermissionDenied, "applied and reported refused")
	}
	return true, nil
}

// A collector that cannot store the phase that it enters gives its lease up in the phase before:
// otherwise a cycle would be over whose shares are left, or would have nothing to erase.
func TestAPhaseThatIsNotStoredHasNotBegun(t *testing.T) {
	t.Parallel()
	backend := &refusing{cells: map[string][]byte{}}
	cfg := store.Settings{Retention: time.Hour, Logger: slog.New(slog.DiscardHandler)}
	st := store.New(t.Context(), backend, &telemetry.Counters{})
	defer st.Stop()
	st.Trace = telemetry.NewSpans(nil)
	g, err := NewCollector(&engine.Engine{Config: cfg, Store: st, Clock: &timestamps.Source{Store: st, Config: cfg, Oracle: sinceOracle{time.Now()}}}, model.CollectorConfig{})
	if err != nil {
		t.Fatal(err)
	}
	share := map[string][]byte{shareColumn(7, 0): []byte("{}")}
	for _, c := range []struct {
		from, to model.CollectionPhase
		before   map[string][]byte // the shares with which the phase began
		shares   map[string][]byte
		applied  bool
	}{
		{model.CollectionResolve, model.CollectionErase, map[string][]byte{}, share, false},
		{model.CollectionErase, model.CollectionDone, share, map[string][]byte{}, false},
		{model.CollectionResolve, model.CollectionErase, map[string][]byte{}, share, true},
		{model.CollectionErase, model.CollectionDone, share, map[string][]byte{}, true},
	} {
		clear(backend.cells)
		s := &collecting{Collector: g}
		s.lease = collectorLease.held(g.e, g.cfg.Lease, &s.state, []byte("{}"))
		if err := s.enter(t.Context(), c.from, c.before); err != nil {
			t.Fatal(err)
		}
		backend.refuses, backend.applies = true, c.applied
		if err := s.enter(t.Context(), c.to, c.shares); err == nil || backend.refuses {
			t.Fatalf("entering %s was not refused: %v", c.to, err)
		}
		s.release(t.Context())
		if c.applied { // a phase that was stored has started, and the lease ends by itself
			c.from, c.before = c.to, c.shares
		}
		got, err := decodeCollectorCell(backend.cells[collectorState])
		if err != nil || (got.Holder == "") == c.applied || got.Phase != c.from || len(backend.cells) != 1+len(c.before) {
			t.Errorf("instead of %s: %+v with %d shares, %v; want phase %s with %d", c.to, got.Collection, len(backend.cells)-1, err, c.from, len(c.before))
		}
	}
}
