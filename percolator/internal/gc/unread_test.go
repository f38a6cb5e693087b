package gc_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

// TestErasingWithoutReading: random transactions, of clients that tell what they have overwritten,
// that abort, die, delete, lock, observe and put what expires. After each cycle every snapshot that
// can be read shows what it showed before, and nothing is left that the cycle should have erased.
func TestErasingWithoutReading(t *testing.T) {
	t.Parallel()
	for seed := range uint64(fixture.Of(40, 6)) {
		percolatortest.Bubble(t, func(t *testing.T) { testErasingWithoutReading(t, seed) })
	}
}

// shop is what TestErasingWithoutReading works on.
type shop struct {
	*testing.T
	*percolatortest.Env
	*rand.Rand
	ctx    context.Context
	cells  []percolator.Cell
	now    map[percolator.Cell]string
	states map[tso.Timestamp]map[percolator.Cell]string // by snapshot
}

func testErasingWithoutReading(t *testing.T, seed uint64) {
	s := &shop{T: t, Env: fixture.NewCollectorEnv(t, func(s *percolator.Schema) {
		s.Tables = append(s.Tables, percolator.Table{Name: "brief", TTL: time.Hour})
	}), Rand: rand.New(rand.NewPCG(seed, 13)), ctx: fixture.Context(t), now: map[percolator.Cell]string{}, states: map[tso.Timestamp]map[percolator.Cell]string{}}
	for _, table := range []string{"t", "u", "people", "brief"} {
		for row := range 3 {
			for _, column := range []string{"a", "seen", "city"} {
				s.cells = append(s.cells, percolator.Cell{Table: table, Row: fmt.Sprint(row), Column: column})
			}
		}
	}
	clients := []*percolator.Client{s.NewClient(fixture.ShortRetention), s.NewClient(fixture.ShortRetention)}
	collector := s.NewClient(fixture.ShortRetention)
	var all model.Collection
	for range 4 {
		for n := range 60 {
			s.transact(clients[s.IntN(2)], n)
			if s.IntN(5) == 0 {
				s.Clock.Advance(time.Second)
			}
			if s.IntN(8) == 0 {
				s.remember()
			}
		}
		fixture.Must(t, clients[s.IntN(2)].Flush(s.ctx))
		s.remember()
		s.Clock.Advance([]time.Duration{fixture.Retention / 4, fixture.Retention, fixture.PastRetention}[s.IntN(3)])
		col := fixture.Collect(t, s.ctx, collector)
		all.Unread += col.Unread
		all.Contradicted += col.Contradicted
		s.compare(col.Safepoint)
	}
	for _, c := range clients {
		fixture.Must(t, c.Flush(s.ctx))
	}
	for range 2 {
		s.Clock.Advance(fixture.PastRetention)
		all.Unread += fixture.Collect(t, s.ctx, collector).Unread
	}
	s.remember()
	s.compare(0)
	s.Audit(t, fixture.Collected)
	if all.Unread == 0 || all.Contradicted > 0 {
		t.Errorf("seed %d: in %d rows was erased without reading them, %d contradict what was told", seed, all.Unread, all.Contradicted)
	}
}

// transact runs one transaction, which may lose to another one.
func (s *shop) transact(c *percolator.Client, n int) {
	s.Helper()
	tx := fixture.MustBegin(s.T, s.ctx, c)
	wrote := maps.Clone(s.now)
	for range 1 + s.IntN(3) {
		cell := s.cells[s.IntN(len(s.cells))]
		value := fmt.Sprintf("%d-%d", n, s.IntN(100))
		switch s.IntN(8) {
		case 0:
			fixture.Must(s.T, tx.Delete(cell))
			delete(wrote, cell)
		case 1:
			_, err := tx.GetForUpdate(s.ctx, cell)
			if !errors.Is(err, percolator.ErrNotFound) {
				fixture.Must(s.T, err)
			}
		default:
			fixture.Must(s.T, tx.Set(cell, []byte(value)))
			wrote[cell] = value
		}
		if s.IntN(20) == 0 { // another one is faster
			fixture.Must(s.T, fixture.Update(s.ctx, s.Client, func(tx *percolator.Txn) error { return tx.Set(cell, []byte(value)) }))
			s.now[cell] = value
		}
	}
	switch _, err := tx.Commit(s.ctx); {
	case err == nil:
		s.now = wrote
	case !errors.Is(err, percolator.ErrConflict):
		s.Fatal(err)
	}
	if s.IntN(3) == 0 { // an observer runs for what has changed
		seen := percolator.Cell{Table: "t", Row: fmt.Sprint(s.IntN(3)), Column: "seen"}
		fixture.Acknowledge(s.T, s.ctx, c, seen, "o")
	}
}

// remember notes what a snapshot of now has to show.
func (s *shop) remember() {
	s.Helper()
	ts, err := s.Oracle.Next(s.ctx)
	fixture.Must(s.T, err)
	s.states[ts] = maps.Clone(s.now)
}

