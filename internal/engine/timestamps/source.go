// Package timestamps is the oracle as a client sees it: one request for one timestamp, start
// timestamps asked for ahead of time, and the newest one known. It stands on store only for the
// client's lifetime and its counters.
package timestamps

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/engine/telemetry"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// A transaction that reads nothing may take a start timestamp that the client asked for before it
// began. It has seen nothing that could have become stale; an older start timestamp only makes it
// refuse to overwrite what was committed since (I2). So each blind transaction takes a timestamp at
// hand and has another one asked for in its place, which saves the oracle's round trip.
//
// The newest timestamp goes first. A queue would hand out timestamps as old as the queue is long,
// and the older a timestamp is, the likelier it loses against a later commit.

// Source gives timestamps of the oracle. Its methods may be called concurrently.
type Source struct {
	Store  *store.Store
	Config store.Settings
	Oracle tso.Oracle
	ahead  startAhead  // start timestamps for Blind
	Newest newestStamp // for MaxStaleness, and for the age of snapshots

	Wall func() time.Time // nil: this machine's; tests suspend machines by it
}

// stampsMost bounds the start timestamps at hand, and the requests for more.
const stampsMost = 64

// startAhead keeps start timestamps at hand.
type startAhead struct {
	mu     sync.Mutex
	stamps []stamp // oldest first
	asking int
}

// take returns the newest timestamp at hand if the client asked for it less than age ago. ask: the
// caller is to ask for another one in its place and to hand the answer to put.
func (a *startAhead) take(age time.Duration) (s stamp, ok, ask bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if n := len(a.stamps); n > 0 {
		s = a.stamps[n-1]
		if ok = time.Since(s.When.Time) < age; ok {
			a.stamps = a.stamps[:n-1]
		} else {
			a.stamps = a.stamps[:0] // the others are older still
		}
	}
	if ask = a.asking < stampsMost; ask {
		a.asking++
	}
	return s, ok, ask
}

// put keeps an answer, in the place of the oldest if need be. answered is false if the oracle gave
// none.
func (a *startAhead) put(s stamp, answered bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asking--
	if !answered {
		return
	}
	if len(a.stamps) == stampsMost {
		a.stamps = append(a.stamps[:0], a.stamps[1:]...)
	}
	a.stamps = append(a.stamps, s)
}

// StartTimestamp asks the oracle. For a blind transaction it takes a timestamp at hand that is no
// older than a quarter of LockTTL, and leaves the transaction most of the half of Retention in
// which it may commit.
func (s *Source) StartTimestamp(ctx context.Context, blind bool) (stamp, error) {
	if blind && !s.Store.Closed.Load() {
		ahead, ok, ask := s.ahead.take(min(s.Config.LockTTL/4, s.Config.Retention/8))
		if ask {
			go s.askAhead()
		}
		if ok {
			ahead.Ahead = true
			return ahead, nil
		}
	}
	return s.askStamp(ctx)
}

func (s *Source) askAhead() {
	asked, err := s.askStamp(s.Store.Background)
	s.ahead.put(asked, err == nil)
}

func (s *Source) askStamp(ctx context.Context) (stamp, error) {
	asked := s.Moment()
	ts, err := s.Next(ctx)
	return stamp{TS: ts, When: asked}, err
}

// stamp is a timestamp with the time at which the client asked for it.
type stamp struct {
	TS    tso.Timestamp
	When  Moment
	Ahead bool // it was at hand
}

// Next asks the oracle for a timestamp greater than all that it has given (I1). Errors: ErrClosed,
// the context's, and the oracle's.
func (s *Source) Next(ctx context.Context) (tso.Timestamp, error) {
	return s.next(ctx, 1, s.Oracle.Next)
}

// Block asks the oracle for n timestamps in a row, and returns the first with the time at which the
// client asked. ErrUnsupported: the oracle gives none but one by one.
func (s *Source) Block(ctx context.Context, n int) (stamp, error) {
	blocks, ok := s.Oracle.(tso.Blocks)
	if !ok {
		return stamp{}, fmt.Errorf("percolator: oracle: blocks of timestamps: %w", tso.ErrUnsupported)
	}
	asked := s.Moment()
	ts, err := s.next(ctx, n, func(ctx context.Context) (tso.Timestamp, error) { return blocks.NextBlock(ctx, n) })
	return stamp{TS: ts, When: asked}, err
}

