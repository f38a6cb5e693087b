package tso

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
)

// liveness keeps sessions, row locks and hints while this server leads.
type liveness struct {
	sessions sessionConfig
	rowLocks int           // the most row locks
	hints    int           // the most hints
	share    int           // of one peer, in percent
	leader   func() string // the address of who leads

	current atomic.Pointer[tenure]
	running sync.WaitGroup
}

func newLiveness(store Store, cfg ServerConfig, c clock, alloc *allocator) *liveness {
	keeper, _ := store.(SessionStore)
	return &liveness{
		sessions: sessionConfig{
			store: keeper, lease: cfg.SessionLease, most: cfg.MaxSessions, share: cfg.PeerShare, clock: c, logger: cfg.Logger,
			leads: func() bool { return alloc.report().holds },
		},
		rowLocks: cfg.MaxRowLocks,
		hints:    cfg.MaxHints,
		share:    cfg.PeerShare,
	}
}

// tenure is what a leader keeps from the beginning of its leadership to the end.
type tenure struct {
	sessions *sessionTenure
	rowLocks *rowLockTable
	hints    *hintTable
	ctx      context.Context // ends with the tenure
	stop     context.CancelFunc
}

// begin is called when this server becomes the leader, end when it no longer is. ctx ends with the
// server. Calls of former tenures only touch what belongs to their tenure.
func (l *liveness) begin(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	t := &tenure{
		sessions: newSessionTenure(l.sessions),
		rowLocks: newRowLockTable(l.rowLocks, l.share, l.sessions.mono),
		hints:    newHintTable(l.hints, l.share, l.sessions.mono),
		ctx:      ctx,
		stop:     cancel,
	}
	l.current.Store(t)
	l.running.Go(func() { t.sessions.run(ctx) })
	l.running.Go(func() { t.rowLocks.run(ctx) })
	l.running.Go(func() { t.hints.run(ctx) })
}

func (l *liveness) end() {
	if t := l.current.Swap(nil); t != nil {
		t.stop()
	}
}

// wait returns when nothing of this server's tenures runs any more.
func (l *liveness) wait() { l.running.Wait() }

// do calls f with what this server keeps as the leader. It checks that the server leads, by its own
// clocks, before f, because f may write to the store, and after, because a process that was stopped
// in between could know less than its successor. Correctness does not need the checks
// (docs/PROTOCOL.md, I8); they spare others work.
func (l *liveness) do(f func(t *tenure) error) error {
	t := l.current.Load()
	if err := l.check(t); err != nil {
		return err
	}
	result := f(t)
	if err := l.check(t); err != nil {
		return err
	}
	return result
}

// check returns an error unless this server leads, in the tenure t.
func (l *liveness) check(t *tenure) error {
	switch {
	case t == nil || l.current.Load() != t:
		return &NotLeaderError{Leader: l.leader()}
	case !l.sessions.leads():
		return fmt.Errorf("tso: %w: its lease has ended and could not be renewed", ErrUnavailable)
	}
	return nil
}

// counts returns how many sessions are open and how many rows are locked here.
func (l *liveness) counts() (sessions, rowLocks int) {
	t := l.current.Load()
	if t == nil {
		return 0, 0
	}
	return t.sessions.count(), t.rowLocks.count()
}
