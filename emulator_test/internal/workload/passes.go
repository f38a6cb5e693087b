package workload

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gopercolator/percolator/emulator_test/internal/history"
	"github.com/gopercolator/percolator/percolator"
)

// Passes are values of indexed columns that get a time to live one after the other. When a column
// has one, an operator puts there, and then sessions put the same again, some of whose clients do
// not know it yet. How long a pass lives depends on who has put it, so the history does not judge
// reads of passes; in the end the indexes must agree with the table.
const (
	passes      = "passes"
	passColumns = 6
	passRows    = 8
	oftenPass   = 4 // a session puts one so often after an operator has put there
)

var passValue = []byte("z")

// expiringPasses is how far operators have come.
type expiringPasses struct {
	mu    sync.Mutex
	begun int // columns that an operator has begun with
	put   int // the column in which an operator has put last
	left  int // its rows in which no session has put since
}

func passColumn(n int) string { return fmt.Sprintf("zone%d", n) }

func passCell(row, column int) percolator.Cell {
	return cell(passes, fmt.Sprintf("p%d", row), passColumn(column))
}

// AddPasses adds the table of passes to a schema, without times to live.
func AddPasses(s *percolator.Schema) {
	t := percolator.Table{Name: passes}
	for n := range passColumns {
		t.Columns = append(t.Columns, percolator.ColumnSchema{Name: passColumn(n)})
		t.Indexes = append(t.Indexes, percolator.Index{Name: passColumn(n), Column: passColumn(n)})
	}
	s.Tables = append(s.Tables, t)
}

// NextPasses is the next column of passes to get a time to live; ok: there is one.
func (w *Workload) NextPasses() (column int, ok bool) {
	w.passes.mu.Lock()
	defer w.passes.mu.Unlock()
	if w.passes.begun == passColumns {
		return 0, false
	}
	w.passes.begun++
	return w.passes.begun - 1, true
}

// LimitPasses gives a column of passes a time to live in a schema.
func LimitPasses(s *percolator.Schema, column int, ttl time.Duration) {
	t := &s.Tables[slices.IndexFunc(s.Tables, func(t percolator.Table) bool { return t.Name == passes })]
	t.Columns = slices.Clone(t.Columns)
	t.Columns[slices.IndexFunc(t.Columns, func(c percolator.ColumnSchema) bool { return c.Name == passColumn(column) })].TTL = ttl
}

// IssuePasses puts in all rows of a column, and then has sessions put there.
func (s *Session) IssuePasses(ctx context.Context, column int) {
	acknowledged := func() {
		s.passes.mu.Lock()
		defer s.passes.mu.Unlock()
		s.passes.put, s.passes.left = column, passRows
	}
	s.transact(ctx, options{kind: "passes", acknowledged: acknowledged}, func(_ context.Context, a *attempt) error {
		for row := range passRows {
			if err := a.set(passCell(row, column), passValue); err != nil {
				return err
			}
		}
		return nil
	})
}

// somePass is what the session puts next; ok: it does.
func (s *Session) somePass() (c percolator.Cell, ok bool) {
	p := &s.passes
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left == 0 || s.Rand.IntN(oftenPass) > 0 {
		return percolator.Cell{}, false
	}
	p.left--
	return passCell(p.left, p.put), true
}

func (s *Session) pass(ctx context.Context, c percolator.Cell) {
	s.transact(ctx, options{kind: "pass"}, func(_ context.Context, a *attempt) error { return a.set(c, passValue) })
}

// checkPasses compares the indexes of passes with the table, if a schema has it; not by
// compareIndex, whose reads the history judges.
func (r Reader) checkPasses(ctx context.Context, s *percolator.Schema) error {
	if !has(s, passes) {
		return nil
	}
	for n := range passColumns {
		judge := history.Index{Name: passes + "." + passColumn(n)}
		for e, err := range r.ScanIndex(ctx, passes, passColumn(n), percolator.All()) {
			if err != nil {
				corrupt(r.rec, err)
				return err
			}
			judge.AddEntry(string(e.Value), e.Cell.Row)
		}
		for e, err := range r.Scan(ctx, passes, percolator.All(), passColumn(n)) {
			if err != nil {
				corrupt(r.rec, err)
				return err
			}
			judge.AddRow(e.Cell.Row, string(e.Value))
		}
		r.rec.Judged(judge.Check()...)
	}
	return nil
}
