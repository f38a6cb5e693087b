package gc

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator/model"
)

// A phase goes through all tables at once, so that a large one does not keep a small one waiting:
// their pages come one after the other, in whatever order they are read. Which rows of which tables
// are done is saved with the lease. A page may have no rows: it tells how far a request has come
// that found nothing, and is saved like any other.

// collectPage bounds a page, and collectAtOnce the pages that are read or wait for their turn.
var collectPage = store.PageSize{Rows: collectRows, Cells: collectCells}

const collectAtOnce = store.PassRequests

// tablePage is a page of a table, or why there is none.
type tablePage struct {
	table string
	store.Page
	err error
}

// tablePosition is how far a phase has come in a table.
type tablePosition struct {
	Row  []byte `json:",omitempty"` // rows before it are done
	Done bool   `json:",omitempty"` // all are
}

// eachPage hands the rows of all tables that q lets through, from the saved positions on, to visit,
// and notes after each page how far it came. A table that cannot be read ends it with an error,
// once the others are done.
func (s *collecting) eachPage(ctx context.Context, q store.Query, visit func(ctx context.Context, table string, rows []layout.Row) error) error {
	pages, left := make(chan tablePage), 0
	var readers sync.WaitGroup
	defer readers.Wait()
	reading, cancel := context.WithCancel(ctx)
	defer cancel()
	slots, budget := make(chan struct{}, collectAtOnce), store.NewBudget()
	for table, at := range s.startTables(maps.Keys(s.e.Meta.Catalog.Load().Tables)) {
		if at.Done {
			continue
		}
		left++
		pass := s.e.Store.NewPass(table, model.Between(string(at.Row), ""), q, collectPage)
		pass.Budget = budget
		readers.Go(func() { readTable(reading, table, pass, slots, pages) })
	}
	var failed error
	for left > 0 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(s.lease.UntilDue()):
			if err := s.keep(ctx); err != nil {
				return err
			}
		case p := <-pages:
			if p.err != nil {
				failed = cmp.Or(failed, p.err)
			} else if err := s.takePage(ctx, p, visit); err != nil {
				return err
			}
			if !p.More {
				left--
			}
		}
	}
	return failed
}

// readTable reads the pages of a table, each in its turn.
func readTable(ctx context.Context, table string, pass *store.Pass, slots chan struct{}, pages chan<- tablePage) {
	defer pass.Close()
	for more := true; more; {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		page, err := pass.Next(ctx)
		more = err == nil && page.More
		select {
		case pages <- tablePage{table, page, err}:
		case <-ctx.Done():
			more = false
		}
		<-slots
	}
}

func (s *collecting) takePage(ctx context.Context, p tablePage, visit func(ctx context.Context, table string, rows []layout.Row) error) error {
	if err := visit(ctx, p.table, p.Rows); err != nil {
		return err
	}
	if err := s.advance(ctx, p.table, tablePosition{[]byte(p.Rest.Start), !p.More}); err != nil {
		return err
	}
	return s.rest(ctx, s.pace.ReserveN(time.Now(), len(p.Rows)).Delay())
}

// startTables returns the saved positions of tables.
func (s *collecting) startTables(names iter.Seq[string]) map[string]tablePosition {
	s.tables = map[string]tablePosition{}
	for table := range names {
		at := s.state.Tables[table]
		switch {
		case table < s.state.Table:
			at = tablePosition{Done: true}
		case table == s.state.Table:
			at = tablePosition{Row: []byte(s.state.Row)}
		}
		s.tables[table] = at
	}
	return maps.Clone(s.tables)
}

// advance notes how far the phase has come in a table. Before Table and Row everything is done; a
// collector that does not know Tables goes through the others again.
func (s *collecting) advance(ctx context.Context, table string, at tablePosition) error {
	s.tables[table] = at
	s.state.Table, s.state.Row, s.state.Page, s.state.Tables = "", "", table, map[string]tablePosition{}
	first := true
	for _, name := range slices.Sorted(maps.Keys(s.tables)) {
		at := s.tables[name]
		switch started := at.Done || len(at.Row) > 0; {
		case first && started:
			s.state.Table, s.state.Row = name, string(at.Row)
		case started:
			s.state.Tables[name] = at
		}
		first = first && at.Done
	}
	return s.keep(ctx)
}
