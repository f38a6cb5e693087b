package admin

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/locks"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// sessionsTimeout bounds one question about sessions; it is longer than a reader's (EndedTimeout),
// which can fall back on the TTL.
const sessionsTimeout = 2 * time.Second

// sessionsAtOnce is how many sessions one question names.
const sessionsAtOnce = 1000

// judgement is what judge finds out about locks, all of them at once: many locks of one transaction
// cost one read of its primary, and all sessions one question.
type judgement struct {
	now      tso.Timestamp // after the primaries were read
	statuses map[locks.TxnID]locks.TxnStatus
	wrong    map[locks.TxnID]string // why a transaction's status is unknown
	ended    map[string]bool        // sessions
	silent   bool                   // no oracle answered about sessions
}

// judge looks at the primaries of locks and asks the oracle about time and sessions. It changes
// nothing: unlike resolve it never places a marker, so what it says of a dead transaction is what
// the next reader will do.
func (a *Admin) judge(ctx context.Context, held []layout.LockRecord) (judgement, error) {
	j := judgement{statuses: map[locks.TxnID]locks.TxnStatus{}, wrong: map[locks.TxnID]string{}, ended: map[string]bool{}}
	if err := a.readStatuses(ctx, held, &j); err != nil {
		return j, err
	}
	var err error
	if j.now, err = a.e.Clock.Next(ctx); err != nil {
		return j, err
	}
	sessions := map[string]bool{}
	for _, l := range held {
		if id := j.judged(l).Session; id != "" {
			sessions[id] = true
		}
	}
	a.askSessions(ctx, sessions, &j)
	return j, nil
}

// readStatuses reads each primary once. It bypasses the statuses that the client caches: an
// inspection shows what is stored.
func (a *Admin) readStatuses(ctx context.Context, held []layout.LockRecord, j *judgement) error {
	type answer struct {
		id     locks.TxnID
		status locks.TxnStatus
		wrong  string
	}
	var first []layout.LockRecord
	seen := map[locks.TxnID]bool{}
	for _, l := range held {
		if id := (locks.TxnID{Primary: l.Primary, StartTS: l.StartTS}); !seen[id] {
			seen[id] = true
			first = append(first, l)
		}
	}
	answers := make([]answer, len(first))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(a.e.Config.MaxParallelism)
	for i, l := range first {
		g.Go(func() (err error) {
			got := answer{id: locks.TxnID{Primary: l.Primary, StartTS: l.StartTS}}
			if got.status, err = a.e.Locks.StatusOfLock(gctx, l.Primary, l); errors.Is(err, model.ErrCorrupt) {
				got.wrong = err.Error()
			} else if err != nil {
				return err
			}
			answers[i] = got
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return retry.WithContext(ctx, err)
	}
	for _, a := range answers {
		if a.wrong != "" {
			j.wrong[a.id] = a.wrong
			continue
		}
		j.statuses[a.id] = a.status
	}
	return nil
}

// askSessions asks which sessions have ended. Without an answer the locks are judged by their TTL,
// as readers do.
func (a *Admin) askSessions(ctx context.Context, sessions map[string]bool, j *judgement) {
	if a.e.Locks.Sessions.Oracle == nil {
		j.silent = true
		return
	}
	ctx, cancel := context.WithTimeout(ctx, sessionsTimeout)
	defer cancel()
	var ids []string
	ask := func() {
		ended, err := a.e.Locks.Sessions.Oracle.EndedSessions(ctx, ids...)
		if err != nil {
			j.silent = true
		}
		for _, id := range ended {
			j.ended[id] = true
		}
		ids = ids[:0]
	}
	for id := range sessions {
		if ids = append(ids, id); len(ids) == sessionsAtOnce {
			ask()
		}
	}
	if len(ids) > 0 {
		ask()
	}
}

// judged is the lock by which a transaction's life is judged.
func (j judgement) judged(l layout.LockRecord) layout.LockRecord {
	return j.statuses[locks.TxnID{Primary: l.Primary, StartTS: l.StartTS}].JudgedBy(l)
}

// inspect says what a lock on cell stands for.
func (j judgement) inspect(cell model.Cell, l layout.LockRecord) LockInspection {
	id, by := locks.TxnID{Primary: l.Primary, StartTS: l.StartTS}, j.judged(l)
	d := j.statuses[id]
	out := LockInspection{
		Lock: l.Export(cell), Age: max(0, j.now.Sub(l.StartTS)), Expires: by.AliveUntil(), PrimaryLocked: d.State == locks.TxnLocked,
		SessionState: j.session(by.Session), CommitTS: d.CommitTS,
	}
	switch {
	case j.wrong[id] != "":
		out.State, out.Reason = LockStateUndecodable, j.wrong[id]
	case d.State == locks.TxnCommitted:
		out.State = LockStateCommitted
	case d.State == locks.TxnRolledBack:
		out.State = LockStateRolledBack
	case by.Dead(j.now, func(session string) bool { return j.ended[session] }):
		out.State = LockStateDead
	default:
		out.State = LockStateAlive
	}
	return out
}

func (j judgement) session(id string) SessionState {
	switch {
	case id == "":
		return SessionNone
	case j.ended[id]:
		return SessionEnded
	case j.silent:
		return SessionUnknown
	}
	return SessionOpen
}
