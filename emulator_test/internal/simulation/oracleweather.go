package simulation

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/gopercolator/percolator/internal/engine/retry"
)

// oracleWeather hands the oracle over from server to server, and suspends their machines, until ctx
// ends. It has dice of its own.
func (w *world) oracleWeather(ctx context.Context) {
	if w.cfg.intensity == 0 {
		return
	}
	r := w.dice.next("oracle weather")
	for retry.Sleep(ctx, 5*w.until(r)) == nil {
		kind, own := w.handOver, rand.New(rand.NewPCG(r.Uint64(), r.Uint64()))
		if r.IntN(3) > 0 {
			kind = w.suspendServer
		}
		w.ending.Go(func() { kind(ctx, own) })
	}
}

func (w *world) handOver(_ context.Context, r *rand.Rand) {
	if !w.tally.add(serverHandedOver) {
		return
	}
	if err := w.oracle.handOver(w.oracle.leading(), time.Duration(r.Int64N(int64(5*time.Second)))); err != nil {
		w.problem("starting an oracle: %v", err)
	}
}

// suspendServer suspends the machine of the leader, mostly for longer than its lease. Its wall
// clock, its boot-time clock or both show that when it continues. What no clock shows, nobody can
// know who has no timestamp yet, so there is no such suspension here, nor a wall clock that is set
// back within a lease that it alone could end. The way to the store is back some time after the
// machine.
func (w *world) suspendServer(ctx context.Context, r *rand.Rand) {
	address, d, offline := w.oracle.leading(), time.Duration(r.Int64N(int64(8*time.Second))), time.Duration(r.Int64N(int64(3*time.Second)))
	boot, wall := true, true
	switch r.IntN(3) {
	case 0:
		boot = false
	case 1:
		wall = false
	}
	s := w.oracle.at(address)
	if s == nil || !s.up.suspend(boot) {
		return
	}
	if !w.tally.add(serverSuspended) {
		s.up.resume(true, true)
		return
	}
	s.gate.shut()
	s.store.cut.Store(true)
	_ = retry.Sleep(ctx, d)
	s.up.resume(boot, wall)
	s.gate.open()
	_ = retry.Sleep(ctx, offline)
	s.store.cut.Store(false)
}

// uptime is what the clocks of a server's machine show. They stand still while it is suspended.
type uptime struct {
	begun time.Time

	mu               sync.Mutex
	suspended        time.Time     // since when; zero: the machine runs
	mono, boot, wall time.Duration // how far they are behind because they stood still

	// What a lease may depend on: when the wall clock was last set back, and until when it alone
	// shows that the machine was suspended.
	setBack, wallAlone time.Time
}

// oracleLease is how long a lease of the oracle lasts at most.
const oracleLease = 3 * time.Second

// at is the time by which they go. The caller holds mu.
func (u *uptime) at() time.Time {
	if u.suspended.IsZero() {
		return time.Now()
	}
	return u.suspended
}

// now is what the wall clock shows.
func (u *uptime) now() time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.at().Add(-u.wall)
}

// read returns what the others show.
func (u *uptime) read() (mono, boot time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	up := u.at().Sub(u.begun)
	return up - u.mono, up - u.boot
}

// suspend stops the clocks. It refuses if they stand still already, or if none of them would show
// the suspension; boot says whether the boot-time clock will.
func (u *uptime) suspend(boot bool) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.suspended.IsZero() || !boot && time.Since(u.setBack) < oracleLease {
		return false
	}
	u.suspended = time.Now()
	return true
}

// resume lets the clocks go on; boot and wall say which of them show that time has passed.
func (u *uptime) resume(boot, wall bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	d := time.Since(u.suspended)
	u.suspended = time.Time{}
	u.mono += d
	if !boot {
		u.boot += d
		u.wallAlone = time.Now().Add(oracleLease)
	}
	if !wall {
		u.wall += d
	}
}

// maySetBack reports whether the wall clock may be set back now, and remembers that it was. Nobody
// sets the clock of a machine that is suspended.
func (u *uptime) maySetBack() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.suspended.IsZero() || time.Now().Before(u.wallAlone) {
		return false
	}
	u.setBack = time.Now()
	return true
}
