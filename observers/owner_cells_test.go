package observers_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
	"github.com/gopercolator/percolator/tso/coordination"
)

// pokedRows is how many weak cells a test notifies; a worker owns about half of them.
const pokedRows = 50

// pokes is two workers that take the same weak column, each with a client of its own and one owner
// for each cell.
type pokes struct {
	*env
	clients [2]*percolator.Client
	workers [2]*observers.Worker

	mu   sync.Mutex
	runs map[string][2]int // by row and worker
}

// newPokes starts the workers with their clients' oracles.
func newPokes(t *testing.T, grace time.Duration, oracles func(e *env) [2]tso.Oracle) *pokes {
	t.Helper()
	p := &pokes{env: newEnv(t, percolator.Table{Name: "t", Weak: []string{"poke"}}), runs: map[string][2]int{}}
	for i, oracle := range oracles(p.env) {
		r := observers.NewRegistry()
		r.Observe("o", "t", "poke", func(_ context.Context, _ *percolator.Txn, ch observers.Change) error {
			p.mu.Lock()
			defer p.mu.Unlock()
			runs := p.runs[ch.Cell.Row]
			runs[i]++
			p.runs[ch.Cell.Row] = runs
			return nil
		}, observers.Collapse(20*time.Millisecond), observers.OneWorkerPerCell())
		p.clients[i] = p.NewClient(percolatortest.Configure(func(cfg *percolator.Config) { cfg.Oracle = oracle }))
		p.workers[i], _ = p.start(p.clients[i], r, observers.Config{Grace: grace, DisableCollection: true})
	}
	return p
}

// poke notifies all cells.
func (p *pokes) poke(c *percolator.Client, prefix string) {
	p.Helper()
	_, err := c.Update(p.ctx, func(_ context.Context, tx *percolator.Txn) error {
		for i := range pokedRows {
			if err := tx.Notify(cell(fmt.Sprint(prefix, i), "poke")); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		p.Fatal(err)
	}
}

// took returns the runs since it was called last.
func (p *pokes) took() map[string][2]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	runs := maps.Clone(p.runs)
	clear(p.runs)
	return runs
}

// found is how many cells the workers have found by the journal, of which nobody had told them.
func (p *pokes) found() int64 { return p.workers[0].Stats().Found + p.workers[1].Stats().Found }

// know waits until both workers know of each other.
func (p *pokes) know() {
	p.Helper()
	p.until("both workers know each other", func() bool { return p.workers[0].Peers() == 2 && p.workers[1].Peers() == 2 })
}

// owners returns the worker that ran for each row; ok: it was always one, and both workers ran.
func owners(runs map[string][2]int) (by map[string]int, ok bool) {
	by = map[string]int{}
	rows := [2]int{}
	for row, n := range runs {
		if n[0] > 0 && n[1] > 0 {
			return nil, false
		}
		if n[1] > 0 {
			by[row] = 1
		} else {
			by[row] = 0
		}
		rows[by[row]]++
	}
	return by, len(by) == pokedRows && rows[0] > 0 && rows[1] > 0
}

// passing is an oracle that passes on between workers, and forgets the hints of a column: a client
// repeats these for what stands for long, and so its owner may hear of it, too.
type passing struct {
	*tso.Server
	column, handOvers uint64

	mu    sync.Mutex
	asked map[uint64]bool // the topics that a worker has asked for
}

func (o *passing) LeaveHints(ctx context.Context, hints []coordination.Hint) ([]uint64, error) {
	return o.Server.LeaveHints(ctx, slices.DeleteFunc(slices.Clone(hints), func(h coordination.Hint) bool { return h.Topic == o.column }))
}

func (o *passing) TakeHints(ctx context.Context, topics []uint64, most int, wait time.Duration) ([]coordination.Hint, error) {
	o.mu.Lock()
	for _, topic := range topics {
		o.asked[topic] = true
	}
	o.mu.Unlock()
	return o.Server.TakeHints(ctx, topics, most, wait)
}

// listens reports whether a worker takes hints of the column and what is passed on to it, by
// leaving hints that nobody can decode.
func (o *passing) listens(ctx context.Context) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	own := false
	for topic := range o.asked {
		if refused, err := o.Server.LeaveHints(ctx, []coordination.Hint{{Topic: topic}}); err != nil || len(refused) > 0 {
			return false
		}
		own = own || topic != o.column && topic != o.handOvers
	}
	return own && o.asked[o.column]
}

