package emulator_test

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// nextActor meets the transaction's locks while the transaction is held up or after it has ended.
// After the commit point nobody needs the clock to advance, and it does not. Before it everybody
// waits until the locks are past their TTL, and not longer.
type nextActor struct {
	name        string
	rewrites    bool // it writes all three cells
	needsCommit bool // it has nothing to say about a transaction that did not commit
	meet        func(x *crashRun)
}

var (
	nextReader      = nextActor{name: "a reader", meet: func(x *crashRun) { x.meetReader(x.getAll) }}
	nextScan        = nextActor{name: "a scan", meet: func(x *crashRun) { x.meetReader(x.scanAll) }}
	nextWriter      = nextActor{name: "a writer", rewrites: true, meet: (*crashRun).meetWriter}
	nextOlderWriter = nextActor{name: "an older writer", needsCommit: true, meet: (*crashRun).meetOlderWriters}
	nextWorker      = nextActor{name: "a worker", meet: (*crashRun).meetWorker}
)

// waitOutTTL moves the clock past the TTL of all locks, unless the transaction has committed.
// Before that, meets says what becomes of somebody who meets the locks while they may be alive.
func (x *crashRun) waitOutTTL(meets func()) {
	x.Helper()
	if x.committed {
		return
	}
	if locks := x.ownLocks(); locks > 0 && x.undecided() {
		meets()
		if after := x.ownLocks(); after != locks && !x.loose {
			x.Errorf("of %d locks of a transaction that may be alive %d are left", locks, after)
		}
	}
	x.expire()
}

// meetReader reads all cells from one snapshot and then from a later one.
func (x *crashRun) meetReader(read func(context.Context, *percolator.Snapshot) (map[string]string, error)) {
	x.Helper()
	s := x.snapshot()
	x.waitOutTTL(func() {
		err := x.untilJudged(func(ctx context.Context) error {
			_, err := read(ctx, s)
			return err
		})
		if !errors.Is(err, percolator.ErrLocked) && x.undecided() {
			x.Errorf("a reader that met live locks: %v, want ErrLocked", err)
		}
	})
	for _, s := range []*percolator.Snapshot{s, x.snapshot()} {
		got, err := read(x.ctx, s)
		fixture.Must(x, err)
		x.wantAt(s.StartTimestamp(), got)
		if len(x.seen) == 0 {
			x.seen[s.StartTimestamp()] = got
		}
	}
	if n := x.ownLocks(); n != 0 && !x.loose {
		x.Errorf("%d locks left after a reader of all cells", n)
	}
}

func (x *crashRun) getAll(ctx context.Context, r *percolator.Snapshot) (map[string]string, error) {
	values, err := r.GetMulti(ctx, x.cell("P"), x.cell("S1"), x.cell("S2"))
	if err != nil {
		return nil, err
	}
	return map[string]string{"P": string(values[0]), "S1": string(values[1]), "S2": string(values[2])}, nil
}

func (x *crashRun) scanAll(ctx context.Context, r *percolator.Snapshot) (map[string]string, error) {
	got := map[string]string{"P": "", "S1": "", "S2": ""}
	for _, table := range []string{"right", "left"} { // secondaries first
		for e, err := range r.Scan(ctx, table, percolator.Prefix(x.prefix)) {
			if err != nil {
				return nil, err
			}
			if name := x.rows[table+"/"+e.Cell.Row]; name != "X" {
				got[name] = string(e.Value)
			}
		}
	}
	return got, nil
}

// untilJudged reads until the reader says that it is locked, and gives it ever more time: it cuts
// each read off at a request for the time, which the reader sends to judge a lock. Its client also
// asks for start timestamps ahead of time, so the requests may be others.
func (x *crashRun) untilJudged(read func(context.Context) error) (err error) {
	const mostRequests = 32
	for n := int64(2); n <= mostRequests; n *= 2 {
		err = x.cutOff(n, read)
		if !errors.Is(err, context.Canceled) || errors.Is(err, percolator.ErrLocked) {
			break
		}
	}
	return err
}

