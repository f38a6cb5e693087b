package percolator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/tso"
)

// A transaction that dies leaves locks behind, and whoever meets them cleans up (section 2.2 of the paper). The primary
// cell decides, and only one CheckAndMutateRow on it can win:
//
//	resolve(cell, lock of transaction s):
//	  read the primary
//	  record of s there       → committed: roll this cell forward, at once
//	  rollback marker of s    → roll this cell back
//	  lock of s, or nothing   → alive as long as time placed + TTL lies in the oracle's future and the session of its owner lasts; else
//	                            write the rollback marker on the primary unless a record of s has appeared (I8),
//	                            and decide again
//
// This cell is changed only on the condition that it still holds the lock (I9): between seeing the lock and the verdict the
// transaction may have committed here and the primary's record been collected, and an unconditional erase would then
// destroy committed data. Everything matches on the exact start timestamp.
//
// That one judge believes a lock dead earlier than another costs performance only; it never costs an answer, because every
// roll back passes the primary.

// Resolution is what became of a lock.
type Resolution int

const (
	LockAlive         Resolution = iota // its transaction is alive and undecided: come back later
	LockRolledForward                   // the transaction had committed; the cell now shows it
	LockRolledBack                      // the transaction can no longer commit; the lock is erased
	LockGone                            // the lock had been settled by somebody else
)

// String names the resolution for messages.
func (r Resolution) String() string {
	return [...]string{"alive", "rolled forward", "rolled back", "gone"}[r]
}

// Lock is a lock as it stands in the store, for tools and observers.
type Lock struct {
	Cell     Cell
	Primary  Cell // where the fate of its transaction is decided
	StartTS  tso.Timestamp
	Placed   tso.Timestamp // oracle time when it was placed or refreshed
	TTL      time.Duration // it may be judged dead after Placed + TTL
	Session  string        // the lease of its client; "" for none
	Observed bool          // its commit notifies observers
	Kind     string        // "put", "delete" or "lock"
}

func (l *lockRecord) export(c Cell) Lock {
	name := map[kind]string{kindPut: "put", kindDelete: "delete", kindLock: "lock"}[l.kind]
	return Lock{Cell: c, Primary: l.primary, StartTS: l.startTS, Placed: l.placed, TTL: l.ttl, Session: l.session, Observed: l.observed, Kind: name}
}

// ResolveLock settles a lock that ScanPending returned if it can be settled now; it never waits for its owner. The lock may have been
// settled, and even collected, since it was found: what counts is what the cell holds. Errors: ErrCorrupt for a lock that
// contradicts the protocol, and those of the store.
func (c *Client) ResolveLock(ctx context.Context, l Lock) (Resolution, error) {
	if !c.knowsTable(ctx, l.Cell.Table) {
		return LockAlive, unknownTable(l.Cell.Table)
	}
	if l.StartTS <= 0 {
		return LockAlive, cellErr(ErrInvalidArgument, l.Cell, "a lock of transaction %d, which no transaction is", l.StartTS)
	}
	rv, err := c.readVersions(ctx, l.Cell.Table, l.Cell.Row, lockFilter(l.Cell.Column, l.StartTS))
	if err != nil {
		return LockAlive, err
	}
	v := rv[l.Cell.Column]
	switch {
	case v == nil:
		return LockGone, nil
	case v.corrupt != nil:
		return LockAlive, v.corrupt
	}
	s, err := c.resolve(ctx, l.Cell, v.locks[0], true)
	return s.resolution, err
}

// fate is what the primary says about a transaction.
type fate int

const (
	fateUnknown    fate = iota // neither record nor lock: not yet prewritten there, or collected
	fateLocked                 // its lock is on the primary
	fateCommitted              // its record is on the primary
	fateRolledBack             // its rollback marker is on the primary
)

// decision is the fate of a transaction with what supports it.
type decision struct {
	fate     fate
	commitTS tso.Timestamp
	lock     lockRecord // the primary's lock, for fateLocked
}

// final reports that the fate cannot change any more. Such a decision is remembered: a reader that meets many locks of one
// transaction looks at its primary once.
func (d decision) final() bool { return d.fate == fateCommitted || d.fate == fateRolledBack }

