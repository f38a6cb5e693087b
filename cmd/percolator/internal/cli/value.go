package cli

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/internal/ordered"
	"github.com/gopercolator/percolator/internal/text"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/tso"
)

// ShownName is a name as it is shown, and "" for none.
func ShownName(name string) string {
	if name == "" {
		return ""
	}
	return Shown(name)
}

// shownValue is a value as a person reads it: as it is where that is readable and unmistakable, in
// Go's quotes otherwise.
func shownValue(v []byte) string {
	s := string(v)
	unreadable := func(r rune) bool { return r == utf8.RuneError || r != ' ' && !unicode.IsPrint(r) }
	if s == "" || strings.HasPrefix(s, `"`) || strings.TrimSpace(s) != s || strings.ContainsFunc(s, unreadable) {
		return strconv.Quote(s)
	}
	return s
}

// CellNameJSON is which cell, in the output for programs. Names are as shown.
type CellNameJSON struct {
	Table  string `json:"table"`
	Row    string `json:"row"`
	Column string `json:"column"`
}

// NewCellNameJSON is c as it is printed.
func NewCellNameJSON(c percolator.Cell) CellNameJSON {
	return CellNameJSON{ShownName(c.Table), ShownName(c.Row), ShownName(c.Column)}
}

// CellJSON is a cell in the output for programs.
type CellJSON struct {
	CellNameJSON
	Type percolator.Type `json:"type,omitempty"` // absent for bytes, and where none is declared
	ValueJSON
	CommitJSON
}

// Cell is an entry in the output for programs.
func (types Types) Cell(e percolator.Entry) CellJSON {
	t := types(e.Cell.Table, e.Cell.Column)
	c := CellJSON{CellNameJSON: NewCellNameJSON(e.Cell), ValueJSON: typedJSON(t, e.Value), CommitJSON: NewCommitJSON(e.CommitTS)}
	if t != percolator.TypeBytes {
		c.Type = t
	}
	return c
}

// CommitJSON is a commit timestamp in the output for programs.
type CommitJSON struct {
	Committed   tso.Timestamp `json:"committed"`
	CommittedAt time.Time     `json:"committedAt"`
}

// NewCommitJSON is ts as it is printed.
func NewCommitJSON(ts tso.Timestamp) CommitJSON { return CommitJSON{ts, ts.Time().UTC()} }

// Names understands arguments that are names of tables, rows or columns.
func Names(args []string) ([]string, error) {
	out := make([]string, len(args))
	for i, arg := range args {
		var err error
		if out[i], err = FromShown(arg); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// RowName is a row as messages write it, and percolator.Cell a cell.
func RowName(table, row string) string { return table + "/" + strconv.Quote(row) }

// InSchema is nil if the client's schema has the table.
func InSchema(c *percolator.Client, table string) error {
	var names []string
	for _, t := range c.Schema().Tables {
		if names = append(names, t.Name); t.Name == table {
			return nil
		}
	}
	return fmt.Errorf("table %q: %w: it is not in the schema%s", table, percolator.ErrSchemaMismatch, text.DidYouMean(table, names...))
}

// ColumnHint suggests a column that the schema names in place of one that it does not, "" for none.
func ColumnHint(c *percolator.Client, table, column string) string {
	var names []string
	for _, t := range c.Schema().Tables {
		if t.Name != table {
			continue
		}
		names = slices.Concat(t.Observed, t.Weak, ordered.Map(t.Indexes, func(ix percolator.Index) string { return ix.Column }),
			ordered.Map(t.Columns, func(declared percolator.ColumnSchema) string { return declared.Name }))
	}
	if slices.Contains(names, column) {
		return ""
	}
	return text.DidYouMean(column, names...)
}

// writtenCell is a row or a cell as messages write it: documents/"com.example/"/"title".
var writtenCell = regexp.MustCompile(`^([\w-]+)/("(?:[^"\\]|\\.)*")(?:/("(?:[^"\\]|\\.)*"))?$`)

// takeArgs has the commands below parent take what their usage names. Those that take a table, a
// row and perhaps a column take what a message writes too, in one argument.
func takeArgs(parent *cobra.Command) {
	for _, cmd := range parent.Commands() {
		takeArgs(cmd)
		if cmd.Args == nil {
			cmd.Args = countArgs
		}
		if !strings.Contains(cmd.Use, "TABLE ROW") {
			continue
		}
		for _, do := range []*func(*cobra.Command, []string) error{(*func(*cobra.Command, []string) error)(&cmd.Args), &cmd.PreRunE, &cmd.RunE} {
			if with := *do; with != nil {
				*do = func(cmd *cobra.Command, args []string) error { return with(cmd, apart(args)) }
			}
		}
	}
}

// apart divides the first argument if it is a row or a cell as messages write it.
func apart(args []string) []string {
	if len(args) == 0 {
		return args
	}
	parts := writtenCell.FindStringSubmatch(args[0])
	if parts == nil {
		return args
	}
	return slices.Concat(slices.DeleteFunc(parts[1:], func(part string) bool { return part == "" }), args[1:])
}

// Row keys and names of columns may hold any bytes. They are shown as they are where that is
// readable, and in Go's quotes otherwise; both forms are understood as arguments.

func Shown(key string) string { return text.Shown(key) }

// FromShown is the name that an argument means.
func FromShown(arg string) (string, error) {
	key, err := text.FromShown(arg)
	if err != nil {
		return "", Usagef("%w", err)
	}
	return key, nil
}
