package look

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// journalFlags are what "journal ls" is told.
type journalFlags struct {
	cli.ListFlags
	stream string
	from   uint64
	limit  int
}

func NewJournalLs() *cobra.Command {
	var f journalFlags
	cmd := &cobra.Command{
		Use: "ls",
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			if f.stream == "" && cmd.Flags().Changed("from") {
				return cli.Usagef("--from is for --stream")
			}
			return cli.AboveZero("limit", f.limit)
		},
		RunE: f.Run(func(ctx context.Context, cmd *cobra.Command, c *percolator.Client, _ []string) error {
			if f.stream != "" {
				return f.listRows(ctx, cmd.OutOrStdout(), admin.New(c))
			}
			return f.listStreams(ctx, cmd.OutOrStdout(), admin.New(c))
		}, cli.Reading),
	}
	f.Add(cmd, cli.DataTimeout)
	flags := cmd.Flags()
	flags.StringVar(&f.stream, "stream", "", "list the entries of this stream")
	flags.Uint64Var(&f.from, "from", 0, "from this row of the stream on; 0: from its first one")
	flags.IntVar(&f.limit, "limit", 100, "how many streams or entries to list")
	return cmd
}

// streamsJSON is the streams that "journal ls" found, the oldest first.
type streamsJSON struct {
	Streams []streamJSON `json:"streams"`
	More    bool         `json:"more"` // there are more than --limit
}

type streamJSON struct {
	ID        string        `json:"id"`
	Session   string        `json:"session,omitempty"`
	State     string        `json:"state"` // of the session: none, open, ended or unknown
	Opened    *time.Time    `json:"opened,omitempty"`
	Low       uint64        `json:"low"` // every row below it is settled
	Rows      int           `json:"rows"`
	Unsettled int           `json:"unsettled"`
	More      bool          `json:"more"` // more rows than were counted
	Oldest    tso.Timestamp `json:"oldest,omitempty"`
	Corrupt   string        `json:"corrupt,omitempty"`
}

func (f *journalFlags) listStreams(ctx context.Context, w io.Writer, a *admin.Admin) error {
	list, more, err := a.JournalStreams(ctx, f.limit)
	if err != nil {
		return err
	}
	slices.SortStableFunc(list, func(a, b admin.JournalStream) int { return a.Opened.Compare(b.Opened) })
	out := streamsJSON{Streams: cli.Array(list, newStreamJSON), More: more}
	return f.Output.Emit(w, out, func(w io.Writer) { out.print(w, time.Now()) })
}

func newStreamJSON(s admin.JournalStream) streamJSON {
	out := streamJSON{
		ID: s.ID, Session: s.Session, State: string(s.SessionState), Low: s.Low,
		Rows: s.Rows, Unsettled: s.Unsettled, More: s.More, Oldest: s.Oldest, Corrupt: s.Corrupt,
	}
	if !s.Opened.IsZero() {
		out.Opened = new(s.Opened.UTC())
	}
	return out
}

func (out streamsJSON) print(w io.Writer, now time.Time) {
	if len(out.Streams) == 0 {
		_, _ = fmt.Fprintln(w, "no streams")
		return
	}
	g := cli.Grid{Head: []string{"STREAM", "SESSION", "OPENED", "LOW", "ROWS", "UNSETTLED", "OLDEST"}}
	for _, s := range out.Streams {
		opened, oldest, more, note := "-", "-", "", cli.Line{}
		if s.Opened != nil {
			opened = cli.Age(now, *s.Opened)
		}
		if s.Oldest != 0 {
			oldest = cli.Age(now, s.Oldest.Time())
		}
		if s.More {
			more = "+"
		}
		if s.Corrupt != "" {
			note = cli.Styled(cli.OneLine(s.Corrupt), cli.Red)
		}
		g.Add(note, cli.Lines(s.ID), cli.Lines(s.State), cli.Lines(opened), cli.Lines(fmt.Sprint(s.Low)),
			cli.Lines(fmt.Sprint(s.Rows)+more), cli.Lines(fmt.Sprint(s.Unsettled)+more), cli.Lines(oldest))
	}
	if out.More {
		g.Add(cli.Styled("more with --limit", cli.Plain), cli.Lines("…"), nil, nil, nil, nil, nil, nil)
	}
	g.Write(w, cli.PainterFor(w))
}

// entriesJSON is the entries of a stream.
type entriesJSON struct {
	Stream string      `json:"stream"`
	Rows   []batchJSON `json:"rows"`
	Next   uint64      `json:"next,omitempty"` // --from of what comes next; 0: nothing
}

type batchJSON struct {
	Row     uint64       `json:"row"`
	Bytes   int          `json:"bytes"`
	Entries []loggedJSON `json:"entries"`
	Corrupt string       `json:"corrupt,omitempty"`
}

// loggedJSON is an entry of the journal. Names are as shown.
type loggedJSON struct {
	Start   tso.Timestamp     `json:"start"`
	Primary *cli.CellNameJSON `json:"primary,omitempty"` // absent: the rows are only notified
	Rows    []namedRowJSON    `json:"rows"`
}

