package commit

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/gopercolator/percolator/internal/engine/reads"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/internal/engine/telemetry"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// Transactions that begin together commit as one, if they come to their commits at about the same
// time: with one primary, one commit point, one commit timestamp and one entry of the journal. Each
// begins with a timestamp of its own and is a transaction by itself until its commit, and again if
// that is not shared (docs/internals/PROTOCOL.md, I32):
//
//   - Their timestamps are a block of the oracle's: no other timestamp lies between them. So they
//     read the same snapshot, and what conflicts with the first of these timestamps, which no
//     transaction has and the shared commit goes by, is what conflicts with any.
//   - Two that write or lock the same cell conflict, like any two at the same time: the one that
//     comes second ends so.
//   - If the shared commit has aborted, each commits by itself at its own timestamp. That is above
//     the one of the shared commit, so what that has left, a marker or a lock, is another
//     transaction's. If the outcome is unknown, it is for all.
//
// Rejected: one start timestamp for all. One that is late, or whose shared commit has aborted,
// would have to run again.

const (
	// TogetherMost is the most transactions that begin together.
	TogetherMost = 16
	// togetherCells and togetherBytes bound what a shared commit writes. Who exceeds them commits by
	// itself.
	togetherCells = 256
	togetherBytes = 1 << 20
	// The first that comes waits for others while one comes within half the time that it has taken
	// itself, and no less than togetherLeast; in all no longer than togetherLongest.
	togetherLeast, togetherLongest = time.Millisecond, 20 * time.Millisecond
	// togetherPatience bounds the prewrite of a shared commit, and each part of its clean-up.
	togetherPatience = time.Second
)

// together is transactions that have begun together.
type together struct {
	startTS tso.Timestamp // of the shared commit
	least   time.Duration // that the first that comes waits for others

	mu     sync.Mutex
	out    int                 // that have neither come to their commit nor ended
	come   []*commit           // that share it; the first makes it
	cells  map[model.Cell]bool // that these write or lock
	bytes  int
	closed bool // no more may come

	came chan struct{} // receives when one has come
	all  chan struct{} // closed when none is out
	done chan struct{} // closed when what follows is set

	shared   bool // the commit has decided for all that have come
	commitTS tso.Timestamp
	err      error
}

// BeginTogether begins n transactions, at most TogetherMost, that may share their commit. Each is
// to be ended by Commit or Rollback. ErrUnsupported: the oracle has no blocks of timestamps.
func (c *Committer) BeginTogether(ctx context.Context, n int) ([]*Txn, error) {
	if err := errors.Join(retry.CheckContext(ctx), c.Meta.CheckFence()); err != nil {
		return nil, err
	}
	since := time.Now()
	block, err := c.Clock.Block(ctx, n+1)
	c.Store.Count.Latency[telemetry.OpBegin].Add(time.Since(since))
	if err != nil {
		return nil, err
	}
	g := &together{startTS: block.TS, least: togetherLeast, out: n, cells: map[model.Cell]bool{}, came: make(chan struct{}, n), all: make(chan struct{}), done: make(chan struct{})}
	txs := make([]*Txn, n)
	for i := range txs {
		txs[i] = c.newTxn(reads.ForTxn(c.Reads, block.TS+tso.Timestamp(i+1)), block.When.Time, since, TxnOptions{})
		txs[i].with = g
	}
	return txs, nil
}

// leave takes the transaction from those with which it began.
func (tx *Txn) leave() (from *together) {
	tx.mu.Lock()
	defer tx.mu.Unlock()
	from, tx.with = tx.with, nil
	return from
}

// Shared reports whether the transaction has committed with others.
func (tx *Txn) Shared() bool { return tx.shared }

// leave counts a transaction that ends without a commit.
func (g *together) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.notOut()
}

func (g *together) notOut() {
	if g.out--; g.out == 0 {
		close(g.all)
	}
}

// commit makes the commit of a member with those of others. shared is false if the member has to
// commit by itself: it is too late, or too large, or the others are, or the shared commit has
// aborted.
func (g *together) commit(ctx context.Context, cm *commit) (commitTS tso.Timestamp, shared bool, err error) {
	switch first, joined, err := g.join(cm); {
	case err != nil:
		return 0, true, err
	case !joined:
		return 0, false, nil
	case first:
		g.lead(ctx, cm.started)
	default:
		<-g.done
	}
	return g.commitTS, g.shared, g.err
}

// join adds a member to those that share a commit.
func (g *together) join(cm *commit) (first, joined bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	defer g.notOut()
	cells, bytes := 0, 0
	for w := range cm.writes {
		cells, bytes = cells+1, bytes+w.size()
	}
	if g.closed || len(g.cells)+cells > togetherCells || g.bytes+bytes > togetherBytes {
		return false, false, nil
	}
	for w := range cm.writes {
		if g.cells[w.Cell] {
			return false, false, cm.conflict(w.Cell, model.ConflictError{OtherTS: g.startTS, Locked: true})
		}
	}
	for w := range cm.writes {
		g.cells[w.Cell] = true
	}
	g.bytes += bytes
	g.come = append(g.come, cm)
	g.came <- struct{}{}
	return len(g.come) == 1, true, nil
}

// lead waits for the others a little, and commits what has come.
func (g *together) lead(ctx context.Context, started time.Time) {
	defer close(g.done)
	g.await(ctx, max(g.least, min(time.Since(started)/2, togetherLongest)))
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	if len(g.come) == 1 {
		return
	}
	cm, ok := g.merge()
	if !ok || cm.checkAge(ctx) != nil {
		return
	}
	commitTS, err := cm.run(ctx)
	if err == nil || errors.Is(err, model.ErrOutcomeUnknown) {
		g.shared, g.commitTS, g.err = true, commitTS, err
	}
}

// await returns when all have come, or none has for a while.
func (g *together) await(ctx context.Context, pause time.Duration) {
	next, longest := time.NewTimer(pause), time.NewTimer(max(g.least, togetherLongest))
	defer next.Stop()
	defer longest.Stop()
	for {
		select {
		case <-g.came:
			next.Reset(pause)
			continue
		case <-g.all:
		case <-next.C:
		case <-longest.C:
		case <-ctx.Done():
		}
		return
	}
}

// merge is the shared commit. The members' own are left as they are.
func (g *together) merge() (*commit, bool) {
	first := g.come[0]
	all := &commit{c: first.c, schema: first.schema, startTS: g.startTS, started: first.started, patience: togetherPatience, outcome: map[*rowWrites]prewriteOutcome{}}
	var writes []*Write
	erase, weak := map[model.Cell]bool{}, map[model.Cell]bool{}
	for _, cm := range g.come {
		if cm.schema != first.schema {
			return nil, false
		}
		for w := range cm.writes {
			own := *w
			writes = append(writes, &own)
		}
		for _, rw := range cm.rows {
			for _, column := range rw.erase {
				erase[model.Cell{Table: rw.table, Row: rw.row, Column: column}] = true
			}
		}
		for _, c := range cm.weak {
			if !weak[c] {
				weak[c], all.weak = true, append(all.weak, c)
			}
		}
	}
	return all, len(all.weak) <= maxWeak && all.group(writes, erase) == nil
}

// writes yields what the transaction writes, row by row, the primary first.
func (cm *commit) writes(yield func(*Write) bool) {
	for _, rw := range cm.rows {
		for _, w := range rw.writes {
			if !yield(w) {
				return
			}
		}
	}
}
