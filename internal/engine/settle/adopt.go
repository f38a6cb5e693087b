package settle

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"golang.org/x/time/rate"

	"github.com/gopercolator/percolator/internal/engine/journal"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
	"github.com/gopercolator/percolator/tso/coordination"
)

// When the session of a stream's owner has ended, a worker adopts the stream (J5): it reads the
// entries from the low position on, decides their transactions, resolves their locks, dispatches
// what is notified, and moves the position. It looks again at what is not settled, ever more
// rarely, as long as the header stands; what was settled behind it is not read again. That several
// workers do so at once costs work and nothing else; an advisory lock keeps all but one from it.
//
// A worker that starts looks at every stream once, lock or not: it may take columns that no other
// took before. Of an owner that lives it only dispatches what it finds. It goes on doing so where
// no hints reach it (Watch), and now and then where a low position stands still: hints get lost.
const (
	adoptEvery   = 500 * time.Millisecond // how often the adopter looks for ended sessions
	listEvery    = time.Second            // how often it lists the streams, at most
	listShare    = 10                     // listing takes at most that part of its time
	adoptTTL     = 3 * time.Second        // of its advisory lock
	adoptRows    = 64                     // rows of a stream that are read at once
	rarestAdopt  = 5 * time.Minute
	watchEvery   = 30 * time.Second // of a living owner's stream that stands still
	adoptTimeout = 30 * time.Second // one turn at a stream begins no look after it
	standAside   = 10 * time.Second // after refused access, until others are elected

	// AdoptRows is how many rows a second an adopter looks at for the first time. For every further
	// time journal.OwnerRows is the limit.
	AdoptRows = 20_000
	// maxUnsettled is how many unsettled rows an adopter remembers, of the streams of the dead and
	// as many of the others. It reads no further there until some of them are settled, or it has
	// appended them to a stream of its own.
	maxUnsettled = 100_000
	// takeOverAfter is how long a row stays unsettled before the adopter does so: the stream can
	// go.
	takeOverAfter = 2 * time.Minute
)

// Adopter adopts streams whose owners have died. It is for one goroutine.
type Adopter struct {
	Looker *Looker
	// Watch has it look at streams of owners that live, too, whichever is elected: no one passes
	// hints on to it.
	Watch atomic.Bool

	own    *journal.Appender
	locks  coordination.RowLocks // nil: none
	holder string

	known       map[journal.StreamID]*adopted
	nextList    time.Time
	first, more *rate.Limiter
	begun       bool      // the streams were listed once
	aside       time.Time // it is not elected before
	denied      bool      // it has stood aside before
	report      func(left Backlog, mine bool)
}

// Backlog is what an adopter has found and is unprocessed; 0: nothing.
type Backlog struct {
	Notified tso.Timestamp // the earliest notification
	Taken    tso.Timestamp // the earliest one that a worker of this client takes
	Expired  tso.Timestamp // earliest end of an unresolved lock's time to live
}

func (b Backlog) with(o Backlog) Backlog {
	return Backlog{earliest(b.Notified, o.Notified), earliest(b.Taken, o.Taken), earliest(b.Expired, o.Expired)}
}

// adopted is what the adopter knows of a stream.
type adopted struct {
	stream journal.Stream
	fresh  bool // the worker has started, and not looked at all of it yet
	ended  bool
	watch  time.Time             // when it is looked at although its owner lives
	next   uint64                // every row below it was read
	rows   map[uint64]*unsettled // of those the rows that are not settled
	quiet  int                   // how often in a row there was nothing behind them
	more   time.Time             // when to look there again
	idle   idleness
}

// unsettled is a row of an adopted stream.
type unsettled struct {
	read  time.Time // for the first time
	due   time.Time // for the next look
	looks int
	found Backlog
	begun tso.Timestamp // the least start timestamp of its entries that are not settled
}

// NewAdopter returns an adopter that appends to the streams of own what stays unsettled. report,
// if not nil, hears after each turn what is left, and whether it was this adopter's turn or another
// one works. Without an oracle that keeps advisory locks every adopter works.
func NewAdopter(l *Looker, own *journal.Appender, report func(left Backlog, mine bool)) *Adopter {
	locks, _ := l.Clock.Oracle.(coordination.RowLocks)
	if report == nil {
		report = func(Backlog, bool) {}
	}
	return &Adopter{
		Looker: l, own: own, locks: locks, holder: uuid.NewString(), report: report,
		known: map[journal.StreamID]*adopted{}, first: newPace(AdoptRows), more: newPace(journal.OwnerRows),
	}
}

