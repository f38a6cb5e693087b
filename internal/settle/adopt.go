package settle

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"golang.org/x/time/rate"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/internal/journal"
	"github.com/gopercolator/percolator/internal/model"
	"github.com/gopercolator/percolator/internal/retry"
	"github.com/gopercolator/percolator/internal/store"
	"github.com/gopercolator/percolator/tso"
)

// When the session of a stream's owner has ended, a worker adopts the stream (J5): it reads the
// entries from the low position on, decides their transactions, resolves their locks, dispatches
// what is notified, and moves the position. It looks again at what is not settled, ever more
// rarely, as long as the header stands; what was settled behind it is not read again. That several
// workers do so at once costs work and nothing else; an advisory lock keeps all but one from it.
//
// A worker that starts looks at every stream once, lock or not: it may take columns that nobody
// took before. Of an owner that lives it only dispatches what it finds. It goes on doing so where
// no hints reach it (Watch), and now and then where a low position stands still: hints get lost.
const (
	adoptEvery   = 500 * time.Millisecond // how often the adopter looks for ended sessions
	listEvery    = time.Second            // how often it lists the streams, at most
	listShare    = 10                     // listing takes at most that part of its time
	adoptTTL     = 3 * time.Second        // of its advisory lock
	adoptRows    = 64                     // rows of a stream that are read at once
	rarestAdopt  = 5 * time.Minute
	watchEvery   = 30 * time.Second // of a stream whose owner lives, while its position stands still
	adoptTimeout = 30 * time.Second // of one turn at a stream
	standAside   = 10 * time.Second // whoever was refused access; long enough for others to be elected

	// AdoptRows is how many rows a second an adopter looks at for the first time. For every further
	// time journal.OwnerRows is the limit.
	AdoptRows = 20_000
	// maxUnsettled is how many unsettled rows of streams an adopter remembers. It reads no further
	// until some of them are settled, or it has appended them to a stream of its own.
	maxUnsettled = 100_000
	// takeOverAfter is how long a row stays unsettled before the adopter does so: the stream can go.
	takeOverAfter = 2 * time.Minute
)

// adoptLock is the name of the advisory lock: no row of a table is called so.
const adoptLock = 0x6a6f75726e616c00

// Adopter adopts streams whose owners have died. It is for one goroutine.
type Adopter struct {
	Looker *Looker
	// Watch has it look at streams of owners that live, too, whoever is elected: nobody passes hints
	// on to it.
	Watch atomic.Bool

	own    *journal.Appender
	locks  tso.RowLocks // nil: none
	holder string

	known       map[journal.StreamID]*adopted
	nextList    time.Time
	unsettled   int // in all streams
	first, more *rate.Limiter
	begun       bool      // the streams were listed once
	aside       time.Time // it is not elected before
	denied      bool      // it has stood aside before
	report      func(left Backlog, mine bool)
}

// Backlog is what an adopter has found and nobody has dealt with; 0: nothing.
type Backlog struct {
	Notified tso.Timestamp // the earliest notification
	Expired  tso.Timestamp // the earliest end of a lock's time to live
}

func (b Backlog) with(o Backlog) Backlog {
	return Backlog{earliest(b.Notified, o.Notified), earliest(b.Expired, o.Expired)}
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
	locks, _ := l.Clock.Oracle.(tso.RowLocks)
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
			if err := a.Turn(ctx); err != nil && ctx.Err() == nil {
				a.failed(ctx, err)
			}
			a.report(a.backlog(), true)
			a.count(a.known)
		} else {
			a.report(Backlog{}, false)
			a.count(nil)
		}
		_ = retry.Sleep(ctx, adoptEvery)
	}
	a.resign(ctx)
}

// failed has an adopter stand aside that has no right to what it adopts: another one may have it.
func (a *Adopter) failed(ctx context.Context, err error) {
	log, why := a.Looker.Config.Logger, denied(err)
	if why == nil {
		log.Debug("journal: an adoption failed, and is repeated", "err", err)
		return
	}
	if !a.denied {
		a.denied = true
		log.Warn("journal: this worker lacks a right to adopt what clients that died have left, and stands aside for another one", "reason", why.Message())
	}
	a.aside = time.Now().Add(standAside)
	a.resign(ctx)
}

