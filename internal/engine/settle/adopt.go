package settle

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"golang.org/x/time/rate"

	"github.com/gopercolator/percolator/internal/engine/journal"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
	"github.com/gopercolator/percolator/tso/coordination"
)

// When the session of a stream's owner has ended, a worker adopts the stream (J5): it reads the
// entries from the low position on, decides their transactions, resolves their locks, dispatches
// what is notified, and moves the position. It looks again at unsettled rows, ever more
// rarely, as long as the header stands; what was settled behind it is not read again. That several
// workers do so at once costs work and nothing else; an advisory lock keeps all but one from it.
//
// A worker that starts looks at every stream once, lock or not: it may take columns that no other
// took before. Of an owner that lives it only dispatches what it finds. It goes on doing so where
// no hints reach it (Watch), and now and then where a low position stands still: hints get lost.
const (
	adoptEvery   = 500 * time.Millisecond // how often the adopter looks for ended sessions
	listEvery    = time.Second            // how often it lists the streams, at most
	listTenth    = 10                     // listing takes at most a tenth of its time
	adoptTTL     = 3 * time.Second        // of its advisory lock
	adoptRows    = 64                     // rows of a stream that are read at once
	rarestAdopt  = 5 * time.Minute
	watchEvery   = 30 * time.Second // of a living owner's stream that stands still
	adoptTimeout = 30 * time.Second // one run at a stream starts no look after it
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

	streams     map[journal.StreamID]*adopted
	listed      bool      // streams holds those there were when the worker started
	nextList    time.Time // the streams are listed again then
	first, more *rate.Limiter
	aside       time.Time // it is not elected before; zero: it has never lacked a right
	report      func(left Backlog, mine bool)
}

// Backlog is what looks have found and is unprocessed.
type Backlog = journal.Backlog

// adopted is a stream as the adopter has found it.
type adopted struct {
	stream journal.Stream
	state  streamState
	next   uint64                // every row below it was read
	rows   map[uint64]*unsettled // the unsettled ones of those
	open   journal.Open          // rows whose entries this client has appended again
	tail   tail                  // zero while its owner lives
	watch  time.Time             // its rows are looked at then although its owner lives
	idle   idleness              // of a stream without a session
}

// streamState is whether the owner of a stream lives, and whether this worker has looked at it. An
// owner without a session that was taken for dead may append again (idleness).
type streamState uint8

const (
	// livingUnseen: the worker has just started, and looks at the stream once, although its owner
	// lives and looks itself.
	livingUnseen streamState = iota
	// living: its owner lives. The adopter looks at it only when it watches.
	living
	// deadUnseen: its owner died before the first look was through.
	deadUnseen
	// dead: its owner died. The adopter looks at what is unsettled and behind it, and moves the low
	// position.
	dead
)

// dead reports whether the owner is.
func (st *adopted) dead() bool { return st.state == dead || st.state == deadUnseen }

// unseen reports whether the look with which a worker starts is not through.
func (st *adopted) unseen() bool { return st.state == livingUnseen || st.state == deadUnseen }

// tail is the end of a dead owner's stream, behind which a late row may come.
type tail struct {
	nothing int       // how often in succession there was nothing
	again   time.Time // to read there again
}

// unsettled is a row of an adopted stream.
type unsettled struct {
	read   time.Time // for the first time
	due    time.Time // for the next look
	looks  int       // in succession that led to nothing
	found  Backlog
	oldest tso.Timestamp // the least start timestamp of its unsettled entries
}

// NewAdopter returns an adopter that appends to the streams of own what stays unsettled. report,
// if not nil, hears after each run what is left, and whether this adopter has run or another one
// does. Without an oracle that keeps advisory locks every adopter works.
func NewAdopter(l *Looker, own *journal.Appender, report func(left Backlog, mine bool)) *Adopter {
	locks, _ := l.Clock.Oracle.(coordination.RowLocks)
	if report == nil {
		report = func(Backlog, bool) {}
	}
	return &Adopter{
		Looker: l, own: own, locks: locks, holder: uuid.NewString(), report: report,
		streams: map[journal.StreamID]*adopted{}, first: newPace(AdoptRows), more: newPace(journal.OwnerRows),
	}
}

// Run adopts streams until ctx ends.
func (a *Adopter) Run(ctx context.Context) {
	ctx = store.InBackground(ctx)
	for ctx.Err() == nil {
		if !a.started() || a.Watch.Load() || a.elected(ctx) {
			err := a.RunOnce(ctx)
			a.Looker.Store.Count.Turned(err)
			if err != nil && ctx.Err() == nil {
				a.failed(ctx, err)
			}
			a.report(a.backlog(), true)
			a.count(a.streams)
		} else {
			a.report(Backlog{}, false)
			a.count(nil)
		}
		_ = retry.Sleep(ctx, adoptEvery)
	}
	a.resign(ctx)
}

// backlog is what is left in all streams.
func (a *Adopter) backlog() (b Backlog) {
	for _, st := range a.streams {
		for _, row := range st.rows {
			b = b.With(row.found)
		}
	}
	return b
}

