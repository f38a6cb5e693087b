package tso

import (
	"container/list"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/google/uuid"
	grpcpeer "google.golang.org/grpc/peer"

	"github.com/gopercolator/percolator/internal/serve"
	"github.com/gopercolator/percolator/tso/coordination"
)

// sessionWriteTimeout bounds one write of sessions to the store.
const sessionWriteTimeout = 2 * time.Second

// sessionConfig is what the tenures of a server have in common.
type sessionConfig struct {
	clock
	store  coordination.SessionStore // nil: no sessions
	lease  time.Duration
	most   int         // sessions
	share  int         // of one peer, in percent
	leads  func() bool // and the server's lease has not ended by any of its clocks
	logger *slog.Logger
}

// sessionTenure is the sessions of one term of leadership. The store knows which there are as well;
// only the tenure knows until when they live.
type sessionTenure struct {
	sessionConfig
	wake chan struct{} // with room for one: there is something to remove

	mu          sync.Mutex
	loaded      bool
	loadFailure error

	// order holds the *leased of open sessions by their deadlines: a renewal moves one to the end,
	// because all leases have the same length. floor is a later deadline for all sessions with an
	// earlier one.
	open  map[string]*list.Element
	order *list.List
	floor time.Duration

	// claimed counts the sessions of each peer, until the store has forgotten them. Those that were
	// loaded are claimed by the first who renews them.
	claimed *serve.Quota

	// expired holds sessions whose leases have run out: they can no longer be renewed, and count as
	// ended after the first attempt to remove them from the store. gone holds those that have ended
	// and may still be stored.
	expired, gone map[string]*leased

	// opening counts the sessions that are being stored. ambiguous holds ids whose storing failed,
	// perhaps after it was applied: the next sessions of the same owner use them, so that nothing
	// stays in the store that no one removes.
	opening   int
	ambiguous map[string][]string
}

// leased is an open session.
type leased struct {
	id       string
	claimed  bool
	peer     string        // that has claimed it
	deadline time.Duration // by the server's monotonic clock
}

func newSessionTenure(cfg sessionConfig) *sessionTenure {
	return &sessionTenure{
		sessionConfig: cfg, wake: make(chan struct{}, 1),
		open: make(map[string]*list.Element), order: list.New(),
		expired: make(map[string]*leased), gone: make(map[string]*leased),
		claimed: serve.NewSharedQuota(cfg.most, cfg.share), ambiguous: make(map[string][]string),
	}
}

// ready returns an error unless sessions are kept and loaded. The caller holds mu.
func (t *sessionTenure) ready() error {
	switch {
	case t.store == nil:
		return fmt.Errorf("tso: %w: its store keeps none", ErrUnsupported)
	case !t.loaded:
		return fmt.Errorf("tso: %w: the sessions are not loaded yet%s", ErrUnavailable, because(t.loadFailure))
	}
	return nil
}

// begin opens a session. It stores the session before any client learns of it: a successor knows
// all sessions that were ever answered.
func (t *sessionTenure) begin(ctx context.Context) (string, error) {
	peer, owner := peerOf(ctx), ownerOf(ctx)
	id, err := t.reserve(peer, owner)
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
		t.claimed.Release(peer, 1)
		t.ambiguous[owner] = append(t.ambiguous[owner], id)
		return "", fmt.Errorf("tso: opening a session: %w: %w", ErrUnavailable, err)
	}
	t.add(&leased{id: id, claimed: true, peer: peer})
	return id, nil
}

// reserve chooses an id and counts it.
func (t *sessionTenure) reserve(peer, owner string) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.ready(); err != nil {
		return "", err
	}
	if n := len(t.open) + len(t.expired) + len(t.gone) + t.opening; n >= t.most {
		return "", fmt.Errorf("tso: opening a session: %w: there are %d", ErrLimit, n)
	}
	if !t.claimed.Take(peer, 1) {
		return "", fmt.Errorf("tso: opening a session: %w: the peer has %d", ErrLimit, t.claimed.Each)
	}
	t.opening++
	ids := t.ambiguous[owner]
	if last := len(ids) - 1; last >= 0 {
		t.ambiguous[owner] = ids[:last]
		return ids[last], nil
	}
	delete(t.ambiguous, owner)
	return newSessionID(owner), nil
}

// add gives s a whole lease. The caller holds mu; add reads the clock under it, so that deadlines
// are in the order of the list.
func (t *sessionTenure) add(s *leased) {
	s.deadline = t.mono() + t.lease
	t.open[s.id] = t.order.PushBack(s)
}

