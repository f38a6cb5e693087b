package observers

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/internal/ordered"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
)

// column is an observed or weak column that a worker takes.
type column struct {
	Column
	weak    bool
	runners []*runner
	names   []string // of its observers: all acknowledge before a notification is erased (I13)

	owned ownership // by its observers

	dropped atomic.Bool // it was found to be

	cells map[string]*entry // by row key; guarded by queue.mu
}

func (c *column) cell(row string) percolator.Cell {
	return percolator.Cell{Table: c.Table, Row: row, Column: c.Name}
}

// runner is what a worker keeps for one observer.
type runner struct {
	*observer
	of       *column
	counters counters
	// warnedOfLoop is when the worker last warned of a loop of its runs, in nanoseconds; 0: never.
	warnedOfLoop atomic.Int64
	groups       grouping

	// The rest is guarded by queue.mu.

	// active are the runs that hold a slot, running their jobs that have not finished.
	active, running int
	congestion      congestion
	gathered        gathering
	// blocked are cells that no batch takes, whose other tasks that may run are blocked as well.
	blocked fifo[*entry]
	ordering
}

// slots returns how many more runs may start now.
func (rn *runner) slots() int {
	limit := rn.congestion.limit()
	if rn.concurrent > 0 {
		limit = min(limit, rn.concurrent)
	}
	return limit - rn.active
}

// coverage is what a worker takes of a schema.
type coverage struct {
	taken    map[Column]*column
	observed map[Column]bool // by the schema, taken or not: WaitIdle waits for them
	tables   []string        // with a column in observed, sorted
	runners  []*runner       // in the order of registration
}

// concerns reports whether the schema with a name has a table of an observer, if any schema has.
func concerns(s *percolator.Schema, name string, observers []*observer) bool {
	found := false
	for _, t := range s.Tables {
		if slices.ContainsFunc(observers, func(o *observer) bool { return o.table == t.Name }) {
			if found = true; t.Schema == name {
				return true
			}
		}
	}
	return !found
}

func hasTable(s *percolator.Schema, name string) bool {
	return slices.ContainsFunc(s.Tables, func(t percolator.Table) bool { return t.Name == name })
}

// cover matches the observers with the schema. A writer notifies only what the schema observes, so
// an observer of any other column would silently never run; a column without an observer would
// accumulate notifications.
func cover(s *percolator.Schema, observers []*observer, take []Column) (*coverage, error) {
	weak := map[Column]bool{}
	cov := &coverage{taken: map[Column]*column{}, observed: map[Column]bool{}}
	for _, t := range s.Tables {
		if take == nil && !concerns(s, t.Schema, observers) {
			continue
		}
		for _, name := range t.Observed {
			weak[Column{t.Name, name}] = false
		}
		for _, name := range t.Weak {
			weak[Column{t.Name, name}] = true
		}
		if len(t.Observed)+len(t.Weak) > 0 {
			cov.tables = append(cov.tables, t.Name)
		}
	}
	slices.Sort(cov.tables)
	for c := range weak {
		cov.observed[c] = true
		if take == nil || slices.Contains(take, c) {
			cov.taken[c] = &column{Column: c, weak: weak[c], cells: map[string]*entry{}}
		}
	}

	var errs []error
	missing := map[string]bool{}
	for _, c := range take {
		if !cov.observed[c] {
			errs = append(errs, fmt.Errorf("observers: %w: Config.Columns names %q of table %q, which the schema does not observe", percolator.ErrSchemaMismatch, c.Name, c.Table))
		}
	}
	for _, o := range observers {
		c := Column{o.table, o.column}
		switch col := cov.taken[c]; {
		case col != nil:
			rn := &runner{observer: o, of: col}
			cov.runners = append(cov.runners, rn)
			col.runners = append(col.runners, rn)
			col.names = append(col.names, o.name)
			col.owned = max(col.owned, o.owned)
			for _, name := range o.needs {
				if !hasTable(s, name) && !missing[name] {
					missing[name] = true
					errs = append(errs, fmt.Errorf("observers: observer %q: %w: the stored schema has no table %q, which it needs; percolator schema apply adds it", o.name, percolator.ErrSchemaMismatch, name))
				}
			}
		case missing[o.table]:
		case !hasTable(s, o.table):
			missing[o.table] = true
			hint := "percolator schema apply adds it"
			if o.owned > 0 {
				hint = "declare it, for a queue with queue.Table(), and percolator schema apply adds it"
			}
			errs = append(errs, fmt.Errorf("observers: observer %q: %w: the stored schema has no table %q; %s", o.name, percolator.ErrSchemaMismatch, o.table, hint))
		case !cov.observed[c]:
			errs = append(errs, fmt.Errorf("observers: observer %q: %w: the schema does not observe column %q of table %q", o.name, percolator.ErrSchemaMismatch, o.column, o.table))
		}
	}
	without := map[string][]string{} // columns, by table
	for c, col := range cov.taken {
		if len(col.runners) == 0 {
			without[c.Table] = append(without[c.Table], c.Name)
		}
	}
	for table, columns := range without {
		errs = append(errs, fmt.Errorf("observers: %w: %s (name the columns that this worker takes in Config.Columns)", percolator.ErrSchemaMismatch, noObserver(table, columns)))
	}
	connect(cov.runners)
	slices.SortFunc(errs, func(a, b error) int { // maps have no order, messages should
		return cmp.Compare(a.Error(), b.Error())
	})
	return cov, errors.Join(errs...)
}