// txnID names a transaction as its locks do.
type txnID struct {
	primary Cell
	startTS tso.Timestamp
}

// fatesRemembered bounds what a client remembers of decided transactions; an entry is a cell's name and two numbers.
const fatesRemembered = 4096

// decide reads the fate of startTS off what primaryFilter returned. It is pure.
func decide(primary Cell, startTS tso.Timestamp, v *versions) (decision, error) {
	if v == nil {
		return decision{}, nil
	}
	if v.corrupt != nil {
		return decision{}, v.corrupt
	}
	for _, w := range v.writes {
		switch {
		case w.startTS != startTS:
			continue
		case w.kind == kindRollback:
			return decision{fate: fateRolledBack}, nil
		}
		return decision{fate: fateCommitted, commitTS: w.commitTS}, nil
	}
	for _, l := range v.locks {
		if l.startTS != startTS {
			continue
		}
		if l.primary != primary {
			return decision{}, cellErr(ErrCorrupt, primary, "the lock of transaction %d on its primary names another primary, %s", startTS, l.primary)
		}
		return decision{fate: fateLocked, lock: l}, nil
	}
	return decision{}, nil
}

// fateOf reads the primary.
func (c *Client) fateOf(ctx context.Context, primary Cell, startTS tso.Timestamp) (decision, error) {
	rv, err := c.readVersions(ctx, primary.Table, primary.Row, primaryFilter(primary.Column, startTS))
	if err != nil {
		return decision{}, err
	}
	return decide(primary, startTS, rv[primary.Column])
}

// settlement is how a lock was settled.
type settlement struct {
	resolution Resolution
	commitTS   tso.Timestamp // with LockRolledForward
}

// resolve settles the lock l on cell, without waiting. fresh: the lock has just been read, so that on its own primary there is no need to
// look again whether it is there; who asks again and again about a lock that was read once is not fresh.
func (c *Client) resolve(ctx context.Context, cell Cell, l lockRecord, fresh bool) (settlement, error) {
	if !c.knowsTable(ctx, l.primary.Table) {
		return settlement{}, cellErr(ErrCorrupt, cell, "the lock of transaction %d names a primary in table %q, which is not in the schema", l.startTS, l.primary.Table)
	}
	id := txnID{l.primary, l.startTS}
	var suspect lockRecord // seems dead, as far as it was seen
	for ; ; fresh = false {
		d, known := c.fates.Get(id)
		seen := !known && fresh && cell == l.primary // should it be gone, I8 says so
		switch {
		case seen:
			d = decision{fate: fateLocked, lock: l}
		case !known:
			var err error
			if d, err = c.fateOf(ctx, l.primary, l.startTS); err != nil {
				return settlement{}, err
			}
		}
		if d.final() {
			c.fates.Add(id, d)
		}
		switch d.fate {
		case fateCommitted:
			return c.rollForward(ctx, cell, l, d.commitTS)
		case fateRolledBack:
			return c.rollBackCell(ctx, cell, l.startTS)
		}
		judged := l // an empty primary is normal while prewrites are in flight
		if d.fate == fateLocked {
			judged = d.lock // only the primary is refreshed
		}
		if judged != suspect {
			dead, err := c.isDead(ctx, judged)
			if err != nil || !dead {
				return settlement{resolution: LockAlive}, err
			}
		}
		if seen { // some time may have passed since, and the owner may have refreshed it
			suspect = judged
			continue
		}
		matched, err := c.rollBackPrimary(ctx, l.primary, l.startTS, nil)
		if err != nil {
			return settlement{}, err
		}
		if matched {
			continue // it was committed, or somebody else was faster: read which
		}
		c.fates.Add(id, decision{fate: fateRolledBack})
		if cell == l.primary {
			c.count.rolledBack.Add(1)
			c.trace.current(ctx).event("percolator.lock.resolved", cell.Table, "rolled_back")
			return settlement{resolution: LockRolledBack}, nil
		}
		return c.rollBackCell(ctx, cell, l.startTS)
	}
}

// knowsTable asks the stored schema before it says no: the table may be new.
func (c *Client) knowsTable(ctx context.Context, table string) bool {
	if _, ok := c.catalog.Load().tables[table]; ok {
		return true
	}
	if _, err := c.meta.refresh(ctx); err != nil {
		return false
	}
	_, ok := c.catalog.Load().tables[table]
	return ok
}

