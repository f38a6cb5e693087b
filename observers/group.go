package observers

import (
	"context"
	"runtime"
	"sync"

	"github.com/gopercolator/percolator/internal/engine/commit"
)

// CommitTogether lets runs of the observer that are ready at the same time share timestamps, the
// journal's entry and the commit: up to 16, of 256 cells and 1 MiB. Each remains a call and a
// transaction of its own, with a start timestamp of its own; one that fails, conflicts or takes
// longer is not in the commit. That saves up to a third of the conditional mutations, and costs
// independence: a run waits up to 20 ms for those that began with it, and where one of them writes
// a row that does not answer, the others wait for seconds, or, if it is the commit point that gets
// no answer, for as long as for their own. It is for observers whose runs are many, short and
// alike; [Registry.ObserveBatch] saves more. What is stored, and what watchers show, has the start
// timestamp of the commit, which is below those of its runs. It changes nothing for batches, for
// weak columns, and if the oracle has no blocks of timestamps (tso.Blocks).
func CommitTogether() Option { return func(o *options) { o.together = true } }

// Such runs begin together, and commit together as far as they come to that at about the same time
// (package commit). Each has a goroutine and a slot of its own, as any run.
//
// Nothing waits for a group to fill. Those are a group that become ready while the observer asks
// for the timestamps of others, as they would wait for the next request in any case (tso.Client). A
// full group does not wait. What has failed before runs by itself.
//
// Rejected: runs that gather when they commit, wherever they began. A transaction that commits at
// another's timestamp must have read the same snapshot.

// group is runs that begin together.
type group struct {
	size int           // how many they are; guarded by grouping.mu
	full chan struct{} // closed when it takes no more

	ready chan struct{} // closed when what follows is set
	txs   []*commit.Txn // in the order in which the runs came
	err   error
}

// grouping forms the groups of an observer.
type grouping struct {
	turn chan struct{} // held by a group that asks for its timestamps; nil: there are no groups

	mu      sync.Mutex
	forming *group // takes runs
	// most is how many runs form a group. It falls with each that has begun in one and commits by
	// itself, and grows with each that commits with others. Where that is rare, as runs conflict or
	// take their time, there are almost no groups.
	most float64
}

// groupAgain is after how many runs without a group there is another try, at most.
const groupAgain = 64

// form has runs form groups from now on.
func (g *grouping) form() { g.turn, g.most = make(chan struct{}, 1), commit.TogetherMost }

// join adds a run to the group that is forming. The first one leads it. nil: there is none.
func (g *grouping) join() (to *group, place int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.most < 2 {
		return nil, 0
	}
	if g.forming == nil {
		g.forming = &group{full: make(chan struct{}), ready: make(chan struct{})}
	}
	to = g.forming
	if to.size++; to.size >= int(g.most) {
		g.forming = nil
		close(to.full)
	}
	return to, to.size - 1
}

// close ends what a group takes, and returns how many runs it has.
func (g *grouping) close(of *group) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.forming == of {
		g.forming = nil
	}
	return of.size
}

// note counts a run that has come to its commit.
func (g *grouping) note(r *run) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.turn == nil:
	case r.shared:
		g.most = min(commit.TogetherMost, g.most+1/g.most)
	case r.grouped:
		g.most = max(1, g.most*shrink)
	default:
		g.most = max(g.most, min(2, g.most+1./groupAgain))
	}
}

// begin begins the transaction of a run, with those of others that are ready.
func (w *Worker) begin(ctx context.Context, r *run) (*commit.Txn, error) {
	groups := &r.runner.groups
	var g *group
	place := 0
	if !r.alone {
		g, place = groups.join()
	}
	if g == nil {
		return w.engine.Commits.Begin(ctx, commit.TxnOptions{})
	}
	if place == 0 {
		runtime.Gosched() // to those that are ready
		w.beginAll(ctx, groups, g)
	}
	select {
	case <-g.ready:
	case <-ctx.Done():
		go g.abandon(place)
		return nil, ctx.Err()
	}
	switch {
	case g.err != nil && place > 0: // of the one that has asked, whose time may have ended
		return w.engine.Commits.Begin(ctx, commit.TxnOptions{})
	case g.err != nil:
		return nil, g.err
	}
	r.grouped = len(g.txs) > 1
	return g.txs[place], nil
}

// abandon ends the transaction of a run that has not waited for it. Its group begins within the
// time of the run that asks.
func (g *group) abandon(place int) {
	if <-g.ready; g.err == nil {
		_ = g.txs[place].Rollback(context.Background()) // sends nothing
	}
}

// beginAll begins the transactions of a group once it is full, or those of the one before have
// begun.
func (w *Worker) beginAll(ctx context.Context, groups *grouping, g *group) {
	defer close(g.ready)
	select {
	case <-g.full:
	case groups.turn <- struct{}{}:
		defer func() { <-groups.turn }()
	case <-ctx.Done():
		groups.close(g)
		g.err = ctx.Err()
		return
	}
	if n := groups.close(g); n > 1 {
		g.txs, g.err = w.engine.Commits.BeginTogether(ctx, n)
		return
	}
	tx, err := w.engine.Commits.Begin(ctx, commit.TxnOptions{})
	g.txs, g.err = []*commit.Txn{tx}, err
}
