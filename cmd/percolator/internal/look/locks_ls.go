package look

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/internal/text"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/tso"
)

// locksJSON is what "locks ls" found.
type locksJSON struct {
	Locks []*lockJSON `json:"locks"`
	More  bool        `json:"more"` // there are more than --limit

	list []admin.LockInspection
}

func NewLocksLs() *cobra.Command {
	var f cli.ListFlags
	var opts admin.LockOptions
	limit := 100
	cmd := &cobra.Command{
		Use: "ls [TABLE…]",
		PreRunE: func(*cobra.Command, []string) error {
			return cmp.Or(cli.AboveZero("limit", limit), cli.NotNegative("older-than", opts.OlderThan))
		},
		RunE: f.Run(func(ctx context.Context, cmd *cobra.Command, c *percolator.Client, tables []string) error {
			found, err := findLocks(ctx, c, tables, opts, limit)
			if err != nil {
				return err
			}
			return f.Output.Emit(cmd.OutOrStdout(), found, found.print)
		}),
	}
	f.Add(cmd, cli.DataTimeout)
	cmd.Flags().DurationVar(&opts.OlderThan, "older-than", 0, "only locks of transactions that began this long ago, or longer")
	cmd.Flags().IntVar(&limit, "limit", limit, "how many locks to list")
	scanFlag(cmd, &opts)
	return cmd
}

// scanFlag says that the tables are to be passed over.
func scanFlag(cmd *cobra.Command, opts *admin.LockOptions) {
	cmd.Flags().BoolVar(&opts.Scan, "scan", false, "pass over whole tables, not only the rows that the journal names")
}

func findLocks(
	ctx context.Context, c *percolator.Client, tables []string, opts admin.LockOptions, limit int,
) (found locksJSON, err error) {
	found.Locks = []*lockJSON{} // [] in JSON
	for l, err := range allLocks(ctx, c, tables, percolator.All(), opts) {
		if err != nil {
			return found, err
		}
		if found.More = len(found.Locks) == limit; found.More {
			break
		}
		found.Locks = append(found.Locks, newLockJSON(&l))
		found.list = append(found.list, l)
	}
	return found, nil
}

// allLocks are the locks of tables, of all of the schema with their indexes if none are named.
func allLocks(
	ctx context.Context, c *percolator.Client, tables []string, rows percolator.Range, opts admin.LockOptions,
) iter.Seq2[admin.LockInspection, error] {
	if len(tables) == 0 {
		return admin.New(c).ListLocks(ctx, "", rows, opts)
	}
	return func(yield func(admin.LockInspection, error) bool) {
		for _, table := range tables {
			for l, err := range admin.New(c).ListLocks(ctx, table, rows, opts) {
				if !yield(l, err) {
					return
				}
			}
		}
	}
}

func (found locksJSON) print(w io.Writer) {
	if len(found.list) == 0 {
		_, _ = fmt.Fprintln(w, "no locks")
		return
	}
	g := cli.Grid{Head: []string{"TABLE", "ROW", "COLUMN", "TRANSACTION", "AGE", "STATE", "SESSION", "KIND", "PRIMARY"}}
	resolvable := 0
	for _, l := range found.list {
		if l.Resolvable() {
			resolvable++
		}
		g.Add(cli.Line{}, found.cells(l)...)
	}
	if found.More {
		g.Add(cli.Styled("more with --limit", cli.Plain), cli.Lines("…"), nil, nil, nil, nil, nil, nil, nil, nil)
	}
	g.Write(w, cli.PainterFor(w))
	if resolvable > 0 {
		_, _ = fmt.Fprintf(w, "%d can be resolved now: percolator locks resolve\n", resolvable)
	}
}

func (found locksJSON) cells(l admin.LockInspection) [][]cli.Line {
	_, _, s := lockWords(l)
	primary, at := "this cell", "-"
	if !l.IsPrimary() {
		primary = cli.Shortened(cli.CellText(l.Primary), refWidth)
	}
	if l.StartTS != 0 {
		at = fmt.Sprint(int64(l.StartTS))
	}
	state := string(l.State)
	if l.State == admin.LockStateCommitted {
		state = fmt.Sprintf("committed at %d", l.CommitTS)
	}
	cells := [][]cli.Line{cli.Lines(l.Cell.Table), cli.Lines(cli.Shown(l.Cell.Row)), cli.Lines(cli.Shown(l.Cell.Column)), cli.Lines(at)}
	if l.Kind == "" {
		return append(cells, cli.Lines("-"), []cli.Line{cli.Styled(state, s)}, cli.Lines("-"), cli.Lines("-"), cli.Lines("-"))
	}
	return append(cells, cli.Lines(text.Age(l.Age)+" ago"), []cli.Line{cli.Styled(state, s)}, cli.Lines(string(l.SessionState)), cli.Lines(l.Kind), cli.Lines(primary))
}

// lockJSON is a lock in the output for programs. Names are as shown; a lock that cannot be decoded
// has neither primary nor kind.
type lockJSON struct {
	cli.CellNameJSON
	State    string        `json:"state"` // alive, committed, rolled back, dead or undecodable
	Kind     string        `json:"kind,omitempty"`
	Start    tso.Timestamp `json:"start"`
	Started  *time.Time    `json:"started,omitempty"`
	Commit   tso.Timestamp `json:"commit,omitempty"` // with state committed
	Expires  *time.Time    `json:"expires,omitempty"`
	Session  string        `json:"session,omitempty"` // none, open, ended or unknown
	Primary  *primaryJSON  `json:"primary,omitempty"` // where its transaction status is
	Observed bool          `json:"observed"`          // its commit notifies observers
	Reason   string        `json:"reason,omitempty"`
}

type primaryJSON struct {
	cli.CellNameJSON
	Locked bool `json:"locked"` // it holds the transaction's lock
}

func newLockJSON(l *admin.LockInspection) *lockJSON {
	if l == nil {
		return nil
	}
	out := &lockJSON{
		CellNameJSON: cli.NewCellNameJSON(l.Cell), State: string(l.State), Kind: l.Kind,
		Start: l.StartTS, Commit: l.CommitTS, Session: string(l.SessionState), Observed: l.Observed, Reason: l.Reason,
	}
	if l.StartTS != 0 {
		out.Started = new(l.StartTS.Time())
	}
	if l.Kind != "" {
		out.Expires = new(l.Expires.Time())
		out.Primary = &primaryJSON{cli.NewCellNameJSON(l.Primary), l.PrimaryLocked}
	}
	return out
}
