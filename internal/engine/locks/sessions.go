package locks

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/tso"
	"github.com/gopercolator/percolator/tso/coordination"
)

// Sessions is what this client knows of which lock owners live: its own session with the oracle,
// whose id its locks carry, and the sessions of others that have ended (section 2.2 of the paper: a
// lock of a worker whose token is gone may be cleaned up). If the oracle keeps no sessions, or does
// not answer, a lock's TTL alone decides. Correctness needs neither: a lock wrongly judged dead is
// rolled back through its primary like any other (I8).
type Sessions struct {
	Oracle coordination.Sessions // nil: none
	own    coordination.Session

	// ended are sessions that have ended for good; asked says when this client last asked about
	// another.
	ended *lru.Cache[string, struct{}]
	asked *lru.Cache[string, time.Time]

	// rest is the time since opened until which nothing is asked, because the oracle did not answer.
	opened time.Time
	rest   atomic.Int64 // time.Duration

	missing atomic.Int64 // the time since opened at which Await first saw no session; 0: it saw one
}

const (
	sessionsRemembered = 4096
	EndedTimeout       = 250 * time.Millisecond // for one question; a TTL judges without the answer
	askAgainAfter      = 100 * time.Millisecond // about one session
	restAfterSilence   = time.Second            // before anything is asked again
)

// NewSessions opens a session in the background, if the oracle keeps any.
func NewSessions(oracle tso.Oracle) (*Sessions, error) {
	sessions, ok := oracle.(coordination.Sessions)
	if !ok {
		return &Sessions{}, nil
	}
	l := &Sessions{Oracle: sessions, opened: time.Now()}
	var err error
	if l.ended, err = lru.New[string, struct{}](sessionsRemembered); err != nil {
		return nil, err
	}
	if l.asked, err = lru.New[string, time.Time](sessionsRemembered); err != nil {
		return nil, err
	}
	// Without a session, for example above the oracle's limit, TTLs alone decide.
	if own, err := sessions.OpenSession(); err == nil {
		l.own = own
	}
	return l, nil
}

// Own is the session id that locks carry now, "" for none.
func (l *Sessions) Own() string {
	if l.own == nil {
		return ""
	}
	return l.own.ID()
}

// sessionWait bounds how long a client's first commits wait for its session, all together.
const sessionWait = 2 * time.Second

// Await is Own that waits a little for a session that is being opened: without one, others learn of
// this client's death late.
func (l *Sessions) Await(ctx context.Context) string {
	if l.own == nil {
		return ""
	}
	if id := l.own.ID(); id != "" {
		l.missing.Store(0)
		return id
	}
	l.missing.CompareAndSwap(0, int64(time.Since(l.opened)))
	ctx, cancel := context.WithDeadline(ctx, l.opened.Add(time.Duration(l.missing.Load())+sessionWait))
	defer cancel()
	for pause := retry.NewBackoff(time.Millisecond, 50*time.Millisecond); l.own.ID() == "" && pause.Wait(ctx) == nil; {
	}
	return l.own.ID()
}

// hasEnded asks the oracle whether a session has ended. It says no when it does not know.
func (l *Sessions) hasEnded(ctx context.Context, id string) bool {
	if l.Oracle == nil || id == "" {
		return false
	}
	if l.ended.Contains(id) {
		return true
	}
	if when, ok := l.asked.Get(id); ok && time.Since(when) < askAgainAfter || int64(time.Since(l.opened)) < l.rest.Load() {
		return false
	}
	l.asked.Add(id, time.Now()) // before the answer: another reader of the lock need not ask
	ctx, cancel := context.WithTimeout(ctx, EndedTimeout)
	defer cancel()
	ended, err := l.Oracle.EndedSessions(ctx, id)
	if err != nil {
		l.rest.Store(int64(time.Since(l.opened) + restAfterSilence))
		return false
	}
	if len(ended) == 0 {
		return false
	}
	l.ended.Add(id, struct{}{})
	return true
}

// SessionEnded asks the oracle whether a session has ended for good; no if that is not known.
func (r *Resolver) SessionEnded(ctx context.Context, id string) bool {
	return r.Sessions.hasEnded(ctx, id)
}

// sessionsAtOnce is how many sessions one question may name.
const sessionsAtOnce = 1000

// EndedAmong asks the oracle which sessions have ended for good, with one request for a thousand;
// none of which that is not known.
func (r *Resolver) EndedAmong(ctx context.Context, ids []string) map[string]bool {
	l, ended := r.Sessions, map[string]bool{}
	if l.Oracle == nil {
		return ended
	}
	for chunk := range slices.Chunk(ids, sessionsAtOnce) {
		ctx, cancel := context.WithTimeout(ctx, EndedTimeout)
		found, err := l.Oracle.EndedSessions(ctx, chunk...)
		cancel()
		if err != nil {
			return ended
		}
		for _, id := range found {
			ended[id] = true
			l.ended.Add(id, struct{}{})
		}
	}
	return ended
}

// Close ends the session, so that others know what this client leaves behind to be dead.
func (l *Sessions) Close(ctx context.Context) {
	if l.own != nil {
		_ = l.own.Close(ctx) // else it runs out
	}
}