type namedRowJSON struct {
	Table    string `json:"table"`
	Row      string `json:"row"`
	Observed bool   `json:"observed"`
	Weak     bool   `json:"weak"`
}

// listRows lists whole rows of a stream, until they have --limit entries.
func (f *journalFlags) listRows(ctx context.Context, w io.Writer, a *admin.Admin) error {
	out, entries := entriesJSON{Stream: f.stream, Rows: []batchJSON{}}, 0
	for row, err := range a.JournalRows(ctx, f.stream, f.from) {
		if err != nil {
			return err
		}
		if entries >= f.limit {
			out.Next = row.Seq
			break
		}
		entries += max(1, len(row.Entries))
		out.Rows = append(out.Rows, batchJSON{row.Seq, row.Bytes, cli.Array(row.Entries, newLoggedJSON), row.Corrupt})
	}
	return f.Output.Emit(w, out, out.print)
}

func newLoggedJSON(e model.JournalEntry) loggedJSON {
	out := loggedJSON{Start: e.StartTS, Rows: cli.Array(e.Rows, func(r model.JournalName) namedRowJSON {
		return namedRowJSON{cli.Shown(r.Table), cli.Shown(r.Key), r.Observed, r.Weak}
	})}
	if e.Primary != (percolator.Cell{}) {
		out.Primary = new(cli.NewCellNameJSON(e.Primary))
	}
	return out
}

// namesShown is how many rows of an entry the table names.
const namesShown = 8

func (out entriesJSON) print(w io.Writer) {
	if len(out.Rows) == 0 {
		_, _ = fmt.Fprintln(w, "no rows")
		return
	}
	g := cli.Grid{Head: []string{"ROW", "TRANSACTION", "PRIMARY", "NAMES"}}
	for _, b := range out.Rows {
		at := fmt.Sprint(b.Row)
		if b.Corrupt != "" {
			g.Add(cli.Styled(cli.OneLine(b.Corrupt), cli.Red), cli.Lines(at), cli.Lines("-"), cli.Lines("-"), cli.Lines("-"))
		}
		for _, e := range b.Entries {
			g.Add(cli.Line{}, cli.Lines(at), cli.Lines(fmt.Sprint(int64(e.Start))), cli.Lines(e.primary()), e.names())
			at = ""
		}
	}
	if out.Next != 0 {
		g.Add(cli.Styled(fmt.Sprintf("more with --limit, or --from %d", out.Next), cli.Plain), cli.Lines("…"), nil, nil, nil)
	}
	g.Write(w, cli.PainterFor(w))
}

func (e loggedJSON) primary() string {
	if e.Primary == nil {
		return "none"
	}
	return cli.Shortened(e.Primary.Table+"/"+e.Primary.Row+" "+e.Primary.Column, refWidth)
}

// names has a line for each of the first rows.
func (e loggedJSON) names() (list []cli.Line) {
	for _, r := range e.Rows[:min(len(e.Rows), namesShown)] {
		text := cli.Shortened(r.Table+"/"+r.Row, refWidth)
		if r.Observed {
			text += ", observed"
		}
		if r.Weak {
			text += ", notified weakly"
		}
		list = append(list, cli.Styled(text, cli.Plain))
	}
	if n := len(e.Rows) - namesShown; n > 0 {
		list = append(list, cli.Styled(fmt.Sprintf("and %d more", n), cli.Plain))
	}
	return list
}

// printNamed prints the entries that name a row.
func printNamed(w io.Writer, found []admin.FoundEntry, all bool) {
	_, _ = fmt.Fprintln(w)
	if len(found) == 0 {
		_, _ = fmt.Fprintln(w, "no entry of the journal names it")
	} else {
		g := cli.Grid{Head: []string{"STREAM", "ROW", "TRANSACTION", "PRIMARY", "STATE"}}
		for _, n := range found {
			e := newLoggedJSON(n.Entry)
			g.Add(cli.Line{}, cli.Lines(n.Stream), cli.Lines(fmt.Sprint(n.Seq)), cli.Lines(fmt.Sprint(int64(e.Start))), cli.Lines(e.primary()), cli.Lines(stateOf(n)))
		}
		g.Write(w, cli.PainterFor(w))
	}
	if !all {
		_, _ = fmt.Fprintf(w, "only the first %d rows of the journal were looked at\n", admin.MaxEntriesSearched)
	}
}

func stateOf(n admin.FoundEntry) string {
	if n.Settled {
		return "settled"
	}
	return "not settled"
}

// namedInJSON is what "row --journal" has found.
type namedInJSON struct {
	Entries []namingJSON `json:"entries"`
	All     bool         `json:"all"` // the whole journal was searched
}

type namingJSON struct {
	Stream  string            `json:"stream"`
	Row     uint64            `json:"row"`
	Settled bool              `json:"settled"`
	Start   tso.Timestamp     `json:"start"`
	Primary *cli.CellNameJSON `json:"primary,omitempty"`
}

func newNamingJSON(n admin.FoundEntry) namingJSON {
	e := newLoggedJSON(n.Entry)
	return namingJSON{n.Stream, n.Seq, n.Settled, e.Start, e.Primary}
}
