package tso

import (
	"container/list"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

const (
	sessionWriteTimeout = 2 * time.Second  // bounds one write of sessions to the store
	sessionLoadTimeout  = 10 * time.Second // bounds reading all of them
)

// sessionConfig is what the tenures of a server have in common.
type sessionConfig struct {
	store  SessionStore // nil: no sessions
	lease  time.Duration
	most   int // sessions
	mono   func() time.Duration
	leads  func() bool // and the server's lease runs by its own monotonic clock
	logger *slog.Logger
}

// sessionTenure is the sessions of one term of leadership. Which there are is known to
// the store as well; until when they live is known here only.
type sessionTenure struct {
	sessionConfig
	wake chan struct{} // with room for one: there is something to remove

	mu          sync.Mutex
	loaded      bool
	loadFailure error

	// order holds the *leased of open sessions by their deadlines: a renewal moves one to
	// the end, since all leases are of the same length. floor is a later deadline for
	// all whose own is earlier.
	open  map[string]*list.Element
	order *list.List
	floor time.Duration

	// expired holds sessions whose leases have run out: they can no longer be renewed,
	// and count as ended after the first attempt to remove them from the store. gone holds
	// those that have ended and may still be stored.
	expired, gone map[string]struct{}

	// opening counts the sessions that are being stored. unsettled holds ids whose
	// storing failed, perhaps after it was applied: they are used for the next
	// sessions, so that nothing is left in the store that nobody removes.
	opening   int
	unsettled []string
}

// leased is an open session.
type leased struct {
	id       string
	deadline time.Duration // by the server's monotonic clock
}

func newSessionTenure(cfg sessionConfig) *sessionTenure {
	return &sessionTenure{
		sessionConfig: cfg, wake: make(chan struct{}, 1),
		open: make(map[string]*list.Element), order: list.New(),
		expired: make(map[string]struct{}), gone: make(map[string]struct{}),
	}
}

// ready returns an error unless sessions are kept and known. The caller holds mu.
func (t *sessionTenure) ready() error {
	switch {
	case t.store == nil:
		return fmt.Errorf("tso: %w: its store keeps none", ErrUnsupported)
	case !t.loaded:
		return fmt.Errorf("tso: %w: the sessions are not loaded yet%s", ErrUnavailable, because(t.loadFailure))
	}
	return nil
}

// begin opens a session. It is stored before anybody learns of it: a successor knows
// all sessions that were ever answered.
func (t *sessionTenure) begin(ctx context.Context) (string, error) {
	id, err := t.reserve()
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, sessionWriteTimeout)
	defer cancel()
	err = t.store.AddSession(ctx, id)

	t.mu.Lock()
	defer t.mu.Unlock()
	t.opening--
	if err != nil {
		t.unsettled = append(t.unsettled, id)
		return "", fmt.Errorf("tso: opening a session: %w: %w", ErrUnavailable, err)
	}
	t.add(id)
	return id, nil
}

// reserve chooses an id and counts it.
func (t *sessionTenure) reserve() (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.ready(); err != nil {
		return "", err
	}
	if n := len(t.open) + len(t.expired) + len(t.gone) + t.opening; n >= t.most {
		return "", fmt.Errorf("tso: opening a session: %w: there are %d", ErrLimit, n)
	}
	t.opening++
	if last := len(t.unsettled) - 1; last >= 0 {
		id := t.unsettled[last]
		t.unsettled = t.unsettled[:last]
		return id, nil
	}
	return newSessionID(), nil
}

// add gives id a whole lease. The caller holds mu; the clock is read under it, so that
// deadlines are in the order of the list.
func (t *sessionTenure) add(id string) {
	t.open[id] = t.order.PushBack(&leased{id: id, deadline: t.mono() + t.lease})
}

// renew gives id a whole lease again.
func (t *sessionTenure) renew(id string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.ready(); err != nil {
		return err
	}
	e, ok := t.open[id]
	if !ok {
		return fmt.Errorf("tso: renewing a session: %w", errSessionEnded)
	}
	e.Value.(*leased).deadline = t.mono() + t.lease
	t.order.MoveToBack(e)
	return nil
}

// finish ends id at once. It is removed from the store a moment later, together with
// others: if that comes to nothing, a successor believes for a lease that it lives.
func (t *sessionTenure) finish(id string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.ready(); err != nil {
		return err
	}
	e, ok := t.open[id]
	if !ok {
		return nil
	}
	t.drop(e)
	t.gone[id] = struct{}{}
	wake(t.wake)
	return nil
}

// drop takes a session out of those that are open.
func (t *sessionTenure) drop(e *list.Element) {
	delete(t.open, e.Value.(*leased).id)
	t.order.Remove(e)
}

// ended returns those of ids that have ended, or never were.
func (t *sessionTenure) ended(ids []string) ([]string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.ready(); err != nil {
		return nil, err
	}
	var ended []string
	for _, id := range ids {
		_, open := t.open[id]
		_, expired := t.expired[id]
		if !open && !expired {
			ended = append(ended, id)
		}
	}
	return ended, nil
}

// count returns how many sessions are open.
func (t *sessionTenure) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.open)
}

// load reads the sessions and gives each a whole lease.
func (t *sessionTenure) load(ctx context.Context) error {
	loadCtx, cancel := context.WithTimeout(ctx, sessionLoadTimeout)
	defer cancel()
	ids, err := t.store.Sessions(loadCtx)
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		t.loadFailure = err
		return err
	}
	for _, id := range ids {
		if _, ok := t.open[id]; !ok {
			t.add(id)
		}
	}
	t.loaded, t.loadFailure = true, nil
	return nil
}
