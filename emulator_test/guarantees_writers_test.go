package emulator_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

// guaranteeWrites are the changes that come from outside, and what became of them.
type guaranteeWrites struct {
	want int64

	started   atomic.Int64
	committed atomic.Int64 // changes of observed cells whose writer was told so
	stranded  atomic.Int64 // writers that died between their commit point and the observed cell
	crashed   atomic.Int64
	notified  atomic.Int64 // weak notifications
	rows      atomic.Int64 // a number for rows that are written once

	mu    sync.Mutex
	acked []guaranteeChange
	poked map[percolator.Cell]tso.Timestamp // the newest notification that committed
}

// guaranteeChange is a change whose writer was told that it is committed.
type guaranteeChange struct {
	cell   percolator.Cell
	commit tso.Timestamp
}

func doc(column, format string, args ...any) percolator.Cell {
	return percolator.Cell{Table: guaranteeDocs, Row: fmt.Sprintf(format, args...), Column: column}
}

func (w *guaranteeWrites) note(c percolator.Cell, ts tso.Timestamp) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.Column == "poke" {
		w.notified.Add(1)
		w.poked[c] = max(w.poked[c], ts)
		return
	}
	w.committed.Add(1)
	w.acked = append(w.acked, guaranteeChange{c, ts})
}

// choose picks a change at random, but for the first, which are of the rare kinds: the cell, and
// its value, of which nil is a deletion.
func (w *guaranteeWrites) choose(r *rand.Rand) (percolator.Cell, []byte) {
	n := w.rows.Add(1)
	value := fmt.Appendf(nil, "v%d", n)
	k := r.IntN(1000)
	if first := []int{0, 12, 24}; n <= int64(2*len(first)) {
		k = first[n%int64(len(first))]
	}
	switch {
	case k < 12:
		return doc(chainColumn(0), "chain-%d", n), []byte{'.'}[:0]
	case k < 24:
		return doc("down", "down-%d", n), fmt.Append(nil, guaranteeFrom)
	case k < 26:
		return doc("fan", "fan-%d", n), value
	case k < 60:
		return doc("held", "held-%d", n), []byte(heldFirst)
	case k < 250:
		return doc("quiet", "quiet-%d", r.IntN(100)), value
	case k < 330:
		return doc("poke", "poke-%d", r.IntN(10)), nil
	case k < 350:
		return doc("in", "%s%d", stuckPrefix, r.IntN(5)), value
	case k < 600:
		return doc("in", "doc-%d", r.IntN(200)), nil
	}
	return doc("in", "doc-%d", r.IntN(200)), value
}

// write makes changes with clients that crash now and then, until enough are committed. next makes
// a client; nil: the work is over.
func (w *guaranteeWrites) write(ctx context.Context, name string, r *rand.Rand, next func(name string, handler func(percolatortest.Request) percolatortest.Action) *writerClient) {
	var c *writerClient
	for ctx.Err() == nil && w.started.Load() < w.want {
		if c == nil {
			deaths := rand.New(rand.NewPCG(r.Uint64(), r.Uint64()))
			if c = next(name, func(q percolatortest.Request) percolatortest.Action { return w.dies(deaths, q) }); c == nil {
				return
			}
		}
		w.one(ctx, c.Client, name, r)
		if c.faults.Crashed() {
			w.crashed.Add(1)
			c.leave()
			c = nil
		}
	}
	if c != nil {
		c.leave()
	}
}

// one makes one change; name is the writer's.
func (w *guaranteeWrites) one(ctx context.Context, c *percolator.Client, name string, r *rand.Rand) {
	cell, value := w.choose(r)
	if cell.Column != "poke" {
		w.started.Add(1)
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	ts, err := c.Update(ctx, func(_ context.Context, tx *percolator.Txn) error {
		// With a primary elsewhere, the observed cell is committed by phase two: its notification
		// depends on others if the writer dies.
		if cell.Row[len(cell.Row)-1]%2 == 0 {
			if err := tx.Set(percolator.Cell{Table: guaranteeRuns, Row: "writer " + name, Column: "last"}, value); err != nil {
				return err
			}
		}
		switch {
		case cell.Column == "poke":
			return tx.Notify(cell)
		case value == nil:
			return tx.Delete(cell)
		}
		return tx.Set(cell, value)
	})
	if err == nil {
		w.note(cell, ts)
	} else if cell.Column != "poke" {
		w.started.Add(-1) // the records tell what became of it
	}
}

// writerClient is a client of a writer.
type writerClient struct {
	*percolator.Client
	faults *percolatortest.Faults
	leave  func() // closes it, in the background
}

// dies decides about a writer's request.
func (w *guaranteeWrites) dies(r *rand.Rand, q percolatortest.Request) percolatortest.Action {
	switch {
	case q.Method == percolatortest.MutateRows && q.Sets("write") && q.Sets("notify") && r.IntN(25) == 0:
		w.stranded.Add(1)
		return percolatortest.Crash
	case q.Method == percolatortest.CheckAndMutateRow && r.IntN(400) == 0:
		return []percolatortest.Action{percolatortest.Crash, percolatortest.LoseAnswer, percolatortest.LoseRequest}[r.IntN(3)]
	}
	return percolatortest.Pass
}

// burst writes each of n cells a hundred times.
func (w *guaranteeWrites) burst(ctx context.Context, c *percolator.Client, n int) error {
	for i := range n {
		cell := doc("in", "burst-%d", i)
		for k := range guaranteeBurst {
			w.started.Add(1)
			ts, err := c.Update(ctx, func(_ context.Context, tx *percolator.Txn) error { return tx.Set(cell, fmt.Append(nil, k)) })
			if err != nil {
				return err
			}
			w.note(cell, ts)
		}
	}
	return nil
}