// compare reads every snapshot above a safepoint that was remembered.
func (s *shop) compare(safepoint tso.Timestamp) {
	s.Helper()
	for ts, want := range s.states {
		if ts <= safepoint {
			delete(s.states, ts)
			continue
		}
		snap, err := s.Client.Snapshot(s.ctx, percolator.AsOfTimestamp(ts))
		if errors.Is(err, percolator.ErrSnapshotTooOld) {
			continue
		}
		fixture.Must(s.T, err)
		got, err := snap.GetMulti(s.ctx, s.cells...)
		fixture.Must(s.T, err)
		for i, c := range s.cells {
			if string(got[i]) != want[c] {
				s.Errorf("%v at %d is %q, and was %q", c, ts, got[i], want[c])
			}
		}
	}
}

// between has a collection stop at a safepoint before what f commits, and then go past it.
func between(t *testing.T, before, f func(ctx context.Context, env *percolatortest.Env), compare func(ctx context.Context, env *percolatortest.Env, safepoint tso.Timestamp), change ...func(*percolator.Schema)) {
	t.Helper()
	env := fixture.NewCollectorEnv(t, change...)
	ctx, c := fixture.Context(t), env.Client
	before(ctx, env)
	early := fixture.MustBegin(t, ctx, c) // an entry up to the safepoint, behind all others
	fixture.Must(t, early.Set(percolator.Cell{Table: "u", Row: "early", Column: "c"}, nil))
	env.Clock.Advance(time.Second)
	safepoint, err := env.Oracle.Next(ctx)
	fixture.Must(t, err)
	hold, err := admin.New(c).TakeHold(ctx, safepoint+1, time.Hour, "the safepoint stays between")
	fixture.Must(t, err)
	env.Clock.Advance(time.Second)
	f(ctx, env)
	fixture.Must(t, c.Flush(ctx))
	fixture.MustCommit(t, ctx, early) // which tells of what was committed before
	env.Clock.Advance(fixture.PastRetention)
	collector := env.NewClient(fixture.ShortRetention)
	if col := fixture.Collect(t, ctx, collector); col.Safepoint != safepoint {
		t.Fatalf("the safepoint is %d, not %d", col.Safepoint, safepoint)
	}
	compare(ctx, env, safepoint)
	fixture.Must(t, admin.New(c).ReleaseHold(ctx, hold))
	env.Clock.Advance(fixture.PastRetention)
	fixture.Collect(t, ctx, collector)
	env.Audit(t, fixture.Collected)
}

// TestCommitAboveTheWatermarkErasesNothing: the entry of a transaction that began at or below the
// watermark and committed above it leads to garbage that is none yet (J13).
func TestCommitAboveTheWatermarkErasesNothing(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		at := percolator.Cell{Table: "u", Row: "r", Column: "c"}
		var tx *percolator.Txn
		between(t, func(ctx context.Context, env *percolatortest.Env) {
			fixture.Must(t, fixture.Update(ctx, env.Client, func(tx *percolator.Txn) error { return tx.Set(at, []byte("1")) }))
			tx = fixture.MustBegin(t, ctx, env.Client)
			fixture.Must(t, tx.Set(at, []byte("2")))
		}, func(ctx context.Context, env *percolatortest.Env) {
			fixture.MustCommit(t, ctx, tx)
		}, func(ctx context.Context, env *percolatortest.Env, safepoint tso.Timestamp) {
			snap, err := env.Client.Snapshot(ctx, percolator.AsOfTimestamp(safepoint+1))
			fixture.Must(t, err)
			fixture.WantValue(t, ctx, snap, at, "1")
			fixture.WantNow(t, ctx, env.Client, at, "2")
		})
	})
}

// TestAcknowledgedDeletionIsErased: a deletion at or below the watermark stays while its
// acknowledgment is above it, and both go by the entry of the acknowledgment (J13).
func TestAcknowledgedDeletionIsErased(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		at := fixture.Cell("r", "seen")
		between(t, func(ctx context.Context, env *percolatortest.Env) {
			fixture.Put(t, ctx, env.Client, "r", "seen", "1")
			fixture.Must(t, fixture.Update(ctx, env.Client, func(tx *percolator.Txn) error { return tx.Delete(at) }))
		}, func(ctx context.Context, env *percolatortest.Env) {
			fixture.Acknowledge(t, ctx, env.Client, at, "o")
		}, func(ctx context.Context, env *percolatortest.Env, _ tso.Timestamp) {
			fixture.WantErr(t, fixture.ErrOf(get(ctx, env, at)), percolator.ErrNotFound)
		})
	})
}

func get(ctx context.Context, env *percolatortest.Env, at percolator.Cell) (value []byte, err error) {
	snap, err := env.Client.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	return snap.Get(ctx, at)
}