// denied is the first refusal of access among the errors that err wraps; nil: there is none.
func denied(err error) *status.Status {
	switch e := err.(type) {
	case interface{ GRPCStatus() *status.Status }:
		if s := e.GRPCStatus(); s.Code() == codes.PermissionDenied {
			return s
		}
	case interface{ Unwrap() error }:
		return denied(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, err := range e.Unwrap() {
			if s := denied(err); s != nil {
				return s
			}
		}
	}
	return nil
}

// resign gives the lock up.
func (a *Adopter) resign(ctx context.Context) {
	if a.locks != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = a.locks.UnlockRows(ctx, a.holder, []uint64{adoptLock}) // else it runs out
	}
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

// elected reports whether no other worker adopts, as far as the oracle knows.
func (a *Adopter) elected(ctx context.Context) bool {
	if time.Now().Before(a.aside) {
		return false
	}
	if a.locks == nil {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	locked, err := a.locks.LockRows(ctx, a.holder, adoptTTL, []uint64{adoptLock})
	return err != nil || locked == 1
}

// Turn looks at the streams whose owners have died, as far as the budget goes.
func (a *Adopter) Turn(ctx context.Context) error {
	if err := a.Looker.Meta.CheckRepairing(ctx); err != nil {
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
	for id, st := range a.known {
		if !there[id] {
			a.unsettled -= len(st.rows)
			delete(a.known, id)
		}
	}
	a.begun = true
	return err
}

// passed forgets rows that somebody else has settled.
func (a *Adopter) passed(st *adopted, low uint64) {
	for seq := range st.rows {
		if seq < low {
			a.drop(st, seq)
		}
	}
	st.next = max(st.next, low)
}

func (a *Adopter) drop(st *adopted, seq uint64) {
	if st.rows[seq] != nil {
		delete(st.rows, seq)
		a.unsettled--
	}
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
		case st.stream.Session != "":
			st.ended = st.ended || ended[st.stream.Session]
		default:
			over, err := st.idle.over(ctx, a.Looker, st.stream)
			if err != nil {
				failed = err
				continue
			}
			st.ended = over
		}
	}
	return failed
}

// adopt looks at the rows of a stream that are due, then at those that it has not read, and moves
// the low position.
func (a *Adopter) adopt(ctx context.Context, st *adopted) error {
	ctx, cancel := context.WithTimeout(ctx, adoptTimeout)
	defer cancel()
	for due := st.due(time.Now()); len(due) > 0 && a.more.Tokens() > 0; due = due[min(len(due), adoptRows):] {
		seqs := due[:min(len(due), adoptRows)]
		rows, err := journal.ReadRows(ctx, a.Looker.Store, st.stream.ID, seqs)
		if err != nil {
			return err
		}
		for _, seq := range seqs {
			if !slices.ContainsFunc(rows, func(r journal.StreamRow) bool { return r.Seq == seq }) {
				a.drop(st, seq) // collected
			}
		}
		if err := a.look(ctx, st, rows, a.more); err != nil {
			return err
		}
	}
	pace := a.first
	if !st.ended && !st.fresh {
		pace = a.more
	}
	if !time.Now().Before(st.more) {
		if err := a.readOn(ctx, st, pace); err != nil {
			return err
		}
	}
	return a.writeLow(ctx, st)
}

// readOn looks at the rows of a stream that were not read yet, as far as the pace goes.
func (a *Adopter) readOn(ctx context.Context, st *adopted, pace *rate.Limiter) error {
	room := func() bool { return a.unsettled < maxUnsettled && pace.Tokens() > 0 }
	if !room() {
		return nil
	}
	for rows, err := range journal.ReadStream(ctx, a.Looker.Store, st.stream.ID, st.next, adoptRows) {
		if err == nil {
			err = a.look(ctx, st, rows, pace)
		}
		if err != nil {
			return err
		}
		if len(rows) > 0 {
			st.quiet = 0
		}
		if !room() {
			return nil
		}
	}
	a.through(st)
	return nil
}

// due is the numbers of rows to look at again, in order.
func (st *adopted) due(now time.Time) (seqs []uint64) {
	for seq, row := range st.rows {
		if !now.Before(row.due) {
			seqs = append(seqs, seq)
		}
	}
	slices.Sort(seqs)
	return seqs
}

// through is called at the end of a stream. It ends the look with which a worker begins: an owner
// that lives looks again. One whose session has ended appends nothing more, or hardly.
func (a *Adopter) through(st *adopted) {
	if st.fresh = false; st.ended {
		st.more = time.Now().Add(rest(st.quiet))
		st.quiet++
		return
	}
	if a.Watch.Load() {
		return
	}
	st.watch = time.Now().Add(watchEvery)
	a.unsettled -= len(st.rows)
	st.next, st.rows = st.stream.Low, map[uint64]*unsettled{}
}

// look looks at the entries of some rows of a stream. An error concerns some of them: what could
// not be looked at is not settled.
func (a *Adopter) look(ctx context.Context, st *adopted, rows []journal.StreamRow, pace *rate.Limiter) error {
	var items []*Item
	var of []int
	now, named := time.Now(), len(rows)
	for i, row := range rows {
		read := now
		if u := st.rows[row.Seq]; u != nil {
			read = u.read
		}
		for _, e := range row.Entries {
			items = append(items, &Item{Entry: e, Session: st.stream.Session, Alive: !st.ended, Read: read})
			of = append(of, i)
			named += len(e.Rows)
		}
	}
	if len(rows) == 0 {
		return nil
	}
	spend(pace, named)
	done, err := a.Looker.Look(ctx, items)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	left, found := make([][]journal.Entry, len(rows)), make([]Backlog, len(rows))
	for j, ok := range done {
		if i, it := of[j], items[j]; !ok {
			left[i], found[i] = append(left[i], it.Entry), found[i].with(Backlog{it.Notified, it.Expired})
		}
	}
	var stale []uint64
	var entries []journal.Entry
	for i, row := range rows {
		u := a.looked(st, row.Seq, len(left[i]) > 0, now)
		if u == nil {
			continue
		}
		u.found, u.begun = found[i], firstOf(left[i])
		if st.ended && now.Sub(u.read) > takeOverAfter {
			stale, entries = append(stale, row.Seq), append(entries, left[i]...)
		}
	}
	if a.takeOver(ctx, entries) {
		for _, seq := range stale {
			a.drop(st, seq)
		}
	}
	return err
}

// firstOf is the least start timestamp of entries; 0: there are none.
func firstOf(entries []journal.Entry) (ts tso.Timestamp) {
	for _, e := range entries {
		ts = earliest(ts, e.StartTS)
	}
	return ts
}

// looked notes that a row was looked at, and whether anything is left of it; nil: nothing.
func (a *Adopter) looked(st *adopted, seq uint64, left bool, asked time.Time) *unsettled {
	st.next = max(st.next, seq+1)
	if !left {
		a.drop(st, seq)
		return nil
	}
	u := st.rows[seq]
	if u == nil {
		u = &unsettled{read: asked}
		st.rows[seq] = u
		a.unsettled++
	}
	u.due = time.Now().Add(rest(u.looks))
	u.looks++
	return u
}

// rest is how long to rest after so many looks that led to nothing.
func rest(looks int) time.Duration { return min(adoptEvery<<min(looks, 12), rarestAdopt) }

// takeOver appends entries to streams of this client, which looks at them from then on.
func (a *Adopter) takeOver(ctx context.Context, left []journal.Entry) bool {
	copies := make([]*journal.Append, len(left))
	for i := range left {
		w, err := a.own.Append(ctx, &left[i])
		if err != nil {
			return false
		}
		copies[i] = w
	}
	return !slices.ContainsFunc(copies, func(w *journal.Append) bool { return w.Wait(ctx) != nil })
}

// writeLow stores how far a stream is settled, if its owner is dead.
func (a *Adopter) writeLow(ctx context.Context, st *adopted) error {
	low := st.next
	for seq := range st.rows {
		low = min(low, seq)
	}
	if !st.ended || low <= st.stream.Low {
		return nil
	}
	if err := journal.WriteLow(ctx, a.Looker.Store, map[journal.StreamID]uint64{st.stream.ID: low}); err != nil {
		return err
	}
	st.stream.Low, st.idle.low = low, low
	return nil
}