// Run adopts streams until ctx ends.
func (a *Adopter) Run(ctx context.Context) {
	ctx = store.InBackground(ctx)
	for ctx.Err() == nil {
		if !a.started() || a.Watch.Load() || a.elected(ctx) {
			err := a.Turn(ctx)
			a.Looker.Store.Count.Turned(err)
			if err != nil && ctx.Err() == nil {
				a.failed(ctx, err)
			}
			a.report(a.backlog(), true)
			a.count(a.known)
		} else {
			a.report(Backlog{}, false)
			a.count(nil)
		}
		_ = model.Sleep(ctx, adoptEvery)
	}
	a.resign(ctx)
}

// backlog is what is left in all streams.
func (a *Adopter) backlog() (b Backlog) {
	for _, st := range a.known {
		for _, row := range st.rows {
			b = b.with(row.found)
		}
	}
	return b
}

// count says for gauges how many streams there are, and what is left in those that are adopted.
func (a *Adopter) count(streams map[journal.StreamID]*adopted) {
	rows, oldest := 0, tso.Timestamp(0)
	for _, st := range streams {
		if st.ended {
			rows += len(st.rows)
			for _, row := range st.rows {
				oldest = earliest(oldest, row.begun)
			}
		}
	}
	n := a.Looker.Store.Count
	n.Streams.Store(int64(len(streams)))
	n.Adopted.Store(int64(rows))
	n.AdoptedOldest.Store(int64(oldest))
}

// started reports whether the look at every stream is over with which a worker begins.
func (a *Adopter) started() bool {
	for _, st := range a.known {
		if st.fresh {
			return false
		}
	}
	return a.begun
}

// Turn looks at the streams whose owners have died, as far as the budget goes.
func (a *Adopter) Turn(ctx context.Context) error {
	if _, err := a.Looker.Meta.CheckRepairing(ctx); err != nil {
		return err
	}
	failed := a.list(ctx) // the streams that are known go on
	if err := a.judge(ctx); err != nil {
		failed = err
	}
	for _, st := range a.known {
		if !st.ended && !st.fresh && !a.watches(st) {
			continue
		}
		if err := a.adopt(ctx, st); err != nil && denied(failed) == nil {
			failed = err // the other streams go on
		}
	}
	return failed
}

// watches reports whether to look at a stream whose owner lives. This client looks at its own.
func (a *Adopter) watches(st *adopted) bool {
	return (a.Watch.Load() || !time.Now().Before(st.watch)) && !a.own.Own.Owns(st.stream.ID)
}

// list reads the headers of all streams, unless it has just done so.
func (a *Adopter) list(ctx context.Context) error {
	asked := time.Now()
	if asked.Before(a.nextList) {
		return nil
	}
	streams, err := journal.Streams(ctx, a.Looker.Store)
	if err != nil && !errors.Is(err, model.ErrCorrupt) {
		return err
	}
	now := time.Now()
	a.nextList = now.Add(max(listEvery, listShare*now.Sub(asked)))
	there := map[journal.StreamID]bool{}
	for _, s := range streams {
		there[s.ID] = true
		st := a.known[s.ID]
		if st == nil {
			st = &adopted{fresh: !a.begun, next: s.Low, rows: map[uint64]*unsettled{}}
			a.known[s.ID] = st
		}
		if s.Low > st.stream.Low {
			a.passed(st, s.Low)
			st.watch = now.Add(watchEvery)
		}
		st.stream = s
	}
	for id := range a.known {
		if !there[id] {
			delete(a.known, id)
		}
	}
	a.begun = true
	return err
}

// passed forgets rows that another worker has settled.
func (a *Adopter) passed(st *adopted, low uint64) {
	for seq := range st.rows {
		if seq < low {
			delete(st.rows, seq)
		}
	}
	st.next = max(st.next, low)
}

// remembered is how many rows are not settled of streams whose owners are dead, or of the others.
func (a *Adopter) remembered(dead bool) (n int) {
	for _, st := range a.known {
		if st.ended == dead {
			n += len(st.rows)
		}
	}
	return n
}

// judge finds out which owners are dead.
func (a *Adopter) judge(ctx context.Context) (failed error) {
	var ask []string
	for _, st := range a.known {
		if id := st.stream.Session; id != "" && !st.ended && !slices.Contains(ask, id) {
			ask = append(ask, id)
		}
	}
	ended := a.Looker.Locks.EndedAmong(ctx, ask)
	for _, st := range a.known {
		switch {
		case !st.stream.Header: // it was deleted when the session had ended
			st.end(true)
		case st.stream.Session != "":
			st.end(st.ended || ended[st.stream.Session])
		default:
			over, err := st.idle.over(ctx, a.Looker, st.stream)
			if err != nil {
				failed = err
				continue
			}
			st.end(over)
		}
	}
	return failed
}

// end notes whether the owner of a stream is dead. If so, the stream is read from its low position
// again: a row that was on its way may be below those that were read.
func (st *adopted) end(over bool) {
	if over && !st.ended {
		st.next = st.stream.Low
	}
	st.ended = over
}
