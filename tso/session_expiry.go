package tso

import (
	"context"
	"maps"
	"time"
)

const (
	// removalBatch is how many sessions one write removes from the store.
	removalBatch = 500

	// removalPause is how long the store is left alone after it failed.
	removalPause = 500 * time.Millisecond
)

// run loads the sessions and ends those that are not renewed, until ctx ends.
func (t *sessionTenure) run(ctx context.Context) {
	if t.store == nil {
		return
	}
	// The leader serves timestamps in the meantime.
	err := retry(ctx, t.logger, "the sessions cannot be loaded, none are kept meanwhile",
		newPause(20*time.Millisecond, time.Second), t.load)
	if err != nil || ctx.Err() != nil {
		return
	}
	t.logger.Info("keeping sessions", "open", t.count())
	x := expiry{sessionTenure: t, every: max(t.lease/8, time.Millisecond), ended: t.mono()}
	ticker := time.NewTicker(x.every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-t.wake:
		}
		x.round(ctx)
	}
}

// expiry ends sessions, round by round, each of which looks only at those that are due.
type expiry struct {
	*sessionTenure
	every   time.Duration // from round to round
	ended   time.Duration // when the last round ended
	lapsed  bool          // this server could not renew its own lease for a while
	failing bool          // the store does not remove sessions
	retryAt time.Duration
}

// round ends the sessions that are due.
//
// When this server has not served for a while, because it was stopped or its own lease had run out,
// no one could renew: then every session gets a whole lease once more.
func (x *expiry) round(ctx context.Context) {
	now := x.mono()
	defer func() { x.ended = x.mono() }()
	switch {
	case !x.leads():
		x.lapsed = true
		return
	case x.lapsed || now-x.ended > x.lease/2:
		x.lapsed = false
		x.spare(now + x.lease)
	}
	for {
		ids := x.due(now)
		if len(ids) == 0 {
			return
		}
		if now < x.retryAt || !x.remove(ctx, ids) {
			x.report()
			return
		}
	}
}

// spare lets no session end before floor.
func (x *expiry) spare(floor time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.floor = floor
}

// due finds sessions whose leases have run out, and returns some that have to be removed from the
// store.
func (x *expiry) due(now time.Duration) []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	for range removalBatch {
		e := x.order.Front()
		if e == nil || max(e.Value.(*leased).deadline, x.floor) > now {
			break
		}
		s := x.drop(e)
		x.expired[s.id] = s
	}
	var ids []string
	for _, set := range []map[string]*leased{x.expired, x.gone} {
		for id := range set {
			if len(ids) == removalBatch {
				return ids
			}
			ids = append(ids, id)
		}
	}
	return ids
}

// remove removes ids from the store.
func (x *expiry) remove(ctx context.Context, ids []string) bool {
	if !x.leads() { // a successor keeps them
		x.lapsed = true
		return false
	}
	writeCtx, cancel := context.WithTimeout(ctx, sessionWriteTimeout)
	defer cancel()
	if err := x.store.RemoveSessions(writeCtx, ids...); err != nil {
		if !x.failing && ctx.Err() == nil {
			x.logger.Warn("sessions that have ended cannot be removed from the store", "error", err)
		}
		x.failing, x.retryAt = true, x.mono()+removalPause
		return false
	}
	if x.failing {
		x.logger.Info("sessions are removed from the store again")
	}
	x.failing = false
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, id := range ids {
		x.forget(id)
	}
	return true
}

// report counts sessions as ended that could not be removed. A successor may believe for a lease
// that they live, which delays those who wait for them.
func (x *expiry) report() {
	x.mu.Lock()
	defer x.mu.Unlock()
	maps.Copy(x.gone, x.expired)
	clear(x.expired)
}