// cutOff reads until the reader's client asks the oracle for the nth time.
func (x *crashRun) cutOff(n int64, read func(context.Context) error) error {
	ctx, cancel := context.WithCancel(x.ctx)
	defer cancel()
	var asked atomic.Int64
	faults := x.env.FaultsOf(x.other)
	faults.Handle(func(r percolatortest.Request) percolatortest.Action {
		if r.Method == percolatortest.Oracle && asked.Add(1) == n {
			cancel()
		}
		return percolatortest.Pass
	})
	defer faults.Handle(nil)
	return read(ctx)
}

// meetWriter overwrites all cells, without having read them.
func (x *crashRun) meetWriter() {
	x.Helper()
	before := x.snapshot()
	x.waitOutTTL(func() {
		_, err := x.other.Update(x.ctx, func(_ context.Context, tx *percolator.Txn) error {
			x.foreign[tx.StartTimestamp()] = true
			return errors.Join(tx.Set(x.cell("S2"), nil), tx.Set(x.cell("S1"), nil), tx.Set(x.cell("P"), nil))
		}, percolator.MaxAttempts(1))
		if x.undecided() && (!errors.Is(err, percolator.ErrConflict) || !errors.Is(err, percolator.ErrLocked)) {
			x.Errorf("a writer that met live locks: %v, want ErrConflict and ErrLocked", err)
		}
	})
	x.write("rewritten", "S2", "S1", "P")
	got, err := x.getAll(x.ctx, before)
	fixture.Must(x, err)
	x.wantAt(before.StartTimestamp(), got)
}

// meetOlderWriters commits transactions that began before this one, each to one of its cells.
func (x *crashRun) meetOlderWriters() {
	x.Helper()
	for i, name := range []string{"S2", "S1", "P"} {
		fixture.Must(x, x.older[i].Set(x.cell(name), []byte("older")))
		_, err := x.older[i].Commit(x.ctx)
		var conflict *percolator.ConflictError
		if !errors.As(err, &conflict) || conflict.Locked || conflict.OtherTS != x.commitTS {
			x.Errorf("an older writer of %s: %v, want a conflict with the commit at %d", name, err, x.commitTS)
		}
	}
	if n := x.ownLocks(); n != 0 && !x.loose {
		x.Errorf("%d locks left after writers of all cells", n)
	}
}

// meetWorker looks for work as the workers do and resolves the locks that it finds. Nobody reads.
func (x *crashRun) meetWorker() {
	x.Helper()
	x.waitOutTTL(func() {
		for l, r := range x.resolveAll() {
			if l.StartTS == x.startTS() && r != model.LockAlive && x.undecided() {
				x.Errorf("the live lock on %s was %v", l.Cell, r)
			}
		}
	})
	x.resolveAll()
	if n := x.ownLocks(); n != 0 && !x.loose {
		x.Errorf("%d locks left after a worker", n)
	}
	notified := x.notifications()
	for name, at := range notified {
		if !x.committed && name != "W" && len(at) != x.observedWrites(name) {
			x.Errorf("%s is notified at %v without a commit", name, at)
		}
	}
	if !x.committed {
		return
	}
	for _, name := range x.notifiedCells() {
		if !notified[name][x.commitTS] {
			x.Errorf("nobody notifies %s of the commit at %d, only of %v", name, x.commitTS, notified[name])
		}
	}
}

// resolveAll is one search for work.
func (x *crashRun) resolveAll() map[model.Lock]model.Resolution {
	x.Helper()
	return x.resolveBy(x.other)
}

func (x *crashRun) resolveBy(c *percolator.Client) map[model.Lock]model.Resolution {
	x.Helper()
	done := map[model.Lock]model.Resolution{}
	for _, table := range []string{"right", "left"} {
		for p, err := range admin.New(c).ScanPending(x.ctx, table, percolator.Prefix(x.prefix)) {
			if err != nil {
				x.Errorf("searching %s: %v", table, err)
				return done
			}
			for _, l := range p.Locks {
				if done[l], err = admin.New(c).ResolveLock(x.ctx, l); err != nil {
					x.Errorf("resolving the lock on %s: %v", l.Cell, err)
				}
			}
		}
	}
	return done
}