// isDead asks the oracle for the time, as no two machines' clocks are compared, and then for the session of the lock's owner.
func (c *Client) isDead(ctx context.Context, l lockRecord) (bool, error) {
	now, err := c.next(ctx)
	if err != nil {
		return false, err
	}
	return now > l.placed.Add(l.ttl) || c.alive.hasEnded(ctx, l.session), nil
}

// rollBackPrimary makes it impossible for startTS to commit, unless it has already been decided: matched says that a record
// or marker was there. siblings are further columns of the primary's row that the transaction locked. An unknown outcome
// is sent again: the predicate makes it idempotent.
func (c *Client) rollBackPrimary(ctx context.Context, primary Cell, startTS tso.Timestamp, siblings []string) (matched bool, err error) {
	mut := bigtable.NewMutation()
	for _, col := range append([]string{primary.Column}, siblings...) {
		eraseExactly(mut, lockFamily, col, startTS)
		eraseExactly(mut, dataFamily, col, startTS)
	}
	mut.Set(writeFamily, primary.Column, cellTime(startTS), encodeWrite(startTS, kindRollback))
	return c.sendAgain(ctx, func(ctx context.Context) (bool, error) {
		return c.store.checkAndMutate(ctx, primary.Table, primary.Row, startFilter(primary.Column, startTS), nil, mut)
	})
}

// rollForward does for one cell what phase two of its transaction would have done, the notification included (I10).
func (c *Client) rollForward(ctx context.Context, cell Cell, l lockRecord, commitTS tso.Timestamp) (settlement, error) {
	mut := bigtable.NewMutation()
	commitCell(mut, cell.Column, l.kind, l.startTS, commitTS, l.observed)
	held, err := c.sendAgain(ctx, func(ctx context.Context) (bool, error) {
		return c.store.checkAndMutate(ctx, cell.Table, cell.Row, lockFilter(cell.Column, l.startTS), mut, nil)
	})
	if err != nil {
		return settlement{}, err
	}
	if !held {
		return settlement{resolution: LockGone, commitTS: commitTS}, nil
	}
	c.count.rolledForward.Add(1)
	c.trace.current(ctx).event("percolator.lock.resolved", cell.Table, "rolled_forward")
	if l.observed {
		c.notified(Notification{cell, commitTS})
	}
	return settlement{LockRolledForward, commitTS}, nil
}

// rollBackCell erases the lock and the data of a transaction that the primary says will never commit (I9).
func (c *Client) rollBackCell(ctx context.Context, cell Cell, startTS tso.Timestamp) (settlement, error) {
	mut := bigtable.NewMutation()
	eraseExactly(mut, lockFamily, cell.Column, startTS)
	eraseExactly(mut, dataFamily, cell.Column, startTS)
	held, err := c.sendAgain(ctx, func(ctx context.Context) (bool, error) {
		return c.store.checkAndMutate(ctx, cell.Table, cell.Row, lockFilter(cell.Column, startTS), mut, nil)
	})
	if err != nil {
		return settlement{}, err
	}
	if !held {
		return settlement{resolution: LockGone}, nil
	}
	c.count.rolledBack.Add(1)
	c.trace.current(ctx).event("percolator.lock.resolved", cell.Table, "rolled_back")
	return settlement{resolution: LockRolledBack}, nil
}

// sendAgain repeats an idempotent conditional request while its outcome is unknown, for at most the request lifetime
// (I14). After a repetition "matched" may be the doing of the first sending; callers treat both alike.
func (c *Client) sendAgain(ctx context.Context, send func(context.Context) (bool, error)) (bool, error) {
	if err := checkContext(ctx); err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.store.timing.RequestLifetime)
	defer cancel()
	pause := newBackoff(5*time.Millisecond, time.Second)
	for {
		matched, err := send(ctx)
		if err == nil || !maybeApplied(err) || errors.Is(err, ErrClosed) {
			return matched, err
		}
		if perr := pause.wait(ctx); perr != nil {
			return false, fmt.Errorf("%w: %w", err, perr)
		}
	}
}