// count says for gauges how many streams there are, and what is left in those that are adopted.
func (a *Adopter) count(streams map[journal.StreamID]*adopted) {
	rows, oldest := 0, tso.Timestamp(0)
	for _, st := range streams {
		if st.dead() {
			rows += len(st.rows)
			for _, row := range st.rows {
				oldest = journal.Earliest(oldest, row.oldest)
			}
		}
	}
	n := a.Looker.Store.Count
	n.Streams.Store(int64(len(streams)))
	n.Adopted.Store(int64(rows))
	n.AdoptedOldest.Store(int64(oldest))
}

// started reports whether the look at every stream is done with which a worker starts.
func (a *Adopter) started() bool {
	for _, st := range a.streams {
		if st.unseen() {
			return false
		}
	}
	return a.listed
}

// RunOnce looks at the streams whose owners have died, as far as the budget goes.
func (a *Adopter) RunOnce(ctx context.Context) error {
	if _, err := a.Looker.Meta.CheckRepairing(ctx); err != nil {
		return err
	}
	failed := a.list(ctx) // the streams that were listed before go on
	if err := a.judge(ctx); err != nil {
		failed = err
	}
	remembered := map[bool]int{} // unsettled rows of streams whose owners are dead, and of the others
	for _, st := range a.streams {
		remembered[st.dead()] += len(st.rows)
	}
	for _, st := range a.streams {
		if st.state == living && !a.watches(st) {
			continue
		}
		others := remembered[st.dead()] - len(st.rows)
		if err := a.adopt(ctx, st, others); err != nil && denied(failed) == nil {
			failed = err // the other streams go on
		}
		remembered[st.dead()] = others + len(st.rows)
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
	a.nextList = now.Add(max(listEvery, listTenth*now.Sub(asked)))
	there := map[journal.StreamID]bool{}
	for _, s := range streams {
		there[s.ID] = true
		st := a.streams[s.ID]
		if st == nil {
			st = &adopted{next: s.Low, rows: map[uint64]*unsettled{}}
			if a.listed { // its owner has started after this worker
				st.state = living
			}
			a.streams[s.ID] = st
		}
		if s.Low > st.stream.Low {
			a.passed(st, s.Low)
			st.watch = now.Add(watchEvery)
		}
		st.stream = s
	}
	for id := range a.streams {
		if !there[id] {
			delete(a.streams, id)
		}
	}
	a.listed = true
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

// judge finds out which owners are dead.
func (a *Adopter) judge(ctx context.Context) (failed error) {
	sessions := map[string]bool{}
	for _, st := range a.streams {
		if id := st.stream.Session; id != "" && !st.dead() {
			sessions[id] = true
		}
	}
	ended := a.Looker.Locks.EndedAmong(ctx, slices.Sorted(maps.Keys(sessions)))
	for _, st := range a.streams {
		switch {
		case !st.stream.Header: // it was deleted when the session had ended
			st.ownerIs(true)
		case st.stream.Session != "":
			st.ownerIs(st.dead() || ended[st.stream.Session])
		default:
			givenUp, err := st.idle.check(ctx, a.Looker, st.stream)
			if err != nil {
				failed = err
				continue
			}
			st.ownerIs(givenUp)
		}
	}
	return failed
}

// ownerIs notes whether the owner of a stream is dead. One that has just died may have had a row in
// flight below those that were read: the stream is read from its low position again.
func (st *adopted) ownerIs(isDead bool) {
	if isDead == st.dead() {
		return
	}
	if isDead {
		st.next = st.stream.Low
	}
	st.state = map[streamState]streamState{livingUnseen: deadUnseen, living: dead, deadUnseen: livingUnseen, dead: living}[st.state]
}

// seen notes that the look with which a worker starts is through.
func (st *adopted) seen() {
	switch st.state {
	case livingUnseen:
		st.state = living
	case deadUnseen:
		st.state = dead
	}
}

// idleness tells that a stream without a session is given up: its adopter has seen no append and no
// move of its low position for two TTLs, by its own monotonic clock (J5). An owner that lives and
// appends again later loses nothing by that.
type idleness struct {
	low, end uint64 // the position, and behind the last row
	since    time.Time
	givenUp  bool
}

// check reports whether the stream is given up. It reads of it only what is new, once in two TTLs.
func (i *idleness) check(ctx context.Context, l *Looker, s journal.Stream) (bool, error) {
	if !i.since.IsZero() && s.Low == i.low && time.Since(i.since) <= 2*l.Config.LockTTL {
		return i.givenUp, nil
	}
	end := max(i.end, s.Low)
	for rows, err := range journal.ReadStream(ctx, l.Store, s.ID, end, adoptRows) {
		if err != nil {
			return false, err
		}
		if len(rows) > 0 {
			end = rows[len(rows)-1].Seq + 1
		}
	}
	*i = idleness{s.Low, end, time.Now(), !i.since.IsZero() && end == i.end && s.Low == i.low}
	return i.givenUp, nil
}
