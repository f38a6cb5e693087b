package tso

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/gopercolator/percolator/tso/internal/record"
)

// timing is what follows from the configured lease and window.
type timing struct {
	// term is what a holder writes into the record: how long others wait. The configured lease
	// promises that a new leader serves that long after the old one has died, so term is shorter by
	// the time that it takes to see the last renewal and to take over.
	term time.Duration

	// serve is how long the holder itself serves, counted from before it sent the write. It is 2 %
	// shorter than term, because the speed of two machines' clocks may differ by as much.
	serve time.Duration

	renew   time.Duration // between renewals, each of which extends the window too
	poll    time.Duration // between a follower's readings of the record
	attempt time.Duration // deadline of one write to the store
	read    time.Duration // deadline of one reading
	retry   time.Duration // pause after the store failed
	window  time.Duration
}

func newTiming(lease, window time.Duration) timing {
	term := lease * 5 / 6
	return timing{
		term:    term,
		serve:   term - term/50,
		renew:   min(lease/3, window/2),
		poll:    min(lease/24, 125*time.Millisecond),
		attempt: max(lease/6, 250*time.Millisecond),
		read:    max(lease/3, time.Second),
		retry:   min(lease/30, 100*time.Millisecond),
		window:  window,
	}
}

// elector takes part in the election of the leader (run), and leads.
//
// A record is the holder's from the moment its write is applied. The holder counts its lease from
// before it sent that write, by whichever of its clocks shows most. A follower counts from after it
// read the record, by its monotonic clock, which shows least: whatever the delays, the holder has
// stopped when the follower has waited. Only the record determines who is next: of two followers
// that have waited, one swap fails.
type elector struct {
	timing
	clock  clock
	store  Store
	alloc  *allocator
	keeps  *liveness // what begins and ends with the leadership
	id     string
	logger *slog.Logger

	// address is this server's, leader the one that followers give their clients.
	address string
	leader  atomic.Pointer[string]

	// seen is the record that was read or written last. ambiguous: a write was given up without
	// knowing whether it replaced seen. lease is what the write got by which this server leads.
	seen      State
	ambiguous bool
	lease     lease

	// What has to hold before this server takes part: see [ServerConfig].
	requireRecord bool
	served        func(ctx context.Context) (Timestamp, error)

	writes    atomic.Int64 // swaps sent to the store
	elections atomic.Int64 // times this server became the leader
}

// leaderAddress returns the address of the leader, "" when none is known.
func (e *elector) leaderAddress() string {
	if p := e.leader.Load(); p != nil {
		return *p
	}
	return ""
}

func (e *elector) setLeader(address string) { e.leader.Store(&address) }

// run follows and leads in turn until ctx ends; it then hands the lease over and returns nil. It
// returns an error if the record is damaged, missing although it is required, or older than what is
// known to have been served, or cannot be read at the start.
func (e *elector) run(ctx context.Context) error {
	if err := e.start(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	for {
		err := e.follow(ctx)
		if err == nil {
			err = e.acquire(ctx)
		}
		if err == nil {
			err = e.lead(ctx)
		}
		switch {
		case ctx.Err() != nil:
			e.release(ctx)
			return nil
		case err != nil:
			return err
		}
	}
}

// follow returns when the lease in e.seen is free: the holder handed it over, or the record has not
// changed for as long as the lease says.
func (e *elector) follow(ctx context.Context) error {
	seenAt, failing := e.clock.mono(), false
	for e.seen.held() {
		e.setLeader(e.seen.Address)
		left := e.seen.Lease - (e.clock.mono() - seenAt)
		if left <= 0 {
			e.logger.Info("the lease of the oracle's leader has run out", "epoch", e.seen.Epoch, "address", e.seen.Address)
			break
		}
		if err := sleep(ctx, min(e.poll, left)); err != nil {
			return err
		}
		changed, err := e.reload(ctx)
		switch {
		case errors.Is(err, ErrCorrupt):
			return err
		case err != nil && !failing: // the lease goes on running out
			e.logger.Warn("the oracle's record cannot be read", "error", err)
		case changed:
			seenAt = e.clock.mono() // after the reading: see elector
		}
		failing = err != nil
	}
	e.setLeader("")
	return ctx.Err()
}

// reload reads the record into e.seen.
func (e *elector) reload(ctx context.Context) (changed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, e.read)
	defer cancel()
	st, err := e.store.Load(ctx)
	if err != nil {
		return false, err
	}
	if err := e.seen.checkReread(st); err != nil {
		return false, err
	}
	changed = st != e.seen
	e.seen = st
	return changed, nil
}

// acquire takes the lease that e.seen leaves free, and with the same write reserves the first
// window. When another server was faster, it returns nil without the lease.
func (e *elector) acquire(ctx context.Context) error {
	if e.seen.HighWater >= MaxTimestamp {
		return fmt.Errorf("tso: %w: the high-water mark is %d", ErrExhausted, e.seen.HighWater)
	}
	floor := e.seen.HighWater
	next := e.seen.successor()
	next.Epoch++
	next.Holder, next.Address, next.Lease = e.id, e.address, e.term
	next.HighWater = max(next.HighWater, min(max(floor, e.clock.now())+ticksIn(e.window), MaxTimestamp))

	if err := e.swap(ctx, next); err != nil || e.seen != next {
		return err
	}
	e.elections.Add(1)
	e.setLeader(e.address)
	e.keeps.begin(ctx) // first: a caller that finds the leader by Next may use the rest at once
	e.alloc.lead(floor, next.HighWater, e.lease)
	e.logger.Info("leading the oracle", "epoch", next.Epoch, "address", e.address, "above", int64(floor))
	if ahead := floor.Sub(e.clock.now()); ahead > e.window {
		e.logger.Warn("the clock is behind the timestamps served so far", "by", ahead)
	}
	return nil
}

