package percolator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gopercolator/percolator/tso"
)

// sessionsTimeout bounds one question about sessions; it is more patient than a reader's (endedTimeout), who has a TTL to go by.
const sessionsTimeout = 2 * time.Second

// sessionsAtOnce is how many sessions one question names.
const sessionsAtOnce = 1000

// judgement is what is found out about locks, for all of them at once: many locks of one transaction cost one look at its primary, and
// all sessions one question.
type judgement struct {
	now    tso.Timestamp // after the primaries were read
	fates  map[txnID]decision
	wrong  map[txnID]string // why a transaction's fate cannot be told
	ended  map[string]bool  // sessions
	silent bool             // nobody could be asked about sessions
}

// judge looks at the primaries of locks and asks the oracle about time and sessions. It changes nothing: unlike resolve it never
// places a marker, so what it says of a dead transaction is what the next reader will do.
func (c *Client) judge(ctx context.Context, locks []lockRecord) (judgement, error) {
	j := judgement{fates: map[txnID]decision{}, wrong: map[txnID]string{}, ended: map[string]bool{}}
	if err := c.readFates(ctx, locks, &j); err != nil {
		return j, err
	}
	var err error
	if j.now, err = c.next(ctx); err != nil {
		return j, err
	}
	sessions := map[string]bool{}
	for _, l := range locks {
		if id := j.judged(l).session; id != "" {
			sessions[id] = true
		}
	}
	c.askSessions(ctx, sessions, &j)
	return j, nil
}

// readFates reads each primary once. It does not use the fates that the client remembers: what is stored is what is wanted.
func (c *Client) readFates(ctx context.Context, locks []lockRecord, j *judgement) error {
	type answer struct {
		id       txnID
		decision decision
		wrong    string
	}
	var ids []txnID
	seen := map[txnID]bool{}
	for _, l := range locks {
		if id := (txnID{l.primary, l.startTS}); !seen[id] {
			seen[id] = true
			ids = append(ids, id)
		}
	}
	answers := make([]answer, len(ids))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(c.cfg.MaxParallelism)
	for i, id := range ids {
		g.Go(func() error {
			a := answer{id: id}
			if !c.knowsTable(gctx, id.primary.Table) {
				a.wrong = fmt.Sprintf("its primary is in table %q, which is not in the schema", id.primary.Table)
			} else if d, err := c.fateOf(gctx, id.primary, id.startTS); errors.Is(err, ErrCorrupt) {
				a.wrong = err.Error()
			} else if err != nil {
				return err
			} else {
				a.decision = d
			}
			answers[i] = a
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return withContext(ctx, err)
	}
	for _, a := range answers {
		if a.wrong != "" {
			j.wrong[a.id] = a.wrong
			continue
		}
		j.fates[a.id] = a.decision
	}
	return nil
}

// askSessions asks which sessions have ended. Without an answer the locks are judged by their TTL, as readers do.
func (c *Client) askSessions(ctx context.Context, sessions map[string]bool, j *judgement) {
	if c.alive.oracle == nil {
		j.silent = true
		return
	}
	ctx, cancel := context.WithTimeout(ctx, sessionsTimeout)
	defer cancel()
	var ids []string
	ask := func() {
		ended, err := c.alive.oracle.EndedSessions(ctx, ids...)
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

// judged is the lock by which a transaction's life is judged: the primary's where there is one, since only that is refreshed.
func (j judgement) judged(l lockRecord) lockRecord {
	if d := j.fates[txnID{l.primary, l.startTS}]; d.fate == fateLocked {
		return d.lock
	}
	return l
}

// inspect says what a lock on cell stands for.
func (j judgement) inspect(cell Cell, l lockRecord) LockInspection {
	id, by := txnID{l.primary, l.startTS}, j.judged(l)
	d := j.fates[id]
	out := LockInspection{
		Lock: l.export(cell), Age: max(0, j.now.Sub(l.startTS)), Expires: by.placed.Add(by.ttl), PrimaryLocked: d.fate == fateLocked,
		SessionState: j.session(by.session), CommitTS: d.commitTS,
	}
	switch {
	case j.wrong[id] != "":
		out.State, out.Reason = LockStateUndecodable, j.wrong[id]
	case d.fate == fateCommitted:
		out.State = LockStateCommitted
	case d.fate == fateRolledBack:
		out.State = LockStateRolledBack
	case j.now > out.Expires || out.SessionState == SessionEnded:
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
