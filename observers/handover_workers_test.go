package observers_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/api/option"
	"google.golang.org/grpc"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
	"github.com/gopercolator/percolator/tso/coordination"
)

// distant lets requests to Bigtable take a time, as by a network: that, and not the machine, limits
// how much a worker runs.
func distant(d time.Duration) []option.ClientOption {
	pause := func(ctx context.Context) {
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
	}
	return []option.ClientOption{
		option.WithGRPCDialOption(grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, resp any,
			conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
		) error {
			pause(ctx)
			return invoke(ctx, method, req, resp, conn, opts...)
		})),
		option.WithGRPCDialOption(grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc,
			conn *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption,
		) (grpc.ClientStream, error) {
			pause(ctx)
			return open(ctx, desc, conn, method, opts...)
		})),
	}
}

// shared is what some workers have done about cells that the first one's client has written, from
// when they were let go.
type shared struct {
	stats    []observers.Stats
	runs     map[string]int // by row
	batches  int
	requests int64
	took     time.Duration
}

func (s shared) String() string {
	text := fmt.Sprintf("%v, %.2f requests a cell;", s.took.Round(time.Millisecond), float64(s.requests)/float64(len(s.runs)))
	for _, w := range s.stats {
		text += fmt.Sprintf(" %d runs, %d handed over, %d received, %d conflicts, %d acknowledged;", w.Runs, w.HandedOver, w.Received, w.Conflicts, w.Acknowledged)
	}
	return text
}

// share has workers with so many slots run for cells, each with a client of its own, in batches if
// batch is not 0.
func (e *env) share(workers, slots, cells, batch int, d time.Duration) (out shared) {
	e.Helper()
	var mu sync.Mutex
	out.runs = map[string]int{}
	begin := make(chan struct{})
	r := observers.NewRegistry()
	run := func(ctx context.Context, tx *percolator.Txn, ch observers.Change) error {
		if _, err := tx.GetMulti(ctx, cell(ch.Cell.Row, "plain")); err != nil {
			return err
		}
		mu.Lock()
		out.runs[ch.Cell.Row]++
		mu.Unlock()
		return tx.Set(cell(ch.Cell.Row, "out"), ch.Value)
	}
	if batch == 0 {
		r.Observe("o", "t", "in", func(ctx context.Context, tx *percolator.Txn, ch observers.Change) error {
			<-begin
			return run(ctx, tx, ch)
		})
	} else {
		r.ObserveBatch("o", "t", "in", func(ctx context.Context, tx *percolator.Txn, changes []observers.Change) error {
			<-begin
			mu.Lock()
			out.batches++
			mu.Unlock()
			for _, ch := range changes {
				if err := run(ctx, tx, ch); err != nil {
					return err
				}
			}
			return nil
		}, observers.MaxCells(batch))
	}
	var clients []*percolator.Client
	var list []*observers.Worker
	for range workers {
		c, err := percolator.NewClient(e.ctx, percolator.Config{Project: e.Project, Instance: e.Instance, Oracle: e.Oracle},
			append(e.Options(), distant(d)...)...)
		if err != nil {
			e.Fatal(err)
		}
		e.Cleanup(func() { _ = c.Close() })
		w, _ := e.start(c, r, observers.Config{Concurrency: slots, Grace: time.Minute, DisableCollection: true, ReportInterval: -1})
		e.idle(w)
		clients, list = append(clients, c), append(list, w)
	}
	var group errgroup.Group
	group.SetLimit(16)
	for i := range cells {
		group.Go(func() error { e.set(clients[0], fmt.Sprint(i), "in", "x"); return nil })
	}
	_ = group.Wait()
	requests := func() (n int64) {
		for _, c := range clients {
			for _, sent := range c.Stats().Requests {
				n += sent
			}
		}
		return n
	}
	before, started := requests(), time.Now()
	close(begin)
	finished := func() (n int64) {
		for _, w := range list {
			n += w.Stats().Observers["o"].Cells
		}
		return n
	}
	e.until("all runs", func() bool { return finished() >= int64(cells) })
	out.took, out.requests = time.Since(started), requests()-before
	e.until("nothing is pending", func() bool { return len(e.pending()) == 0 })
	for _, w := range list {
		out.stats = append(out.stats, w.Stats())
	}
	return out
}

// One worker's client writes everything, and all workers run for it: each for its share, none
// twice, with hardly more requests than one worker makes.
func TestWorkersShare(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	eachFindingInBubble(t, "", func(t *testing.T, by finding) { testShare(t, by, 0) })
	eachFindingInBubble(t, "in batches", func(t *testing.T, by finding) { testShare(t, by, 5) })
}

