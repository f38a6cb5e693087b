package percolatortest

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
)

// Dump prints a table as Figure 4 of the paper does: a block for each column, in it the rows, their
// versions downwards, and the families data, lock and write across (and notify, where there is such
// a cell). It shows what is stored, uncommitted or not, and changes nothing. Timestamps are those
// of the oracle. It ends the test if the table cannot be read.
func (e *Env) Dump(table string) string {
	e.t.Helper()
	return e.readCells(table).print(func(ts int64) int64 { return ts })
}

// DumpFrom is Dump with the timestamps replaced by consecutive numbers from first on, so that the
// output of a test's steps can be compared with what is expected: equal timestamps get equal
// numbers, and later ones greater ones. It numbers those that this table names, so it suits steps
// that only add versions.
func (e *Env) DumpFrom(table string, first int64) string {
	e.t.Helper()
	cells := e.readCells(table)
	seen := map[int64]bool{}
	for _, c := range cells {
		seen[c.ts] = true
		if c.startTS != 0 {
			seen[c.startTS] = true
		}
	}
	number := map[int64]int64{}
	for i, ts := range slices.Sorted(maps.Keys(seen)) {
		number[ts] = first + int64(i)
	}
	return cells.print(func(ts int64) int64 { return number[ts] })
}

// storedCell is one version in one family.
type storedCell struct {
	row, column, family string
	ts                  int64
	text                string // for people
	startTS             int64  // of a write record: printed after text
}

type storedCells []storedCell

var families = []string{"data", "lock", "write", "notify"}

func (e *Env) readCells(table string) storedCells {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), setupLimit)
	defer cancel()
	locks := map[percolator.Cell]model.Lock{}
	for p, err := range admin.New(e.inspector()).ScanPending(ctx, table, percolator.All()) {
		if err != nil {
			e.t.Fatalf("percolatortest: %v", err)
		}
		for _, l := range p.Locks {
			locks[l.Cell] = l
		}
	}
	var cells storedCells
	err := e.Store().Open(table).ReadRows(ctx, bigtable.InfiniteRange(""), func(r bigtable.Row) bool {
		for _, family := range families {
			for _, it := range r[family] {
				c := storedCell{
					row: r.Key(), column: strings.TrimPrefix(it.Column, family+":"), family: family,
					ts: int64(it.Timestamp) / 1000,
				}
				c.describe(it.Value, locks[percolator.Cell{Table: table, Row: c.row, Column: c.column}])
				cells = append(cells, c)
			}
		}
		return true
	})
	if err != nil {
		e.t.Fatalf("percolatortest: %v", err)
	}
	return cells
}

// describe puts into words what is stored. lock is the cell's decoded lock, if it has one.
func (c *storedCell) describe(value []byte, lock model.Lock) {
	switch c.family {
	case "data":
		c.text = shorten(value)
	case "notify":
		c.text = "notify"
		switch {
		case strings.HasPrefix(c.column, "\x00park\x00"):
			c.text = "parked"
		case strings.HasPrefix(c.column, "\x00done\x00"):
			c.text = "done"
		}
	case "lock":
		switch {
		case int64(lock.StartTS) != c.ts:
			c.text = "lock that cannot be decoded"
		case lock.Primary == lock.Cell:
			c.text = "I am primary"
		default:
			c.text = fmt.Sprintf("primary @ %s.%s", printable(lock.Primary.Row), printable(lock.Primary.Column))
			if lock.Primary.Table != lock.Cell.Table {
				c.text = fmt.Sprintf("primary @ %s/%s.%s", lock.Primary.Table, printable(lock.Primary.Row), printable(lock.Primary.Column))
			}
		}
	case "write":
		c.describeWrite(value)
	}
}

// describeWrite reads a write record: the start timestamp in 8 bytes, then the kind.
func (c *storedCell) describeWrite(value []byte) {
	kinds := map[byte]string{'P': "data", 'D': "delete", 'L': "lock", 'R': "rollback"}
	if len(value) < 9 || kinds[value[8]] == "" {
		c.text = "record that cannot be decoded"
		return
	}
	c.text, c.startTS = kinds[value[8]], int64(binary.BigEndian.Uint64(value))
}

const shown = 32 // bytes of a value

func shorten(value []byte) string {
	if len(value) <= shown {
		return printable(string(value))
	}
	return fmt.Sprintf("%q… (%d bytes)", value[:shown], len(value))
}

// printable quotes what would spoil the table.
func printable(s string) string {
	if s == "" || !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f || r == utf8.RuneError }) {
		return fmt.Sprintf("%q", s)
	}
	return s
}

func (cells storedCells) print(number func(int64) int64) string {
	var out bytes.Buffer
	columns := map[string]bool{}
	for _, c := range cells {
		columns[c.column] = true
	}
	for i, column := range slices.Sorted(maps.Keys(columns)) {
		if i > 0 {
			out.WriteByte('\n')
		}
		cells.printColumn(&out, column, number)
	}
	return out.String()
}

func (cells storedCells) printColumn(out *bytes.Buffer, column string, number func(int64) int64) {
	type version struct {
		row string
		ts  int64
	}
	texts := map[version]map[string]string{} // by family
	versions := map[string][]int64{}         // by row
	across := families[:3]
	for _, c := range cells {
		if c.column != column {
			continue
		}
		v := version{c.row, c.ts}
		if texts[v] == nil {
			texts[v] = map[string]string{}
			versions[c.row] = append(versions[c.row], c.ts)
		}
		text := " " + c.text
		if c.startTS != 0 {
			text += fmt.Sprintf(" @ %d", number(c.startTS))
		}
		texts[v][c.family] = text
		if c.family == "notify" {
			across = families
		}
	}
	var table bytes.Buffer
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "key")
	for _, family := range across {
		fmt.Fprintf(w, "\t%s:%s", printable(column), family)
	}
	fmt.Fprintln(w)
	for _, row := range slices.Sorted(maps.Keys(versions)) {
		key := printable(row)
		slices.Sort(versions[row])
		for _, ts := range slices.Backward(versions[row]) {
			fmt.Fprint(w, key)
			for _, family := range across {
				fmt.Fprintf(w, "\t%d:%s", number(ts), texts[version{row, ts}][family])
			}
			fmt.Fprintln(w)
			key = ""
		}
	}
	_ = w.Flush() // into memory
	for line := range strings.Lines(table.String()) {
		out.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
}
