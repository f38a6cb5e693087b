package console

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/tso"
)

// pending is what the walk over notifications and locks finds, in at most MaxListed rows of each
// table.
type pending struct {
	Columns []waitingColumn
	Parked  []observers.Parked
	Corrupt []percolator.Cell
	Locks   []admin.Lock
	Oldest  tso.Timestamp // the oldest notification that somebody has to work on; 0: none
	Waiting int           // notifications that are not merely parked
	More    []string      // tables with more rows than were looked at
}

// waitingColumn sums up the notifications of a column.
type waitingColumn struct {
	Table, Column string
	Weak          bool
	Waiting       int // that some observer has to deal with
	Parked        int // that wait for a person
	Oldest        tso.Timestamp
}

// locksPerRow is how many locks of a row are kept: a row can have thousands of them.
const locksPerRow = 8

// expired returns how many locks have outlived their time to live, and the age of the oldest.
func (p pending) expired(now time.Time) (n int, oldest time.Duration) {
	for _, l := range p.Locks {
		if age := since(now, l.Placed); age > l.TTL {
			n, oldest = n+1, max(oldest, age)
		}
	}
	return n, oldest
}

// pending reads the first rows of each table.
func (s clientSource) pending(ctx context.Context) (found pending, err error) {
	rows := map[string][]admin.Pending{}
	for row, err := range s.ListPending(ctx, "", percolator.All(), admin.PendingOptions{Enough: MaxListed + 1}) {
		if err != nil {
			return pending{}, err
		}
		if n := len(rows[row.Table]); n < MaxListed {
			rows[row.Table] = append(rows[row.Table], row)
		} else if !slices.Contains(found.More, row.Table) {
			found.More = append(found.More, row.Table)
		}
	}
	for _, t := range s.c.Schema().Tables {
		found.addTable(t, rows[t.Name])
		for _, ix := range t.Indexes {
			found.addLocks(rows[t.Name+"."+ix.Name])
		}
	}
	return found, nil
}

func (p *pending) addLocks(rows []admin.Pending) {
	for _, row := range rows {
		p.Locks = append(p.Locks, row.Locks[:min(len(row.Locks), locksPerRow)]...)
		p.Corrupt = append(p.Corrupt, row.Corrupt...)
	}
}

// addTable adds the rows of a table. It lists every column that can have notifications, so that
// none waiting shows as 0.
func (p *pending) addTable(t percolator.Table, rows []admin.Pending) {
	columns := map[string]*waitingColumn{}
	column := func(name string) *waitingColumn {
		if columns[name] == nil {
			columns[name] = &waitingColumn{Table: t.Name, Column: name}
		}
		return columns[name]
	}
	for _, name := range t.Observed {
		column(name)
	}
	for _, name := range t.Weak {
		column(name).Weak = true
	}
	p.addLocks(rows)
	for _, row := range rows {
		for _, n := range row.Notified {
			p.addNotification(column(n.Cell.Column), row, n)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(columns)) {
		p.Columns = append(p.Columns, *columns[name])
	}
}

func (p *pending) addNotification(col *waitingColumn, row admin.Pending, n admin.Notification) {
	for _, s := range row.Parked(n) {
		p.Parked = append(p.Parked, parked(s))
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

// parked is an observer state in the form that observers.Retry and Drop take.
func parked(s admin.ObserverState) observers.Parked {
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
