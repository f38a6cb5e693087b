package workload

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/gopercolator/percolator/emulator_test/internal/history"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/loader"
	"github.com/gopercolator/percolator/tso"
)

// Cargo are tables that come when the schema gets them, and are filled by an import each, if
// an importer works: while sessions try to read and to write them, and change them afterwards.
const (
	cargo      = "cargo"
	MaxImports = 2
	importRows = 120
	stampLives = 10 * time.Minute
)

// cargoColumns are those of which sessions know what to find. A stamp expires.
var cargoColumns = []string{"body", "kind", "label", "serial", "state"}

var cargoIndexes = []percolator.Index{
	{Name: "kind", Column: "kind"}, {Name: "serial", Column: "serial", Unique: true}, {Name: "stamp", Column: "stamp"},
}

func cargoName(n int) string { return fmt.Sprintf("%s%d", cargo, n) }

// AddCargo adds the table of an import to a schema.
func (im *Import) AddCargo(s *percolator.Schema) {
	if !has(s, im.Table) {
		s.Tables = append(s.Tables, cargoTable(im.Table))
	}
}

// has tells whether a schema has a table.
func has(s *percolator.Schema, table string) bool {
	return slices.ContainsFunc(s.Tables, func(t percolator.Table) bool { return t.Name == table })
}

func cargoTable(name string) percolator.Table {
	t := percolator.Table{Name: name, Observed: []string{"state"}, Indexes: cargoIndexes}
	for _, column := range cargoColumns {
		t.Columns = append(t.Columns, percolator.ColumnSchema{Name: column})
	}
	t.Columns = append(t.Columns, percolator.ColumnSchema{Name: "stamp", TTL: stampLives})
	return t
}

// unpacker is the observer of a table.
func unpacker(table string) string { return "unpack-" + table }

func importRow(n int) string { return fmt.Sprintf("r%03d", n) }

// Plan is what happens to an import.
type Plan struct {
	Quiet      bool // no observer is told, but by a backfill when it has ended
	Early      bool // clients write to the table before all of them know
	Aborted    bool // an operator aborts it, if it comes that far
	AbortedFor bool // and it is not imported again
}

// Import is one of them, in all its attempts. Its methods may be called concurrently.
type Import struct {
	Table string
	w     *Workload

	mu      sync.Mutex
	attempt int // aborted ones
	planned bool
	plan    Plan
	rec     *history.Txn
	stage   importStage
	fenced  int64         // a moment since when no client can use the table
	abort   bool          // an abort has begun
	filled  bool          // a backfill has begun
	ended   chan struct{} // closed when the table is lost or won
}

type importStage uint8

const (
	importPending importStage = iota
	importDrains
	importLoads
	importEnded // or is given up
	importDone  // and nothing is left to do for it
)

func newImports(w *Workload) (all []*Import) {
	for n := range MaxImports {
		all = append(all, &Import{Table: cargoName(n), w: w, ended: make(chan struct{})})
	}
	return all
}

// NextImport is the import that is under way, or the next one; nil: all are done.
func (w *Workload) NextImport() *Import {
	for _, im := range w.imports {
		if im.Stage() != importDone {
			return im
		}
	}
	return nil
}

// Stage is how far the import has come, as those know who were told of it.
func (im *Import) Stage() importStage {
	im.mu.Lock()
	defer im.mu.Unlock()
	return im.stage
}

// Begun reports whether an attempt has begun and was not aborted.
func (im *Import) Begun() bool {
	im.mu.Lock()
	defer im.mu.Unlock()
	return im.planned
}

// Pending reports whether no one knows of a fence.
func (im *Import) Pending() bool { return im.Stage() == importPending }

// Begin says that an attempt is about to begin, or goes on; plan decides about a new one.
func (im *Import) Begin(process string, plan func(source string) Plan) {
	im.mu.Lock()
	defer im.mu.Unlock()
	if !im.planned {
		im.planned, im.plan, im.rec = true, plan(im.source()), im.w.History.Begin(process, "import")
	}
}

// source names what is imported. Its values are of this attempt alone.
func (im *Import) source() string { return fmt.Sprintf("%s.%d", im.Table, im.attempt) }

// Run imports, or goes on with what a process that died has imported. pause is called before each
// row.
func (im *Import) Run(ctx context.Context, c *percolator.Client, pause func(ctx context.Context, row int)) error {
	im.mu.Lock()
	source, quiet := im.source(), im.plan.Quiet
	im.mu.Unlock()
	cfg := loader.BulkConfig{
		Table: im.Table, Source: source, Quiet: quiet, Concurrency: 3, RowsPerRequest: 8, CheckpointInterval: 10 * time.Millisecond,
		Waiting: func(time.Duration) { im.comeTo(importDrains) },
	}
	rows := func(ctx context.Context) iter.Seq2[loader.Row, error] {
		return func(yield func(loader.Row, error) bool) {
			im.comeTo(importLoads)
			for i := range importRows {
				pause(ctx, i)
				if !yield(cargoRow(source, i), ctx.Err()) {
					return
				}
			}
		}
	}
	_, err := loader.Bulk(ctx, c, cfg, loader.Replay(rows, nil))
	return err
}