// renew gives id a whole lease again. errNotOwner: it is not the caller's. ErrLimit: the caller has
// opened others since this server leads, and has its share of them.
func (t *sessionTenure) renew(ctx context.Context, id string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.ready(); err != nil {
		return err
	}
	e, ok := t.open[id]
	if !ok {
		return fmt.Errorf("tso: renewing a session: %w", errSessionEnded)
	}
	s := e.Value.(*leased)
	if !mayEnd(id, ownerOf(ctx)) {
		return fmt.Errorf("tso: renewing a session: %w", errNotOwner)
	}
	if peer := peerOf(ctx); !s.claimed {
		if !t.claimed.Take(peer, 1) {
			return fmt.Errorf("tso: renewing a session: %w: the peer has %d others", ErrLimit, t.claimed.Each)
		}
		s.claimed, s.peer = true, peer
	}
	s.deadline = t.mono() + t.lease
	t.order.MoveToBack(e)
	return nil
}

// finish ends id at once. The store forgets it a moment later, together with others: if that fails,
// a successor believes for a lease that it lives.
func (t *sessionTenure) finish(ctx context.Context, id string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.ready(); err != nil {
		return err
	}
	e, ok := t.open[id]
	if !ok {
		return nil
	}
	if !mayEnd(id, ownerOf(ctx)) {
		return fmt.Errorf("tso: ending a session: %w", errNotOwner)
	}
	t.gone[id] = t.drop(e)
	wake(t.wake)
	return nil
}

// drop takes a session out of those that are open.
func (t *sessionTenure) drop(e *list.Element) *leased {
	s := t.order.Remove(e).(*leased)
	delete(t.open, s.id)
	return s
}

// forget takes a session out of those that may still be stored. The caller holds mu.
func (t *sessionTenure) forget(id string) {
	for _, set := range []map[string]*leased{t.expired, t.gone} {
		if s := set[id]; s != nil && s.claimed {
			t.claimed.Release(s.peer, 1)
		}
		delete(set, id)
	}
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
	ids, err := t.store.Sessions(ctx)
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		t.loadFailure = err
		return err
	}
	for _, id := range ids {
		if _, ok := t.open[id]; !ok {
			t.add(&leased{id: id})
		}
	}
	t.loaded, t.loadFailure = true, nil
	return nil
}

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

// expiry ends sessions, round by round, each of which checks only those that are due.
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

// Every reader of a lock learns the id of its session. So the id of a session whose owner has
// proven an identity is bound to it: 16 random bytes and a hash of them and of the identity. Any
// leader can check that, whichever it succeeds, and nothing else has to be stored.
const (
	randomIDBytes = 16
	ownerBytes    = 8
	boundIDChars  = (randomIDBytes + ownerBytes) / 3 * 4
)

// errNotOwner means that a session belongs to another identity.
var errNotOwner = errors.New("the session belongs to another identity")

// inProcess is the identity of callers in the server's process; no peer can have it.
const inProcess = "process"

// ownerOf returns the identity by which ctx's caller owns sessions, "" without one.
func ownerOf(ctx context.Context) string {
	p, ok := grpcpeer.FromContext(ctx)
	if !ok {
		return inProcess
	}
	return identityOf(p.AuthInfo)
}

// newSessionID returns an id that no one can guess, because without an identity the id suffices to
// end the session. It is short, because every lock contains it (docs/internals/PROTOCOL.md, Cells).
func newSessionID(owner string) string {
	random := uuid.New()
	id := random[:]
	if owner != "" {
		id = append(id, ownerHash(id, owner)...)
	}
	return base64.RawURLEncoding.EncodeToString(id)
}

// mayEnd reports whether owner may renew and end the session id. All may where none is bound
// to it: its owner has no identity, or opened it at a server of an earlier version.
func mayEnd(id, owner string) bool {
	if len(id) != boundIDChars {
		return true
	}
	b, err := base64.RawURLEncoding.DecodeString(id)
	return err == nil && subtle.ConstantTimeCompare(b[randomIDBytes:], ownerHash(b[:randomIDBytes], owner)) == 1
}

func ownerHash(random []byte, owner string) []byte {
	h := sha256.New()
	h.Write(random)
	h.Write([]byte(owner))
	return h.Sum(nil)[:ownerBytes]
}
