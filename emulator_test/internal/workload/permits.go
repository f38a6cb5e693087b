package workload

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gopercolator/percolator/emulator_test/internal/history"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/tso"
)

// Permits expire. Each has a holder, with a plain index, and some a badge that no one else has at
// the time, with a unique one. Some are issued again and again, before and after they have expired,
// some long after, and others once. An observer follows the holders; whether it hears that a permit
// has expired, the schema says.
const (
	permits    = "permits"
	terms      = "terms"
	permitRows = 5  // issued all the time
	coldRows   = 40 // issued long after they have expired
	holders    = 3
	badges     = 4
	termer     = "term" // the observer
)

var ofPermits = []index{{permits, "holder", false}, {permits, "badge", true}}

// Permits is the table of what expires, and that of its observer.
func Permits(ttl time.Duration, notify bool) []percolator.Table {
	t := percolator.Table{Name: permits, TTL: ttl, NotifyExpired: notify, Observed: []string{"holder"}}
	for _, ix := range ofPermits {
		t.Indexes = append(t.Indexes, percolator.Index{Name: ix.name, Column: ix.name, Unique: ix.unique})
	}
	return []percolator.Table{t, {Name: terms}}
}

// Expiring lists the tables that are empty once all has expired, those of indexes included.
func Expiring() []string {
	all := []string{permits}
	for _, ix := range ofPermits {
		all = append(all, ix.table+"."+ix.name)
	}
	return all
}

// Expires tells whether the values of a table do.
func Expires(table string) bool { return table == permits }

// Cleared tells whether others than sessions delete in a table.
func Cleared(table string) bool { return table == permits || table == archive }

// validity is what the workload knows of permits. The zero value: its schema has no table of them.
type validity struct {
	ttl    time.Duration
	notify bool

	mu       sync.Mutex
	expiries []tso.Timestamp // of some permits that were seen, newest last
}

// IssuePermits has the sessions use permits, in a schema that has their table.
func (w *Workload) IssuePermits(ttl time.Duration, notify bool) {
	w.validity.ttl, w.validity.notify = ttl, notify
	w.picks = append(slices.Clone(w.picks),
		pick{10, (*Session).permit}, pick{4, (*Session).viewPermits}, pick{3, (*Session).viewExpiry})
}

func permitCell(row, column string) percolator.Cell { return cell(permits, row, column) }

func permitRow(n int) string { return fmt.Sprintf("r%d", n) }

func coldRow(n int) string { return fmt.Sprintf("cold%02d", n) }

func (s *Session) permit(ctx context.Context) {
	s.transact(ctx, options{kind: "permit"}, func(ctx context.Context, a *attempt) error {
		row := permitRow(s.Rand.IntN(permitRows))
		switch s.Rand.IntN(4) {
		case 0:
			row = fmt.Sprintf("once%d", a.id)
		case 1:
			row = coldRow(s.Rand.IntN(coldRows))
		}
		c, holder := permitCell(row, "holder"), fmt.Appendf(nil, "h%d", s.Rand.IntN(holders))
		switch s.Rand.IntN(8) {
		case 0:
			return a.delete(c)
		case 1: // what has expired is not in its way
			return a.insert(c, holder)
		case 2:
			return a.set(permitCell(row, "badge"), fmt.Appendf(nil, "b%d", s.Rand.IntN(badges)))
		case 3, 4:
			return a.renew(ctx, c)
		}
		if err := a.set(permitCell(row, "since"), a.unique("")); err != nil {
			return err
		}
		return a.set(c, holder)
	})
}

// Reissue issues a permit that may have expired, with luck while a collector is about to delete it.
func (s *Session) Reissue(ctx context.Context) {
	s.transact(ctx, options{kind: "permit"}, func(_ context.Context, a *attempt) error {
		return a.set(permitCell(coldRow(s.Rand.IntN(coldRows)), "holder"), fmt.Appendf(nil, "h%d", s.Rand.IntN(holders)))
	})
}

// renew puts the value again that is there.
func (a *attempt) renew(ctx context.Context, c percolator.Cell) error {
	v, err := a.get(ctx, c)
	if err != nil || v == nil {
		return orGiveUp(err)
	}
	return a.set(c, v)
}

// viewPermits compares the indexes of permits with the table, at any time.
func (s *Session) viewPermits(ctx context.Context) {
	s.View(ctx, "view permits", func(ctx context.Context, r Reader) error { return r.checkPermits(ctx, s.Workload) })
}

// viewExpiry does so right when a permit expires, or right before.
func (s *Session) viewExpiry(ctx context.Context) {
	at, ok := s.someExpiry()
	if !ok {
		return
	}
	at -= tso.Timestamp(s.Rand.IntN(2))
	s.View(ctx, "view expiry", func(ctx context.Context, r Reader) error { return r.checkPermits(ctx, s.Workload) }, percolator.AsOfTimestamp(at))
}

func (r Reader) checkPermits(ctx context.Context, w *Workload) error {
	if w.validity.ttl == 0 {
		return nil
	}
	es, err := r.scan(ctx, permits, "", "")
	if err != nil {
		return err
	}
	w.validity.note(es)
	for _, ix := range ofPermits {
		if err := r.compareIndex(ctx, ix); err != nil {
			return err
		}
	}
	_, err = r.scan(ctx, terms, "", "")
	return err
}

// note remembers when some permits expire.
func (v *validity) note(es []history.Entry) {
	const most = 128
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, e := range es {
		if at := e.Commit.Add(v.ttl); e.Commit != 0 && !slices.Contains(v.expiries, at) {
			v.expiries = append(v.expiries, at)
		}
	}
	v.expiries = v.expiries[max(0, len(v.expiries)-most):]
}

// someExpiry is one of the past, if a session has seen such a permit.
func (s *Session) someExpiry() (tso.Timestamp, bool) {
	past := s.Past()
	if len(past) == 0 {
		return 0, false
	}
	v := &s.validity
	v.mu.Lock()
	defer v.mu.Unlock()
	over := slices.DeleteFunc(slices.Clone(v.expiries), func(at tso.Timestamp) bool { return at > past[len(past)-1] })
	if len(over) == 0 {
		return 0, false
	}
	return over[len(over)-1-s.Rand.IntN(min(len(over), 8))], true
}

// somePermits are cells of permits, if there are any.
func (s *Session) somePermits() []percolator.Cell {
	if s.validity.ttl == 0 {
		return nil
	}
	row := permitRow(s.Rand.IntN(permitRows))
	return []percolator.Cell{permitCell(row, "holder"), permitCell(row, "badge"), permitCell(row, "since"), cell(terms, row, "term")}
}

func (w *Workload) observePermits(r *observers.Registry, worker string) {
	if w.validity.ttl == 0 {
		return
	}
	w.observe(r, worker, termer, permits, "holder", func(_ context.Context, a *attempt, ch observers.Change) error {
		return a.follow(cell(terms, ch.Cell.Row, "term"), ch, string(ch.Value))
	})
}

// ttlOf is how long the values of a cell live.
func (w *Workload) ttlOf(c history.Cell) time.Duration {
	if Expires(c.Table) {
		return w.validity.ttl
	}
	return 0
}