// next asks for n timestamps by one request, and returns the first.
func (s *Source) next(ctx context.Context, n int, ask func(context.Context) (tso.Timestamp, error)) (tso.Timestamp, error) {
	if err := retry.CheckContext(ctx); err != nil {
		return 0, err
	}
	if s.Store.Closed.Load() {
		return 0, fmt.Errorf("percolator: %w", model.ErrClosed)
	}
	ctx, cancel := context.WithTimeout(ctx, s.Store.Timing.RequestLifetime)
	defer cancel()
	ctx, span := s.Store.Trace.Within(ctx, "percolator.timestamp")
	s.Store.Count.Oracle.Add(1)
	s.Store.OracleOutage.Asked()
	asked := s.Moment()
	ts, err := ask(ctx)
	s.tookOracle(ctx, asked.Time, err)
	span.End(err)
	if err != nil {
		return 0, fmt.Errorf("percolator: oracle: %w", retry.WithContext(ctx, err))
	}
	s.Newest.offer(stamp{TS: ts + tso.Timestamp(n-1), When: asked})
	return ts, nil
}

func (s *Source) tookOracle(ctx context.Context, asked time.Time, err error) {
	s.Store.OracleOutage.Ended(err)
	d := time.Since(asked)
	s.Store.Count.Latency[telemetry.OpOracle].Add(d)
	s.Store.Metrics.OracleRequest(ctx, d, err)
}

// newestStamp is the greatest timestamp that the client has got.
type newestStamp struct {
	mu sync.Mutex
	stamp
}

func (n *newestStamp) offer(s stamp) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if s.TS > n.TS {
		n.stamp = s
	}
}

// Timestamp is the greatest timestamp; 0 before the first.
func (n *newestStamp) Timestamp() tso.Timestamp {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.TS
}

// NewestWithin returns the greatest timestamp if the client asked for it at most d ago.
func (s *Source) NewestWithin(d time.Duration) (tso.Timestamp, bool) {
	if d <= 0 {
		return 0, false
	}
	s.Newest.mu.Lock()
	newest := s.Newest.stamp
	s.Newest.mu.Unlock()
	return newest.TS, newest.TS > 0 && s.Since(newest.When) <= d
}

// EstimatedTime is the oracle's time as far as this process can tell without asking: the newest
// timestamp that the client has got for any purpose, plus the monotonic time since it asked. So it
// is late rather than early. It is for ages, not for snapshots. ok is false before the first
// timestamp.
func (s *Source) EstimatedTime() (now tso.Timestamp, ok bool) {
	s.Newest.mu.Lock()
	defer s.Newest.mu.Unlock()
	if s.Newest.TS == 0 {
		return 0, false
	}
	return s.Newest.TS.Add(time.Since(s.Newest.When.Time)), true
}

// Ahead counts the start timestamps at hand for blind transactions. asking: more are on their way.
func (s *Source) Ahead() (n int, asking bool) {
	s.ahead.mu.Lock()
	defer s.ahead.mu.Unlock()
	return len(s.ahead.stamps), s.ahead.asking > 0
}

// Moment is what the clocks of this machine show. While the machine is suspended its monotonic
// clock stands still; its wall clock shows that once it was corrected.
type Moment struct {
	time.Time           // with the monotonic clock
	wall      time.Time // without
}

// Moment is the present.
func (s *Source) Moment() Moment {
	now := time.Now()
	if s.Wall != nil {
		return Moment{now, s.Wall().Round(0)}
	}
	return Moment{now, now.Round(0)} // Round strips the monotonic part
}

// Since is the time since an earlier moment, by the clock that shows more. So what a client keeps
// is never younger than one of them says. A wall clock that jumps ahead costs a request.
func (s *Source) Since(then Moment) time.Duration {
	now := s.Moment()
	return max(now.Sub(then.Time), now.wall.Sub(then.wall))
}
