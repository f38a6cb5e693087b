package tso

import (
	"errors"
	"fmt"
	"time"
)

// Status is what a [Server] knows about itself and its oracle.
type Status struct {
	// Server identifies the server; a new one every time it starts. Address is where clients find
	// it, "" without a listener.
	Server, Address string

	// Running: Run or Serve has begun and not ended.
	Running bool

	// Leading: this server can hand out timestamps. LeaseLeft is for how long it can, should the
	// store not answer any more.
	Leading   bool
	LeaseLeft time.Duration

	// Leader is the address of the leader as registered in the store, "" when none is known, for
	// instance while an old lease runs out.
	Leader string

	// Record is the record that this server read or wrote last, with the epoch and the high-water
	// mark.
	Record State

	// Served is how many timestamps this server has handed out.
	Served int64

	// StoreAnswered is how long ago the store answered last, negative if it never has. StoreError
	// is what the last request to it failed with, nil if it succeeded.
	StoreAnswered time.Duration
	StoreError    error

	idle        time.Duration // since a request to the store began or ended
	maxIdle     time.Duration
	maxSilence  time.Duration
	windowLeft  time.Duration // 0 unless it holds the lease
	otherLeader bool
	dry         bool // it holds the lease, and its window is used up
}

// Status returns what the server knows, without asking the store. It is safe for concurrent use, at
// any time.
func (s *Server) Status() Status {
	st := Status{
		Server: s.elector.id, Address: s.advertised(), Leader: s.elector.leaderAddress(),
		maxIdle: s.elector.maxIdle(), maxSilence: max(s.cfg.Lease, minSilence),
	}
	select {
	case <-s.ended:
	default:
		st.Running = s.started.Load()
	}
	st.Record, st.idle, st.StoreAnswered, st.StoreError = s.watch.read()
	a := s.alloc.report()
	st.Served, st.Leading, st.windowLeft = a.served, a.serving, a.windowLeft
	st.dry = a.holds && !a.serving
	if a.serving {
		st.LeaseLeft = a.leaseLeft
	}
	st.otherLeader = st.Record.held() && st.Record.Holder != st.Server && st.Leader != ""
	return st
}

// advertised returns the address under which clients find this server.
func (s *Server) advertised() string {
	if p := s.address.Load(); p != nil {
		return *p
	}
	return s.cfg.Advertise
}

// Live returns nil while the election loop makes progress, and otherwise what is wrong: then
// replace the process.
func (st Status) Live() error {
	switch {
	case !st.Running:
		return errors.New("the server does not run")
	case st.idle > st.maxIdle:
		return fmt.Errorf("the election has made no progress for %v", st.idle.Round(time.Millisecond))
	}
	return nil
}

// Ready returns nil when the server leads, or follows a known leader that it would replace: its
// store has answered within the lease. Otherwise it returns what is missing.
func (st Status) Ready() error {
	if err := st.Live(); err != nil {
		return err
	}
	switch {
	case st.Leading:
		return nil
	case st.dry:
		return fmt.Errorf("this server leads, and has no timestamps left while the store cannot be written: %w", st.StoreError)
	case st.StoreAnswered < 0:
		return errors.New("the store has not answered yet")
	case st.StoreAnswered > st.maxSilence:
		return fmt.Errorf("the store has not answered for %v", st.StoreAnswered.Round(time.Millisecond))
	case !st.otherLeader:
		return errors.New("this server does not lead and knows no leader")
	}
	return nil
}

// minSilence is how long a store may be silent before a follower is no longer ready, however short
// its lease: one read may take that long.
const minSilence = 2 * time.Second

// maxIdle is how long the election loop may go without a request to the store beginning or ending:
// one pause and one request, twice.
func (t timing) maxIdle() time.Duration {
	return 2 * (max(t.renew, t.poll, t.retry) + max(t.attempt, t.read, attemptTimeout))
}