// swap replaces e.seen by next and repeats the same swap until its outcome is known. It returns
// with next or another server's record in e.seen; after next, e.lease is from before the first
// attempt was sent.
func (e *elector) swap(ctx context.Context, next State) error {
	got := lease{from: e.clock.moment(), length: e.serve, doubts: e.alloc.doubted()}
	for failed := false; ; failed = true {
		err := e.swapOnce(ctx, next)
		if err == nil {
			e.seen, e.lease = next, got
			if failed {
				e.logger.Info("the oracle's store answers again")
			}
			return nil
		}
		if errors.Is(err, ErrFenced) {
			if _, err = e.reload(ctx); err == nil {
				return nil
			}
		}
		switch {
		case ctx.Err() != nil:
			e.ambiguous = true
			return ctx.Err()
		case errors.Is(err, ErrCorrupt), errors.Is(err, ErrInvalidArgument), record.Permanent(err) && !e.mine():
			return err // a leader, however, waits for its permissions to come back
		}
		if !failed {
			e.logger.Warn("the oracle's record cannot be written", "error", err)
		}
		e.alloc.fail(err)
		if err := sleep(ctx, e.retry); err != nil {
			e.ambiguous = true
			return err
		}
	}
}

func (e *elector) swapOnce(ctx context.Context, next State) error {
	ctx, cancel := context.WithTimeout(ctx, e.attempt)
	defer cancel()
	e.writes.Add(1)
	return e.store.CompareAndSwap(ctx, e.seen, next)
}

// mine reports whether this server holds the lease in the record seen last.
func (e *elector) mine() bool { return e.seen.Holder == e.id }

// lead renews the lease and extends the window until another server has the lease or ctx ends.
// Nothing is served after it has returned.
func (e *elector) lead(ctx context.Context) error {
	if !e.mine() {
		return nil
	}
	defer e.keeps.end()
	defer e.alloc.revoke() // first: what else ends with the lease may take a while
	watch := clockWatch{clock: e.clock, logger: e.logger, tolerance: e.window}
	watch.start()
	for {
		if err := e.untilRenewal(ctx); err != nil {
			return err
		}
		watch.check(e.alloc.isBehind())
		next := e.seen.successor()
		next.HighWater = max(next.HighWater, e.alloc.target())
		if err := e.swap(ctx, next); err != nil {
			return err
		}
		if e.seen != next {
			e.logger.Warn("no longer leading the oracle, the record has changed",
				"epoch", next.Epoch, "now", e.seen.Epoch, "leader", e.seen.Address)
			return nil
		}
		// A swap that took long to succeed may have got a lease that has already ended. The loop
		// renews it at once, and nothing is served until then.
		e.alloc.extend(next.HighWater, e.lease)
	}
}

// untilRenewal waits until the lease has to be renewed or the window is running out.
func (e *elector) untilRenewal(ctx context.Context) error {
	timer := time.NewTimer(e.lease.from.mono + e.renew - e.clock.mono())
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return ctx.Err()
		case <-ctx.Done():
			return ctx.Err()
		case <-e.alloc.wanted:
			if e.alloc.low() { // the request may be from before the last extension
				return ctx.Err()
			}
		}
	}
}

// releaseTimeout bounds the hand-over of the lease when a server ends.
const releaseTimeout = time.Second

// release hands the lease over if this server holds it, so that the next leader need not wait.
// Nothing is served any more; if the write fails, the lease runs out.
func (e *elector) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	if e.ambiguous && !e.mine() { // it may have become the holder after all
		if _, err := e.reload(ctx); err != nil {
			return
		}
	}
	for tries := 0; tries < 3 && e.mine(); tries++ {
		next := e.seen.successor()
		next.Holder, next.Address, next.Lease = "", "", 0
		err := e.swapOnce(ctx, next)
		if err == nil {
			e.logger.Info("handed the oracle's lease over", "epoch", next.Epoch)
			return
		}
		// An ambiguous renewal may have been applied: the lease is still this server's, in another
		// record.
		if _, reloadErr := e.reload(ctx); reloadErr != nil {
			e.logger.Warn("the oracle's lease could not be handed over and runs out", "error", err)
			return
		}
	}
}

// start reads the record for the first time and refuses one that could make the oracle hand out
// timestamps a second time.
func (e *elector) start(ctx context.Context) error {
	pause := backoff.NewConstantBackOff(max(e.retry, 100*time.Millisecond))
	served := Timestamp(0)
	if e.served != nil {
		// Before the record is read, because another server may serve, and extend its mark, in
		// between.
		err := retry(ctx, e.logger, "what was served is not known", pause, func(ctx context.Context) (err error) {
			served, err = e.served(ctx)
			return forGood(err)
		})
		if err != nil {
			return fmt.Errorf("tso: finding out what was served: %w", err)
		}
	}
	err := retry(ctx, e.logger, "the oracle's store does not answer", pause, func(ctx context.Context) (err error) {
		e.seen, err = e.store.Load(ctx)
		return forGood(err)
	})
	switch {
	case err != nil:
		return err
	case e.seen == State{} && e.requireRecord:
		return fmt.Errorf("tso: %w", ErrNoRecord)
	case served > e.seen.HighWater:
		return record.Corruptf("its high-water mark is %d, but %d has been served: it was lost, or restored from a backup; "+
			"stop all servers and raise the mark (Raise) above everything that was served", e.seen.HighWater, served)
	}
	return nil
}
