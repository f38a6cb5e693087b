package console

import (
	"context"
	"slices"
	"time"

	"github.com/gopercolator/percolator/internal/health"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// pending is what the walk over notifications and locks counts, in at most MaxCounted rows of each
// table, and the first MaxListed of what a person has to look at.
type pending struct {
	Columns   []waitingColumn
	Parked    []observers.Parked
	AllParked health.Parked
	Corrupt   []percolator.Cell
	Corrupted int // with those that are not listed
	Locks     int
	Oldest    tso.Timestamp // the oldest notification that needs work; 0: none
	Waiting   int           // notifications that are not merely parked
	More      []string      // tables with more rows than were counted

	lives  []lockLife // of the first MaxCounted locks
	schema *percolator.Schema
}

// lockLife is what of a lock tells its age, and whether it is dead: few bytes, for many locks.
type lockLife struct {
	placed tso.Timestamp
	ttl    time.Duration
}

func (l lockLife) overdue(now time.Time) time.Duration {
	return model.Lock{Placed: l.placed, TTL: l.ttl}.Overdue(tso.At(now))
}

// waitingColumn sums up the notifications of a column.
type waitingColumn struct {
	Table, Column string
	Weak          bool
	Waiting       int // that some observer has to deal with
	Parked        int // that wait for a person
	Oldest        tso.Timestamp
}

// standing returns how many locks have stood for more than so many times their time to live, and
// the age of the oldest.
func (p pending) standing(now time.Time, ttls int) (n int, oldest time.Duration) {
	for _, l := range p.lives {
		if late := l.overdue(now); late > health.StrandedAfter(l.ttl, ttls) {
			n, oldest = n+1, max(oldest, late+l.ttl)
		}
	}
	return n, oldest
}

// stranded judges the locks.
func (p pending) stranded(now time.Time) (out []health.Finding) {
	if n, oldest := p.standing(now, health.StrandedTTLs); n > 0 {
		out = append(out, health.StrandedLocks(n, health.StrandedTTLs, oldest))
	}
	return append(out, health.Corrupt(p.Corrupted)...)
}

// waiting judges the notifications. Workers see all of them, the walk only the first rows.
func (p pending) waiting(now time.Time, reports []model.Report) []health.Finding {
	return append(health.Backlog(max(since(now, p.Oldest), health.OldestReported(reports))),
		p.AllParked.Findings(len(p.More) > 0, now)...)
}

// countLimit is for how long a walk counts before it says what it has.
const countLimit = 20 * time.Second

// pending counts what is unfinished, table by table.
func (s clientSource) pending(ctx context.Context) (pending, error) {
	t := newTally(s.c.Schema())
	ends, counted := time.Now().Add(countLimit), map[string]int{}
	for row, err := range s.ListPending(ctx, "", percolator.All(), admin.PendingOptions{Enough: MaxCounted + 1}) {
		if err != nil {
			return pending{}, err
		}
		if counted[row.Table]++; counted[row.Table] <= MaxCounted {
			t.add(row)
		} else if !slices.Contains(t.found.More, row.Table) {
			t.found.More = append(t.found.More, row.Table)
		}
		if time.Now().After(ends) {
			t.found.More = append(t.found.More, row.Table)
			break
		}
	}
	return t.pending(), nil
}

// tally adds up what rows hold. It knows every column that can have notifications, so that none
// waiting shows as 0.
type tally struct {
	found   pending
	columns []*waitingColumn // in the order of the schema
}

func newTally(s *percolator.Schema) *tally {
	t := &tally{found: pending{schema: s}}
	for _, table := range s.Tables {
		for _, name := range slices.Sorted(slices.Values(slices.Concat(table.Observed, table.Weak))) {
			t.column(table.Name, name).Weak = slices.Contains(table.Weak, name)
		}
	}
	return t
}

func (t *tally) column(table, name string) *waitingColumn {
	for _, c := range t.columns {
		if c.Table == table && c.Column == name {
			return c
		}
	}
	c := &waitingColumn{Table: table, Column: name}
	t.columns = append(t.columns, c)
	return c
}

func (t *tally) add(row model.Pending) {
	p := &t.found
	p.Locks += len(row.Locks)
	for _, l := range row.Locks[:min(len(row.Locks), MaxCounted-len(p.lives))] {
		p.lives = append(p.lives, lockLife{
			placed: l.Placed,
			ttl:    l.TTL,
		})
	}
	p.Corrupted += len(row.Corrupt)
	p.Corrupt = append(p.Corrupt, row.Corrupt[:min(len(row.Corrupt), MaxListed-len(p.Corrupt))]...)
	for _, n := range row.Notified {
		t.addNotification(t.column(n.Cell.Table, n.Cell.Column), row, n)
	}
}

func (t *tally) addNotification(col *waitingColumn, row model.Pending, n model.Notification) {
	p := &t.found
	for _, s := range row.Parked(n) {
		if p.AllParked.Add(s.Cell, s.Observer, s.Since); len(p.Parked) < MaxListed {
			p.Parked = append(p.Parked, parked(s))
		}
	}
	if row.OnlyParked(n) {
		col.Parked++
		return
	}
	col.Waiting++
	p.Waiting++
	col.Oldest = older(col.Oldest, n.Timestamp)
	p.Oldest = older(p.Oldest, n.Timestamp)
}

func (t *tally) pending() pending {
	for _, c := range t.columns {
		t.found.Columns = append(t.found.Columns, *c)
	}
	return t.found
}

// parked is an observer state in the form that observers.Retry and Drop take.
func parked(s model.ObserverState) observers.Parked {
	return observers.Parked{Cell: s.Cell, Observer: s.Observer, Attempts: s.Attempts, Reason: s.Reason, Since: s.Since, Through: s.Through}
}

func older(a, b tso.Timestamp) tso.Timestamp {
	if a == 0 {
		return b
	}
	return min(a, b)
}

// since is how long before now a timestamp was; 0 for none and for what lies ahead.
func since(now time.Time, ts tso.Timestamp) time.Duration {
	if ts == 0 {
		return 0
	}
	return max(0, now.Sub(ts.Time()))
}
