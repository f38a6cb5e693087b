package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/gopercolator/percolator/percolator"
)

// errRequirement ends a script whose "require" does not hold. It is no conflict while the
// transaction runs: that would be tried again.
var errRequirement = errors.New("the cell is not as required")

// attempt is one run of a script. Only that of the last attempt is shown.
type attempt struct {
	in     *percolator.Client // whose schema tells the types of columns
	reads  []scriptRead
	bytes  int
	writes int
}

// scriptRead is what one statement has read.
type scriptRead struct {
	Line    int        `json:"line"`
	Cells   []cellJSON `json:"cells"`
	Missing []string   `json:"missing"` // named columns without a value
	More    bool       `json:"more"`    // a scan was ended by its --limit

	table, row string
	entries    []percolator.Entry
}

// run runs the statements in order. tx is nil for a script that only reads.
func (a *attempt) run(ctx context.Context, r percolator.Scanner, tx *percolator.Txn, script []statement) error {
	for _, s := range script {
		if err := a.step(ctx, r, tx, s); err != nil {
			return s.fail(err)
		}
	}
	return nil
}

func (a *attempt) step(ctx context.Context, r percolator.Scanner, tx *percolator.Txn, s statement) error {
	if s.writes() && s.verb != "get-for-update" {
		a.writes++
	}
	switch s.verb {
	case "get":
		return a.get(ctx, r, s, s.args)
	case "scan":
		return a.scan(ctx, r, s)
	case "require":
		return require(ctx, r, tx, s)
	case "get-for-update":
		if _, err := tx.GetForUpdate(ctx, s.cell); err != nil && !errors.Is(err, percolator.ErrNotFound) {
			return err
		}
		return a.get(ctx, r, s, []string{s.cell.Column})
	case "set":
		return tx.Set(s.cell, s.value)
	case "insert":
		return insert(ctx, tx, s)
	case "del":
		return tx.Delete(s.cell)
	default:
		return tx.Notify(s.cell)
	}
}

func (a *attempt) get(ctx context.Context, r percolator.Reader, s statement, columns []string) error {
	entries, missing, err := readRow(ctx, r, s.cell.Table, s.cell.Row, columns)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := a.count(e); err != nil {
			return err
		}
	}
	a.reads = append(a.reads, scriptRead{
		Line: s.line, Missing: arrayOf(missing, shown), table: s.cell.Table, row: s.cell.Row, entries: entries,
	})
	return nil
}

func (a *attempt) scan(ctx context.Context, r percolator.Scanner, s statement) error {
	entries, err := s.scan.entries(ctx, r, a.in.Schema(), typesOf(a.in), s.cell.Table, s.args)
	if err != nil {
		return err
	}
	read := scriptRead{Line: s.line, Missing: []string{}, table: s.cell.Table}
	for e, err := range entries {
		if err == nil {
			err = a.count(e)
		}
		if err != nil {
			return err
		}
		if read.More = s.scan.limit > 0 && len(read.entries) == s.scan.limit; read.More {
			break
		}
		read.entries = append(read.entries, e)
	}
	a.reads = append(a.reads, read)
	return nil
}

// count refuses to keep more than is sensible to print.
func (a *attempt) count(e percolator.Entry) error {
	if a.bytes += len(e.Value) + len(e.Cell.Row) + len(e.Cell.Column) + 64; a.bytes > maxScriptReads {
		return fmt.Errorf("%w: the script reads more than %d bytes", percolator.ErrTooLarge, maxScriptReads)
	}
	return nil
}

// insert looks at the cell before Commit does, which could not name the line, and does not come to
// it in a dry run.
func insert(ctx context.Context, tx *percolator.Txn, s statement) error {
	switch _, err := tx.Get(ctx, s.cell); {
	case err == nil:
		return fmt.Errorf("%s: %w", s.cell, percolator.ErrExists)
	case !errors.Is(err, percolator.ErrNotFound):
		return err
	}
	return tx.Insert(s.cell, s.value)
}

// require reads a cell, in a transaction so that it conflicts with other changes of the cell
// meanwhile: else it would have held at the start timestamp, and need not any more when the
// transaction commits (section 2.2 of the paper).
func require(ctx context.Context, r percolator.Reader, tx *percolator.Txn, s statement) error {
	read := r.Get
	if tx != nil {
		read = tx.GetForUpdate
	}
	value, err := read(ctx, s.cell)
	absent := errors.Is(err, percolator.ErrNotFound)
	if err != nil && !absent {
		return err
	}
	switch {
	case s.must == "absent" && absent, s.must == "present" && !absent, s.must == "=" && !absent && bytes.Equal(value, s.value):
		return nil
	case s.must == "=":
		return fmt.Errorf("%s: %w", s.cell, errRequirement)
	}
	return fmt.Errorf("%s: %w: %s", s.cell, errRequirement, s.must)
}

// print shows what was read, in one table.
func (a *attempt) print(w io.Writer) {
	if len(a.reads) == 0 {
		return
	}
	types := typesOf(a.in)
	t := newTable(w, "LINE", "TABLE", "ROW", "COLUMN", "COMMITTED", "VALUE")
	for _, read := range a.reads {
		for _, e := range read.entries {
			t.row(read.Line, e.Cell.Table, shown(e.Cell.Row), shown(e.Cell.Column), committed(e.CommitTS), typedText(types(e.Cell.Table, e.Cell.Column), e.Value))
		}
		for _, column := range read.Missing {
			t.row(read.Line, read.table, shown(read.row), column, "absent", "")
		}
		switch {
		case read.More:
			t.row(read.Line, "…", "", "", "", "more with --limit")
		case len(read.entries)+len(read.Missing) == 0:
			t.row(read.Line, read.table, "", "", "nothing", "")
		}
	}
	t.flush()
}

// forJSON fills in what the output for programs has.
func (a *attempt) forJSON() []scriptRead {
	return arrayOf(a.reads, func(read scriptRead) scriptRead {
		read.Cells = arrayOf(read.entries, typesOf(a.in).cell)
		return read
	})
}
