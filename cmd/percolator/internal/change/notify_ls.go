package change

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/internal/text"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
)

// notifications is what "notify ls" found. Names are as shown.
type notifications struct {
	Waiting []waitingColumn `json:"waiting"`
	Parked  []parkedCell    `json:"parked"`
	More    bool            `json:"more"` // there are more parked cells than --limit
}

// waitingColumn sums up the notifications of a column that some observer has to deal with.
type waitingColumn struct {
	Table  string    `json:"table"`
	Column string    `json:"column"`
	Cells  int64     `json:"cells"`
	Parked int64     `json:"parked"` // of these, cells with a parked observer
	Oldest time.Time `json:"oldest"` // by the oracle's clock

	queue string // whose column it is, by the schema: the first one; "": no queue's
}

type parkedCell struct {
	cli.CellNameJSON
	Observer string    `json:"observer"`
	Attempts int       `json:"attempts"`
	Since    time.Time `json:"since"`
	Reason   string    `json:"reason"`
}

func newParkedCell(p observers.Parked) parkedCell {
	return parkedCell{cli.NewCellNameJSON(p.Cell), cli.Shown(p.Observer), p.Attempts, p.Since, p.Reason}
}

func NewNotifyLs() *cobra.Command {
	var f cli.ListFlags
	limit, onlyParked, each := 100, false, false
	cmd := &cobra.Command{
		Use:     "ls [TABLE…]",
		PreRunE: func(*cobra.Command, []string) error { return cli.NotNegative("limit", limit) },
		RunE: f.Run(func(ctx context.Context, cmd *cobra.Command, c *percolator.Client, tables []string) error {
			found, err := findNotifications(ctx, c, tables, limit, onlyParked)
			if err != nil {
				return err
			}
			return f.Output.Emit(cmd.OutOrStdout(), found, func(w io.Writer) { found.print(w, time.Now(), each) })
		}),
	}
	f.Add(cmd, cli.DataTimeout)
	cmd.Flags().IntVar(&limit, "limit", limit, "how many parked cells to list")
	cmd.Flags().BoolVar(&each, "each", false, "list each column of a queue by itself")
	cmd.Flags().BoolVar(&onlyParked, "parked", false, "list only the cells whose observers are parked")
	return cmd
}

func findNotifications(ctx context.Context, c *percolator.Client, tables []string, limit int, onlyParked bool) (found notifications, err error) {
	found.Waiting, found.Parked = []waitingColumn{}, []parkedCell{} // [] in JSON
	columns, queues := map[observers.Column]*waitingColumn{}, queueColumns(c.Schema())
	listed := tables
	switch {
	case onlyParked:
		listed = nil
	case len(tables) == 0:
		listed = []string{""} // all
	}
	for _, table := range listed {
		for row, err := range admin.New(c).ListPending(ctx, table, percolator.All(), admin.PendingOptions{}) {
			if err != nil {
				return found, err
			}
			for _, n := range row.Notified {
				key := observers.Column{Table: row.Table, Name: n.Cell.Column}
				if columns[key] == nil {
					columns[key] = &waitingColumn{Table: row.Table, Column: cli.Shown(n.Cell.Column), Oldest: n.Timestamp.Time(), queue: queues[key]}
				}
				columns[key].add(row, n)
			}
		}
	}
	for p, err := range observers.ListParked(ctx, c, tables...) {
		if err != nil {
			return found, err
		}
		if len(found.Parked) == limit {
			found.More = true
			break
		}
		found.Parked = append(found.Parked, newParkedCell(p))
	}
	for _, col := range slices.SortedFunc(maps.Values(columns), func(a, b *waitingColumn) int {
		return cmp.Or(cmp.Compare(a.Table, b.Table), cmp.Compare(a.Column, b.Column))
	}) {
		found.Waiting = append(found.Waiting, *col)
	}
	return found, nil
}

// queueColumns are the columns of queues, with the first column of each queue.
func queueColumns(s *percolator.Schema) map[observers.Column]string {
	first := map[observers.Column]string{}
	for _, t := range s.Tables {
		self := func(column string) string { return column }
		for _, parts := range text.Queues(slices.Sorted(slices.Values(t.Weak)), self, func(_, _ string) bool { return true }) {
			if len(parts) == 1 {
				continue
			}
			for _, column := range parts {
				first[observers.Column{Table: t.Name, Name: column}] = parts[0]
			}
		}
	}
	return first
}

// add counts a notification.
func (w *waitingColumn) add(row model.Pending, n model.Notification) {
	w.Cells++
	if at := n.Timestamp.Time(); at.Before(w.Oldest) {
		w.Oldest = at
	}
	if len(row.Parked(n)) > 0 {
		w.Parked++
	}
}

func (found notifications) print(w io.Writer, now time.Time, each bool) {
	if len(found.Waiting)+len(found.Parked) == 0 {
		_, _ = fmt.Fprintln(w, "no notifications")
		return
	}
	if len(found.Waiting) > 0 {
		t := cli.NewTable(w, "TABLE", "COLUMN", "NOTIFIED", "WITH PARKED", "OLDEST")
		for list := found.Waiting; len(list) > 0; {
			sum, n := list[0], 1
			for ; !each && n < len(list) && sum.queue != "" && list[n].Table == sum.Table && list[n].queue == sum.queue; n++ {
				c := list[n]
				sum.Cells, sum.Parked = sum.Cells+c.Cells, sum.Parked+c.Parked
				if c.Oldest.Before(sum.Oldest) {
					sum.Oldest = c.Oldest
				}
			}
			t.Row(sum.Table, text.Span(sum.Column, list[n-1].Column, n), sum.Cells, sum.Parked, cli.Age(now, sum.Oldest))
			list = list[n:]
		}
		t.Flush()
	}
	if len(found.Parked) == 0 {
		return
	}
	if len(found.Waiting) > 0 {
		_, _ = fmt.Fprintln(w)
	}
	t := cli.NewTable(w, "TABLE", "ROW", "COLUMN", "OBSERVER", "ATTEMPTS", "PARKED", "REASON")
	for _, p := range found.Parked {
		t.Row(p.Table, p.Row, p.Column, p.Observer, p.Attempts, cli.Age(now, p.Since), cli.OneLine(p.Reason))
	}
	if found.More {
		t.Row("…", "", "", "", "", "", "more with --limit")
	}
	t.Flush()
}
