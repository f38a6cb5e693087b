package sweep

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator/model"
)

// pageSize bounds a page.
var pageSize = store.PageSize{Rows: 512, Cells: 20_000}

// begin begins a sweep at a random place. building names what it builds; "": it checks.
func (s *sweeping) begin(ctx context.Context, building string) error {
	now, err := s.e.Clock.Next(ctx)
	if err != nil {
		return err
	}
	first := s.randomPlace(ctx)
	phase := model.SweepRows
	if building != "" {
		phase = model.SweepDrain
	}
	s.state = cell{Sweep: model.Sweep{Phase: phase, Building: building, Started: now, Table: first.Table, Row: string(first.Row)}, First: first}
	return s.enter(ctx, phase)
}

// randomPlace is where a tablet of some table begins. Without an answer it is where the table does.
func (s *sweeping) randomPlace(ctx context.Context) (p place) {
	tables := s.tables()
	if len(tables) == 0 {
		return p
	}
	p.Table = tables[rand.N(len(tables))]
	keys, err := s.e.Reads.SampleRowKeys(ctx, p.Table)
	if at := rand.N(len(keys) + 1); err == nil && at < len(keys) {
		p.Row = []byte(keys[at])
	}
	return p
}

func (s *sweeping) tables() []string {
	return slices.Sorted(maps.Keys(s.e.Meta.Catalog.Load().Tables))
}

// enter begins a phase.
func (s *sweeping) enter(ctx context.Context, p model.SweepPhase) error {
	s.state.Phase = p
	err := s.save(ctx)
	s.cfg.Progress(s.state.Sweep)
	return err
}

// finish does what is left of a sweep.
func (s *sweeping) finish(ctx context.Context) error {
	if s.state.Phase == model.SweepDrain {
		if err := s.drain(ctx); err != nil {
			return err
		}
		if err := s.enter(ctx, model.SweepRows); err != nil {
			return err
		}
	}
	for _, part := range s.parts() {
		if err := s.pass(ctx, part); err != nil {
			return err
		}
	}
	if err := s.lookAgain(ctx); err != nil {
		return err
	}
	if s.state.Building != "" {
		// Every announcement was acknowledged before this timestamp is asked for. So an entry that
		// is above it is behind them in its stream (J6).
		since, err := s.e.Clock.Next(ctx)
		if err != nil {
			return err
		}
		if err := s.e.Meta.JournalReady(ctx, s.state.Building, since); err != nil {
			return err
		}
	}
	s.state.Table, s.state.Row, s.state.Last = "", "", false
	return s.enter(ctx, model.SweepDone)
}

// drain waits by this process's monotonic clock. This client has read a schema with the journal, so
// the time runs from the moment when that was stored, or later.
func (s *sweeping) drain(ctx context.Context) error {
	wait := s.cfg.Wait
	if wait == nil {
		wait = s.rest
	}
	return wait(ctx, catalog.DrainTime(s.e.Store.Timing))
}

// part is a part of a table that a sweep passes over.
type part struct {
	table string
	rows  model.Range
	last  bool // the rows before the place where the sweep began
}

// parts lists what is left: from the first place to the end of its table, the other tables in the
// order of names, as on a ring, and last what is before the first place.
func (s *sweeping) parts() (list []part) {
	first, tables := s.state.First, s.tables()
	at, _ := slices.BinarySearch(tables, first.Table)
	for i, table := range slices.Concat(tables[at:], tables[:at]) {
		rows := model.All()
		if i == 0 && table == first.Table {
			rows = model.Between(string(first.Row), "")
		}
		list = append(list, part{table, rows, false})
	}
	if len(first.Row) > 0 && slices.Contains(tables, first.Table) { // else it was dropped
		list = append(list, part{first.Table, model.Between("", string(first.Row)), true})
	}
	for i, p := range list {
		if p.table == s.state.Table && p.last == s.state.Last {
			list[i].rows.Start = max(p.rows.Start, s.state.Row)
			return list[i:]
		}
	}
	return list
}

// maxHeld is how many rows are passed over before findings are looked at again, however few: the
// position that a successor continues from stays before them.
const maxHeld = 1 << 20

// pass passes over a part.
func (s *sweeping) pass(ctx context.Context, p part) error {
	if s.state.Table != p.table || s.state.Last != p.last {
		s.passed(p, p.rows.Start)
	}
	lim, err := s.limits(ctx)
	if err != nil {
		return err
	}
	for page, err := range s.e.Store.NewPass(p.table, p.rows, store.History(), pageSize).Pages(ctx) {
		if err != nil {
			return err
		}
		if err := s.page(ctx, p.table, lim, page.Rows); err != nil {
			return err
		}
		if page.More {
			s.passed(p, page.Rest.Start)
		}
		if err := s.rest(ctx, s.pace.ReserveN(time.Now(), min(len(page.Rows), s.pace.Burst())).Delay()); err != nil {
			return err
		}
		if err := s.keep(ctx); err != nil {
			return err
		}
	}
	return nil
}

// passed notes that the rows of a part before one are done, unless there are findings to look at
// again: a successor does not know them.
func (s *sweeping) passed(p part, row string) {
	if len(s.found) == 0 {
		s.state.Table, s.state.Row, s.state.Last, s.held = p.table, row, p.last, 0
	}
}