func testShare(t *testing.T, by finding, batch int) {
	const workers, slots, cells = 3, 3, 150
	alone := newEnvOf(t, by, []percolator.Table{table()}).share(1, slots, cells, batch, 3*time.Millisecond)
	s := newEnvOf(t, by, []percolator.Table{table()}).share(workers, slots, cells, batch, 3*time.Millisecond)
	t.Logf("alone %v\ntogether %v", alone, s)
	for i, w := range s.stats {
		if n := w.Observers["o"].Cells; n < cells/workers/2 {
			t.Errorf("worker %d ran for %d of %d cells", i, n, cells)
		}
		if w.Conflicts+w.Acknowledged != 0 {
			t.Errorf("worker %d had %d conflicts, and %d jobs for nothing", i, w.Conflicts, w.Acknowledged)
		}
	}
	for row, n := range s.runs {
		if n != 1 {
			t.Errorf("%d runs for row %s", n, row)
		}
	}
	if len(s.runs) != cells {
		t.Errorf("runs for %d cells of %d", len(s.runs), cells)
	}
	if s.batches > alone.batches*115/100 {
		t.Errorf("%d batches of %d workers, %d of one", s.batches, workers, alone.batches)
	}
	if s.requests > alone.requests*115/100 {
		t.Errorf("%d requests of %d workers, %d of one", s.requests, workers, alone.requests)
	}
}

// A worker that takes other columns is handed nothing, and one that has little to do hands nothing
// over.
func TestNothingIsHandedOver(t *testing.T) {
	t.Parallel()
	e, r, j := newEnv(t, percolator.Table{Name: "t", Observed: []string{"in", "else"}}), observers.NewRegistry(), newJournal()
	r.Observe("o", "t", "in", j.observer("o"))
	other := observers.NewRegistry()
	other.Observe("else", "t", "else", j.observer("else"))
	cfg := observers.Config{Concurrency: 2, DisableCollection: true}
	start := func(r *observers.Registry, column string) (*observers.Worker, *percolator.Client) {
		c := e.NewClient(e.direct())
		cfg.Columns = []observers.Column{{Table: "t", Name: column}}
		w, _ := e.start(c, r, cfg)
		return w, c
	}
	w, c := start(r, "in")
	stranger, _ := start(other, "else")
	for i := range 100 {
		e.set(c, fmt.Sprint(i), "in", "x")
	}
	e.await(j, "o", 100)
	before := w.Stats().HandedOver // to itself, perhaps
	idle, _ := start(r, "in")
	for i := range 100 {
		n := j.count("o")
		e.set(c, fmt.Sprint(i), "in", "y")
		e.await(j, "o", n+1)
	}
	if n := w.Stats().HandedOver - before; n+stranger.Stats().Received+idle.Stats().Received != 0 {
		t.Errorf("%d handed over, %d and %d received", n, stranger.Stats().Received, idle.Stats().Received)
	}
}

// setAll writes so many rows at once.
func (e *env) setAll(c *percolator.Client, rows int) {
	e.Helper()
	_, err := c.Update(e.ctx, func(_ context.Context, tx *percolator.Txn) error {
		for i := range rows {
			if err := tx.Set(cell(fmt.Sprint(i), "in"), []byte("x")); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		e.Fatal(err)
	}
}

// hintsOnly is an oracle of a version that hands nothing over.
type hintsOnly struct {
	tso.Oracle
	coordination.Hints
}

func TestAnOracleThatHandsNothingOver(t *testing.T) {
	t.Parallel()
	e, r, j := newEnv(t, table()), observers.NewRegistry(), newJournal()
	r.Observe("o", "t", "in", j.observer("o"))
	start := func() (*observers.Worker, *percolator.Client) {
		c := e.NewClient(percolatortest.Configure(func(cfg *percolator.Config) {
			cfg.Oracle = hintsOnly{e.Oracle, e.Oracle.(coordination.Hints)}
		}))
		w, _ := e.start(c, r, observers.Config{Concurrency: 1, Grace: time.Minute, DisableCollection: true})
		e.idle(w)
		return w, c
	}
	w, c := start()
	start()
	e.setAll(c, 200)
	e.await(j, "o", 200)
	if s := w.Stats(); s.Attempts != 200 || s.HandedOver != 0 {
		t.Errorf("%d attempts, %d handed over", s.Attempts, s.HandedOver)
	}
}

// A worker is killed with cells that it was handed: the one that has written them finds them again.
func TestLostHandOver(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	const cells = 200
	eachFindingInBubble(t, "", func(t *testing.T, by finding) {
		e, j := newEnvOf(t, by, []percolator.Table{table()}), newJournal()
		hold := make(chan struct{})
		held := func(log bool) *observers.Registry {
			r := observers.NewRegistry()
			r.Observe("o", "t", "in", func(ctx context.Context, _ *percolator.Txn, ch observers.Change) error {
				select {
				case <-hold:
				case <-ctx.Done():
					return ctx.Err()
				}
				if log {
					j.add("o", ch)
				}
				return nil
			})
			return r
		}
		cfg := observers.Config{
			Concurrency: 4, Grace: time.Second, DrainTimeout: time.Millisecond, ScanInterval: 10 * time.Millisecond,
			DisableRowLocks: true, DisableCollection: true,
		}
		mine, dying := e.NewClient(e.direct()), e.NewClient(e.direct())
		w, _ := e.start(mine, held(true), cfg)
		other, stop := e.start(dying, held(false), cfg)
		e.idle(w)
		e.idle(other)
		e.setAll(mine, cells)
		e.until("cells are handed over", func() bool { return other.Stats().Received >= 4 })
		e.FaultsOf(dying).Crash()
		stop()
		close(hold)
		e.await(j, "o", cells)
		e.idle(w)
		if n := w.Stats().Runs; n != cells {
			t.Errorf("%d runs for %d cells", n, cells)
		}
	})
}