// cargoRow is a row of a source. Every other one has an observed cell, every third one that
// expires.
func cargoRow(source string, n int) loader.Row {
	row := loader.Row{Row: importRow(n), Cells: []loader.Cell{
		{Column: "body", Value: fmt.Appendf(nil, "%s.%d", source, n)},
		{Column: "kind", Value: fmt.Appendf(nil, "k%d", n%kinds)},
		{Column: "serial", Value: fmt.Appendf(nil, "%03d", n)},
	}}
	if n%2 == 0 {
		row.Cells = append(row.Cells, loader.Cell{Column: "state", Value: fmt.Appendf(nil, "%s.%d", source, n)})
	}
	if n%3 == 0 {
		row.Cells = append(row.Cells, loader.Cell{Column: "stamp", Value: fmt.Appendf(nil, "t%d", n%5)})
	}
	return row
}

func (im *Import) comeTo(s importStage) {
	im.mu.Lock()
	defer im.mu.Unlock()
	if im.stage >= importEnded {
		return
	}
	if s == importLoads && im.fenced == 0 {
		im.fenced = im.w.History.Moment()
	}
	im.stage = s
}

// record tells the history what the attempt has written.
func (im *Import) record() {
	for n := range importRows {
		row := cargoRow(im.source(), n)
		for _, c := range row.Cells {
			if slices.Contains(cargoColumns, c.Column) {
				im.rec.Put(history.Cell(cell(im.Table, row.Row, c.Column)), c.Value)
			}
		}
	}
}

// End says that the import has ended, with these timestamps. It may be said again.
func (im *Import) End(start, commit, since tso.Timestamp) {
	im.mu.Lock()
	defer im.mu.Unlock()
	if im.stage >= importEnded {
		return
	}
	im.rec.StartedAt(start)
	im.record()
	im.w.History.Imported(history.Import{Table: im.Table, Commit: commit, Since: since, Fenced: im.fenced})
	im.rec.End(history.Committed, commit)
	im.stage = importEnded
	close(im.ended)
}

// Loads reports whether its rows are being written.
func (im *Import) Loads() bool { return im.Stage() == importLoads }

// Abort says that the import is about to be aborted.
func (im *Import) Abort() {
	im.mu.Lock()
	defer im.mu.Unlock()
	im.abort = true
}

// Aborts reports whether an abort has begun.
func (im *Import) Aborts() bool {
	im.mu.Lock()
	defer im.mu.Unlock()
	return im.abort
}

// IsToAbort reports whether the plan is to abort it, and its rows are being written.
func (im *Import) IsToAbort() bool {
	im.mu.Lock()
	defer im.mu.Unlock()
	return im.plan.Aborted && im.stage == importLoads
}

// Aborted says that nothing is left of the attempt.
func (im *Import) Aborted() {
	im.mu.Lock()
	defer im.mu.Unlock()
	im.record()
	im.rec.End(history.Aborted, 0)
	im.stage, im.planned, im.abort, im.fenced = importPending, false, false, 0
	im.attempt++
	if im.plan.AbortedFor {
		im.stage = importDone
		close(im.ended)
	}
	im.plan = Plan{}
}

// InUse says that the table was not empty.
func (im *Import) InUse() {
	im.mu.Lock()
	defer im.mu.Unlock()
	im.stage, im.fenced, im.plan.Early = importPending, 0, false
}

// Fill is where a backfill of observers begins, for an import that has told none of them; ok: it
// needs one.
func (im *Import) Fill() (column, observer string, ok bool) {
	im.mu.Lock()
	defer im.mu.Unlock()
	im.filled = true
	return "state", unpacker(im.Table), im.plan.Quiet
}

// Done says that nothing is left to do.
func (im *Import) Done() {
	im.mu.Lock()
	defer im.mu.Unlock()
	im.stage = importDone
}

// Empty deletes everything in the table.
func (im *Import) Empty(ctx context.Context, s *Session) {
	s.transact(ctx, options{kind: "empty"}, func(ctx context.Context, a *attempt) error {
		es, err := a.scan(ctx, im.Table, "", "", cargoColumns...)
		if err != nil || len(es) == 0 {
			return orGiveUp(err)
		}
		for _, e := range es {
			if err := a.delete(percolator.Cell(e.Cell)); err != nil {
				return err
			}
		}
		return nil
	})
}

// quietly tells whether observers are not told of what is in a table.
func (w *Workload) quietly(table string) bool {
	return slices.ContainsFunc(w.imports, func(im *Import) bool {
		im.mu.Lock()
		defer im.mu.Unlock()
		return im.Table == table && im.plan.Quiet
	})
}

