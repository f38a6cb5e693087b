package workload

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/gopercolator/percolator/emulator_test/internal/history"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
)

// The table stock is one whose schema grows while it is in use, if an operator makes it grow: from
// the beginning it has data and writers.

// Growth is what the schema of stock has got, as a set.
type Growth uint32

// What it can get.
const (
	KindIndex     Growth = 1 << iota
	SerialIndex          // unique
	StateObserved        // by label
)

// Grows lists each.
var Grows = []Growth{KindIndex, SerialIndex, StateObserved}

var growthIndexes = map[Growth]index{KindIndex: {stock, "kind", false}, SerialIndex: {stock, "serial", true}}

// Index is the table and the name of the index that the schema gets; ok: it is one.
func (g Growth) Index() (table, name string, ok bool) {
	ix, ok := growthIndexes[g]
	return ix.table, ix.name, ok
}

// Observer is the one of the column that becomes observed.
func (g Growth) Observer() (table, column, observer string) { return stock, "state", labeler }

func (g Growth) String() string { return fmt.Sprintf("growth %b", uint32(g)) }

// Grow adds what stock gets to a schema, unless it is there.
func (g Growth) Grow(s *percolator.Schema) {
	t := &s.Tables[slices.IndexFunc(s.Tables, func(t percolator.Table) bool { return t.Name == stock })]
	ix, ok := growthIndexes[g]
	switch {
	case !ok:
		t.Observed = []string{"state"}
	case !slices.ContainsFunc(t.Indexes, func(has percolator.Index) bool { return has.Name == ix.name }):
		t.Indexes = append(t.Indexes, percolator.Index{Name: ix.name, Column: ix.name, Unique: ix.unique})
	}
}

// grown is what stock has got, and what is finished: filled, and readable by all.
type grown struct{ finished atomic.Uint32 }

// Grew tells that something is finished.
func (w *Workload) Grew(g Growth) { w.grown.finished.Or(uint32(g)) }

func (w *Workload) has(g Growth) bool { return Growth(w.grown.finished.Load())&g != 0 }

// Rules are those of what the workload has become.
func (w *Workload) Rules() history.Rules {
	r := Rules()
	for _, g := range Grows {
		if ix, ok := growthIndexes[g]; ok {
			r.Unrecorded = append(r.Unrecorded, ix.table+"."+ix.name) // backfills write there
		}
	}
	r.Unrecorded = append(r.Unrecorded, ofCards.table+"."+ofCards.name)
	r.Unrecorded = append(r.Unrecorded, desks, passes) // so do the drop of a column, and collectors
	for n := range passColumns {
		r.Unrecorded = append(r.Unrecorded, passes+"."+passColumn(n))
	}
	r.Observers = slices.DeleteFunc(allObservers(), func(o history.Observer) bool {
		return o.Name == labeler && !w.has(StateObserved) || o.Name == termer && w.validity.ttl == 0
	})
	if w.validity.ttl > 0 {
		r.TTL = w.ttlOf
		for i := range r.Observers {
			r.Observers[i].Expired = r.Observers[i].Name == termer && w.validity.notify
		}
	}
	for n := range MaxImports {
		r.Unique = append(r.Unique, history.Column{Table: cargoName(n), Name: "serial"})
	}
	return r
}

// labeler is the observer of the column that becomes observed.
const labeler = "label"

func allObservers() []history.Observer {
	all := append(Rules().Observers, history.Observer{Name: labeler, Table: stock, Column: "state"}, history.Observer{Name: termer, Table: permits, Column: "holder"})
	for n := range MaxImports {
		all = append(all, history.Observer{Name: unpacker(cargoName(n)), Table: cargoName(n), Column: "state"})
	}
	return all
}

// ObserversOf is Observers, for a client that knows a schema.
func (w *Workload) ObserversOf(worker string, c *percolator.Client, s *percolator.Schema) *observers.Registry {
	r := w.Observers(worker, c)
	w.observeCargo(r, worker, s)
	w.observeAnnex(r, worker, s)
	w.observePermits(r, worker)
	w.observeOutbox(r, worker, c)
	i := slices.IndexFunc(s.Tables, func(t percolator.Table) bool { return t.Name == stock })
	if i < 0 || !slices.Contains(s.Tables[i].Observed, "state") {
		return r
	}
	w.observe(r, worker, labeler, stock, "state", func(_ context.Context, a *attempt, ch observers.Change) error {
		return a.set(cell(stock, ch.Cell.Row, "label"), a.unique(""))
	})
	return r
}

func ware(n int, column string) percolator.Cell { return cell(stock, fmt.Sprintf("w%02d", n), column) }

// restock changes some wares. As long as no index keeps serial numbers unique each ware has some of
// its own, and then wares compete for them. A state is never deleted: what was deleted before its
// column was observed, no observer is told of.
func (s *Session) restock(ctx context.Context) {
	s.transact(ctx, options{kind: "restock"}, func(ctx context.Context, a *attempt) error {
		for _, n := range s.Rand.Perm(wares)[:1+s.Rand.IntN(4)] {
			var err error
			switch s.Rand.IntN(6) {
			case 0:
				err = a.delete(ware(n, []string{"kind", "serial"}[s.Rand.IntN(2)]))
			case 1, 2:
				err = a.set(ware(n, "kind"), fmt.Appendf(nil, "k%d", s.Rand.IntN(kinds)))
			case 3, 4:
				of := n
				if s.has(SerialIndex) {
					of = s.Rand.IntN(wares)
				}
				err = a.set(ware(n, "serial"), fmt.Appendf(nil, "%02d-%d", of, s.Rand.IntN(2)))
			default:
				err = a.set(ware(n, "state"), a.unique(""))
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// viewStock compares the indexes that are finished with the table.
func (s *Session) viewStock(ctx context.Context) {
	s.View(ctx, "view stock", func(ctx context.Context, r Reader) error {
		if err := r.checkStock(ctx, s.Workload); err != nil {
			return err
		}
		_, err := r.scan(ctx, stock, "", "")
		return err
	})
}

func (r Reader) checkStock(ctx context.Context, w *Workload) error {
	for _, g := range Grows {
		if ix, ok := growthIndexes[g]; ok && w.has(g) {
			if err := r.compareIndex(ctx, ix); err != nil {
				return err
			}
		}
	}
	return nil
}