// Whichever client notifies a weak cell, its owner runs for it: a client with the owner, with
// another worker, or with none. Nobody else runs for an hour.
func TestCellsHaveOneWorker(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testCellsHaveOneWorker)
}

func testCellsHaveOneWorker(t *testing.T) {
	var oracles [2]*passing
	p := newPokes(t, time.Hour, func(e *env) (of [2]tso.Oracle) {
		for i := range of {
			oracles[i] = &passing{
				Server: e.Oracle.(*tso.Server), asked: map[uint64]bool{},
				column: e.topic("t", "poke"), handOvers: e.topic("t", "poke\x00surplus"),
			}
			of[i] = oracles[i]
		}
		return of
	})
	writer := p.NewClient(p.direct())
	p.until("both workers listen", func() bool { return oracles[0].listens(p.ctx) && oracles[1].listens(p.ctx) })
	p.know()
	var by map[string]int
	p.until("each cell is run by one worker, and both run", func() (ok bool) {
		for range 5 {
			p.poke(p.clients[0], "r")
			p.poke(p.clients[1], "r")
		}
		p.idle(p.workers[0])
		by, ok = owners(p.took())
		return ok
	})
	for who, c := range map[string]*percolator.Client{"one worker": p.clients[0], "the other": p.clients[1], "none": writer} {
		p.until("the owners run, told of it, for what the client of "+who+" alone notifies", func() bool {
			found := p.found()
			for range 3 {
				p.poke(c, "r")
			}
			p.idle(p.workers[0])
			again, ok := owners(p.took())
			return ok && maps.Equal(by, again) && p.found() == found
		})
	}
}

// passedToNobody is an oracle that forgets what it is to pass on.
type passedToNobody struct {
	*tso.Server
	forgotten *atomic.Int64
}

func (o passedToNobody) LeaveHints(_ context.Context, hints []coordination.Hint) ([]uint64, error) {
	o.forgotten.Add(int64(len(hints)))
	return nil, nil
}

// What a worker passes on may get lost. Config.Grace later, some worker runs for it.
func TestRunAlthoughTheOwnerDoesNotHear(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testRunAlthoughTheOwnerDoesNotHear)
}

func testRunAlthoughTheOwnerDoesNotHear(t *testing.T) {
	var forgotten atomic.Int64
	p := newPokes(t, 100*time.Millisecond, func(e *env) [2]tso.Oracle {
		return [2]tso.Oracle{passedToNobody{e.Oracle.(*tso.Server), &forgotten}, e.Oracle}
	})
	p.know()
	p.idle(p.workers[0])
	p.poke(p.clients[0], "r")
	p.until("something is passed on", func() bool { return forgotten.Load() > 0 })
	limit := time.Now().Add(30 * time.Second)
	p.until("all cells are run for", func() bool {
		if time.Now().After(limit) {
			t.Fatalf("%d cells of %d were run for", p.ran(), pokedRows)
		}
		return p.ran() == pokedRows
	})
	p.idle(p.workers[0])
}

// speechless is an oracle that passes no hints on.
type speechless struct{ tso.Oracle }

// Nothing can be passed on to a worker whose oracle passes no hints on: it owns nothing, and runs
// for what its own client notifies.
func TestWorkersWithoutHintsOwnNothing(t *testing.T) {
	t.Parallel()
	p := newPokes(t, time.Minute, func(e *env) [2]tso.Oracle { return [2]tso.Oracle{speechless{e.Oracle}, e.Oracle} })
	p.until("one of two owns nothing", func() bool {
		seen, err := admin.New(p.clients[1]).Workers(p.ctx)
		if err != nil || len(seen.Live) != 2 {
			return false
		}
		return (seen.Live[0].Owns == "") != (seen.Live[1].Owns == "")
	})
	p.until("nobody divides anything", func() bool { return p.workers[0].Peers() == 0 && p.workers[1].Peers() == 0 })
	p.poke(p.clients[0], "first")
	p.poke(p.clients[1], "second")
	for _, w := range p.workers {
		p.idle(w)
	}
	runs := p.took()
	for i := range pokedRows {
		if n := runs[fmt.Sprint("first", i)]; n[0] == 0 || n[1] != 0 {
			t.Errorf("%v runs for row %d of the first client", n, i)
		}
		if n := runs[fmt.Sprint("second", i)]; n[0] != 0 || n[1] == 0 {
			t.Errorf("%v runs for row %d of the second client", n, i)
		}
	}
}
