//go:build unix

package tso

import (
	"errors"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// fireStep is one kind of trouble. It returns when what has to follow has happened.
type fireStep struct {
	name string
	run  func()
}

func (f *fire) steps() []fireStep {
	return []fireStep{
		{"the leader is killed and started again", f.killLeader},
		{"the leader is stopped, and continued when another leads", f.stopLeader},
		{"the leader is ended and started again", f.endLeader},
		{"the leader cannot reach the store", f.cutLeaderOff},
		{"the store is down for all", f.storeDown},
		{"the store loses answers, and delivers late and twice", f.loseAnswers},
		{"the leader's clock jumps an hour forward", func() { f.setClock(time.Hour) }},
		{"the leader's clock jumps an hour back", func() { f.setClock(-time.Hour) }},
		{"the leader's clock jumps forward while it cannot reach the store", f.setClockOfCutOff},
	}
}

func (f *fire) killLeader() {
	old := f.leader(-1)
	f.servers[old].kill()
	f.failures++
	f.leader(old)
	f.everyoneGetsOn()
	f.servers[old].start()
}

func (f *fire) endLeader() {
	old := f.leader(-1)
	f.servers[old].terminate()
	f.failures++
	f.leader(old)
	f.everyoneGetsOn()
	f.servers[old].start()
}

// stopLeader stops the leader until another leads. Callers who have been waiting at its
// own address all that time must be refused when it continues.
func (f *fire) stopLeader() {
	const waiting = 20
	var old int
	f.within("the leader answers", func() bool { // on a connection: later, none can be made
		old = f.leader(-1)
		return f.ask(f.lasting[old]) == nil
	})
	raw := f.lasting[old]
	raw.sent.Store(0)
	f.servers[old].stop()
	f.failures++
	var wg sync.WaitGroup
	for range waiting {
		c := f.witness.caller()
		wg.Go(func() {
			err := c.call(true, func() (Timestamp, error) { return raw.next(f.ctx, 2*processLimit) })
			switch code := status.Code(err); {
			case err == nil || errors.Is(err, errDisorder):
				f.Errorf("the former leader handed out a timestamp to a caller of before (%v)", err)
			case code != codes.FailedPrecondition && code != codes.Unavailable:
				f.Errorf("the former leader answers %v", err)
			}
		})
	}
	f.leader(old)
	f.everyoneGetsOn()
	f.within("the callers wait at the former leader", func() bool { return raw.sent.Load() >= waiting })
	f.servers[old].signal(syscall.SIGCONT)
	wg.Wait()
}

func (f *fire) cutLeaderOff() {
	old := f.leader(-1)
	f.store.inject(f.servers[old].order.Profile, storeDown)
	f.failures++
	f.leader(old)
	f.everyoneGetsOn()
	f.store.inject(f.servers[old].order.Profile, storeFine)
}

// storeDown lasts until nobody has anything left to hand out, and all say so.
func (f *fire) storeDown() {
	f.leader(-1)
	f.store.inject("", storeDown)
	f.within("what was reserved is used up", func() bool {
		for _, raw := range f.raw {
			if code := status.Code(f.ask(raw)); code != codes.Unavailable && code != codes.FailedPrecondition {
				return false
			}
		}
		return true
	})
	f.store.inject("", storeFine)
}

func (f *fire) loseAnswers() {
	f.leader(-1)
	f.store.inject("", storeLoses)
	seen := f.store.writes.Load()
	f.within("answers are lost", func() bool { return f.store.writes.Load() >= seen+12 })
	f.everyoneGetsOn()
	f.store.inject("", storeFine)
}

// setClock sets the leader's clock to by after what has been reserved.
func (f *fire) setClock(by time.Duration) {
	f.jump(f.leader(-1), by)
	version := stored(f.T, f.record).Version
	f.within("windows are reserved by the new clock", func() bool { return stored(f.T, f.record).Version >= version+2 })
}

func (f *fire) jump(server int, by time.Duration) {
	f.servers[server].setClock(stored(f.T, f.record).HighWater.Add(by).Sub(At(time.Now())))
}

// setClockOfCutOff tempts a leader to hand out timestamps that it has not reserved.
func (f *fire) setClockOfCutOff() {
	old := f.leader(-1)
	f.store.inject(f.servers[old].order.Profile, storeDown)
	f.jump(old, time.Hour)
	f.failures++
	f.leader(old)
	f.everyoneGetsOn()
	f.store.inject(f.servers[old].order.Profile, storeFine)
}