// noObserver names columns of a table, the first of many: a queue has one for each of its parts.
func noObserver(table string, columns []string) string {
	slices.Sort(columns)
	const most = 3
	names := strings.Join(ordered.Map(columns[:min(len(columns), most)], strconv.Quote), ", ")
	switch n := len(columns); {
	case n == 1:
		return fmt.Sprintf("column %s of table %q is observed and has no observer", names, table)
	case n > most:
		names += ", …"
		fallthrough
	default:
		return fmt.Sprintf("%d columns of table %q are observed and have no observer: %s", n, table, names)
	}
}

// checkTypes refuses observers of columns that the schema declares with another type than theirs.
// Weak columns have no values.
func (cov *coverage) checkTypes(w *meta.Watcher) error {
	var errs []error
	for _, rn := range cov.runners {
		if cov.taken[Column{rn.table, rn.column}].weak {
			continue
		}
		if err := w.CheckType(percolator.Cell{Table: rn.table, Column: rn.column}, rn.stored); err != nil {
			errs = append(errs, fmt.Errorf("observers: observer %q: %w", rn.name, err))
		}
	}
	return errors.Join(errs...)
}

// byTable groups the columns that a worker takes by table.
func (c *coverage) byTable() map[string][]*column {
	m := map[string][]*column{}
	for _, col := range c.taken {
		m[col.Table] = append(m[col.Table], col)
	}
	return m
}

// A column, or its table, may be dropped while a worker takes it (admin.Admin.DropFromSchema). The
// worker learns of it with its client, queues no more cells of the column, and forgets those that
// it has when their run comes: a run could not commit. Notifications that wait are for the
// collector. A column that comes back is searched for as before.

// observes reports whether the schema, as the client has it cached, has observers for a cell.
func (w *Worker) observes(c model.Cell) bool {
	info, ok := w.engine.Meta.Catalog.Load().UserTable(c.Table)
	return ok && (info.IsObserved[c.Column] || info.IsWeak[c.Column])
}

// dropped reports whether a column that w takes is no longer observed, or weak. It says so once.
func (w *Worker) dropped(c *column) bool {
	if w.observes(c.cell("")) {
		return false
	}
	if c.dropped.CompareAndSwap(false, true) {
		w.log.Error("observers: a column was dropped, or is no longer observed: its observers do not run any more", "table", c.Table, "column", c.Name)
	}
	return true
}

// hasTable reports whether the schema still has a table.
func (w *Worker) hasTable(name string) bool {
	_, ok := w.engine.Meta.Catalog.Load().UserTable(name)
	return ok
}