// observeCargo registers the observers of the tables that a schema has.
func (w *Workload) observeCargo(r *observers.Registry, worker string, s *percolator.Schema) {
	for _, im := range w.imports {
		if !has(s, im.Table) {
			continue
		}
		w.observe(r, worker, unpacker(im.Table), im.Table, "state", func(_ context.Context, a *attempt, ch observers.Change) error {
			im.mu.Lock()
			// Only an import writes a value without a number.
			unheard := im.plan.Quiet && !im.filled && !ch.Deleted && says(ch.Value) == string(ch.Value)
			im.mu.Unlock()
			if unheard {
				a.rec.Broken("an import that is quiet has notified %s", ch.Cell)
			}
			return a.follow(cell(im.Table, ch.Cell.Row, "label"), ch, "")
		})
	}
}

// How often a session uses a table of cargo, one time in so many: while its rows are written, and
// before or after.
const (
	oftenCargo  = 6
	seldomCargo = 60
)

// someCargo is an import that the session has to do with next; nil: with something else.
func (s *Session) someCargo() *Import {
	for _, im := range s.imports {
		often := seldomCargo
		switch im.Stage() {
		case importPending:
			continue
		case importLoads:
			often = oftenCargo
		}
		if s.Rand.IntN(often) == 0 {
			return im
		}
	}
	return nil
}

// useCargo reads or writes a table into which rows are, were or will be imported.
func (s *Session) useCargo(ctx context.Context, im *Import) {
	im.mu.Lock()
	empty := im.stage == importDrains && !im.plan.Early || im.stage == importDone && !im.planned
	im.mu.Unlock()
	if empty || s.Rand.IntN(2) == 0 {
		s.viewCargo(ctx, im)
		return
	}
	s.writeCargo(ctx, im)
}

// patience is how long a session waits for the end of an import.
const patience = 3 * time.Second

// await waits for the end of an import, for a while.
func (im *Import) await(ctx context.Context, d time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	select {
	case <-im.ended:
	case <-ctx.Done():
	}
}

// viewCargo looks at a table by its rows and its indexes, now and then with a snapshot from before.
func (s *Session) viewCargo(ctx context.Context, im *Import) {
	var opts []percolator.ReadOption
	if ts, ok := s.somePast(); ok && s.Rand.IntN(3) == 0 {
		opts = append(opts, percolator.AsOfTimestamp(ts))
	}
	s.View(ctx, "view import", func(ctx context.Context, r Reader) error {
		if s.Rand.IntN(3) == 0 {
			im.await(ctx, time.Duration(s.Rand.Int64N(int64(patience))))
		}
		if s.Rand.IntN(3) == 0 {
			_, err := r.cells(ctx, cell(im.Table, importRow(s.Rand.IntN(importRows)), "body"))
			return err
		}
		return r.checkCargo(ctx, im.Table)
	}, opts...)
}

// checkCargo reads a table, and compares its indexes with it.
func (r Reader) checkCargo(ctx context.Context, table string) error {
	if _, err := r.scan(ctx, table, "", "", cargoColumns...); err != nil {
		return err
	}
	for _, ix := range []index{{table, "kind", false}, {table, "serial", true}} {
		if err := r.compareIndex(ctx, ix); err != nil {
			return err
		}
	}
	return nil
}

// checkImports reads all tables that were imported.
func (r Reader) checkImports(ctx context.Context, w *Workload, s *percolator.Schema) error {
	for _, im := range w.imports {
		if !has(s, im.Table) {
			continue
		}
		if err := r.checkCargo(ctx, im.Table); err != nil {
			return err
		}
	}
	return nil
}

// writeCargo changes a row, beside a counter now and then. It may have begun before an import
// ended.
func (s *Session) writeCargo(ctx context.Context, im *Import) {
	s.transact(ctx, options{kind: "import"}, func(ctx context.Context, a *attempt) error {
		if s.Rand.IntN(3) == 0 {
			if err := s.countUp(ctx, a); err != nil {
				return err
			}
		}
		row := importRow(s.Rand.IntN(importRows))
		if s.Rand.IntN(3) == 0 {
			row += "+" // that nothing else is in
		}
		if err := a.set(cell(im.Table, row, "body"), a.unique("")); err != nil {
			return err
		}
		if s.Rand.IntN(2) == 0 {
			if err := a.set(cell(im.Table, row, "kind"), fmt.Appendf(nil, "k%d", s.Rand.IntN(kinds))); err != nil {
				return err
			}
		}
		if s.Rand.IntN(2) == 0 {
			if err := a.set(cell(im.Table, row, "state"), a.unique("")); err != nil {
				return err
			}
		}
		if s.Rand.IntN(2) == 0 {
			im.await(ctx, time.Duration(s.Rand.Int64N(int64(patience))))
		}
		return nil
	})
}
