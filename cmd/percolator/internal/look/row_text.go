package look

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/internal/text"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// rowText draws a row for people, in 120 columns unless names are long.
type rowText struct {
	in    admin.RowInspection
	now   bool // the reader is one of the present
	paint cli.Painter
}

// Widths, in characters.
const (
	rowIndent = "  "
	ageWidth  = len("59m59s ago")
	refWidth  = 44 // of a cell that something refers to; -o json has all of it
	noteWidth = 88 // of a value or a reason in a line of its own
)

func (t rowText) write(w io.Writer) {
	title := cli.RowName(t.in.Table, t.in.Row)
	_, _ = fmt.Fprintf(w, "%s  at %s\n", t.paint.Paint(cli.Bold, title), text.At(t.in.Now))
	for _, col := range t.in.Columns {
		t.writeColumn(w, col)
	}
	if t.in.Truncated != "" {
		_, _ = fmt.Fprintf(w, "\nleft out: %s\n", cli.OneLine(t.in.Truncated))
	}
}

func (t rowText) writeColumn(w io.Writer, col admin.ColumnInspection) {
	title := t.paint.Paint(cli.Bold, cli.Shown(col.Column))
	switch {
	case col.Observed:
		title += ", observed"
	case col.Weak:
		title += ", weak"
	}
	if col.Type != percolator.TypeBytes {
		title += ", " + string(col.Type)
	}
	_, _ = fmt.Fprintf(w, "\n%s\n", title)
	if len(col.Versions) > 0 {
		g := cli.Grid{
			Head:   []string{"TIMESTAMP", "AGE", "DATA", "LOCK", "WRITE", "NOTIFY"},
			Indent: rowIndent, Least: map[string]int{"AGE": ageWidth},
		}
		for _, v := range col.Versions {
			t.addVersion(&g, col, v)
		}
		if col.More {
			g.Add(cli.Line{}, cli.Lines("…"), nil, nil, cli.Lines("older ones: --versions"), nil, nil)
		}
		g.Write(w, t.paint, "NOTIFY")
	}
	t.writeAbout(w, col)
}

// addVersion adds what is stored at one timestamp.
func (t rowText) addVersion(g *cli.Grid, col admin.ColumnInspection, v admin.VersionInspection) {
	var data, lock, write, notify []cli.Line
	var note cli.Line
	if v.Data != nil {
		data, note = t.data(col, v)
	}
	if v.Lock != nil {
		lock = t.lock(*v.Lock)
	}
	if v.Write != nil {
		write = t.record(v)
	}
	if v.Notify {
		notify = cli.Lines("notify")
	}
	at, when := cli.Lines(strconv.FormatInt(int64(v.Timestamp), 10)), cli.Lines(t.age(v.Timestamp))
	if v.Timestamp == 0 {
		at, when = cli.Lines("-"), nil
	}
	g.Add(note, at, when, data, lock, write, notify)
	for _, u := range v.Undecodable {
		text := fmt.Sprintf("undecodable %s cell at %d µs of %s: %s", u.Family, u.Timestamp, size(u.Size), cli.OneLine(u.Reason))
		g.Add(cli.Styled(cli.Shortened(text, noteWidth+1), cli.Red), nil, nil, nil, nil, nil, nil)
	}
}

// data says what a data cell is; the note is its value.
func (t rowText) data(col admin.ColumnInspection, v admin.VersionInspection) ([]cli.Line, cli.Line) {
	out := cli.Lines(size(v.Data.Size))
	// The data is an aborted transaction's, or its record was collected.
	if v.Data.CommitTS == 0 && v.Lock == nil && !col.More {
		out = append(out, cli.Styled("of no record", cli.Dim))
	}
	if v.Data.Value == nil {
		return out, cli.Line{}
	}
	return out, cli.Styled(valueLine(col.Type, v.Data.Value, v.Data.Size), cli.Dim)
}

// record says what a cell of the write family is, in the words of Figure 4 of the paper.
func (t rowText) record(v admin.VersionInspection) []cli.Line {
	switch v.Write.Kind {
	case "rollback":
		return []cli.Line{cli.Styled("rolled back", cli.Yellow)}
	case "put":
		out := cli.Lines(fmt.Sprintf("put, data @ %d", v.Write.StartTS))
		if v.Write.DataMissing {
			out = append(out, cli.Styled("which is missing", cli.Red))
		}
		return out
	}
	return cli.Lines(fmt.Sprintf("%s of %d", v.Write.Kind, v.Write.StartTS))
}

// lock says where the primary is, what has become of the transaction, and what a client that meets
// the lock does.
func (t rowText) lock(l admin.LockInspection) []cli.Line {
	if l.Kind == "" {
		return []cli.Line{cli.Styled("undecodable", cli.Red), cli.Styled(cli.Shortened(cli.OneLine(l.Reason), refWidth), cli.Red)}
	}
	where := l.Kind + ", primary"
	if !l.IsPrimary() {
		where = cli.Shortened(l.Kind+" → "+cli.CellText(l.Primary), refWidth)
	}
	state, does, s := lockWords(l)
	return []cli.Line{cli.Styled(where, cli.Plain), cli.Styled(cli.Shortened(state, refWidth), s), cli.Styled(does, s)}
}

// lockWords describe the state of a lock, and what becomes of it.
func lockWords(l admin.LockInspection) (state, does string, s cli.Style) {
	switch l.State {
	case admin.LockStateAlive:
		return "alive, " + lifeText(l), "readers wait for it", cli.Yellow
	case admin.LockStateCommitted:
		return fmt.Sprintf("committed at %d", l.CommitTS), "roll forward by any reader", cli.Green
	case admin.LockStateRolledBack:
		return "rolled back", "erased by any reader", cli.Dim
	case admin.LockStateDead:
		return "dead, " + lifeText(l), "roll back by any reader", cli.Red
	}
	return "corrupt: " + cli.OneLine(l.Reason), "no client can resolve it", cli.Red
}

// lifeText says by what a lock was judged.
func lifeText(l admin.LockInspection) string {
	switch {
	case l.SessionState == admin.SessionEnded:
		return "its session has ended"
	case l.State == admin.LockStateDead:
		return "its TTL has passed"
	case l.SessionState == admin.SessionOpen:
		return "its session is open"
	}
	return "its TTL lasts"
}

// writeAbout says below a column's versions what readers find and what observers have done.
func (t rowText) writeAbout(w io.Writer, col admin.ColumnInspection) {
	about := func(who string, s cli.Style, what string) {
		_, _ = fmt.Fprintf(w, "%s%s %s\n", rowIndent, who+":", t.paint.Paint(s, what))
	}
	reader := "reader now"
	if !t.now {
		reader = fmt.Sprintf("reader at %d", t.in.AsOf)
	}
	if !col.Weak {
		s, what := t.reader(col.Reader)
		about(reader, s, what)
	}
	for _, a := range col.Acks {
		s, what := t.ack(a)
		about("observer "+cli.Shown(a.Observer), s, what)
	}
	for _, p := range col.States {
		s, what := t.observerState(p)
		about("observer "+cli.Shown(p.Observer), s, what)
	}
	if col.Observed && len(col.Acks) == 0 {
		about("observers", cli.Plain, "none has run")
	}
}

func (t rowText) reader(r admin.ReaderView) (cli.Style, string) {
	first := map[model.Resolution]string{
		model.LockRolledForward: " (it rolls the lock forward first)",
		model.LockRolledBack:    " (it rolls the lock back first)",
	}[r.Resolves]
	switch r.State {
	case admin.ReaderValue:
		return cli.Green, fmt.Sprintf("put of %s, data @ %d, committed at %d%s", size(r.Size), r.StartTS, r.CommitTS, first)
	case admin.ReaderDeleted:
		return cli.Plain, fmt.Sprintf("nothing, deleted at %d%s", r.CommitTS, first)
	case admin.ReaderAbsent:
		return cli.Plain, "nothing, no change was committed up to then" + first
	case admin.ReaderWaits:
		return cli.Yellow, fmt.Sprintf("waits for transaction %d", r.StartTS)
	case admin.ReaderTooOld:
		return cli.Yellow, "snapshot too old: " + r.Reason
	case admin.ReaderCorrupt:
		return cli.Red, "corrupt: " + cli.OneLine(r.Reason)
	}
	return cli.Yellow, "not known, older records than were read decide"
}

func (t rowText) ack(a admin.AckInspection) (cli.Style, string) {
	parts, s := []string{"has not run"}, cli.Plain
	if a.RanAt != 0 {
		parts[0] = fmt.Sprintf("ran at %d, committed at %d", a.RanAt, a.CommittedAt)
	}
	if a.Due {
		parts, s = append(parts, "the column has changed since"), cli.Yellow
	}
	if a.Lock != nil {
		state, does, lockStyle := lockWords(*a.Lock)
		parts, s = append(parts, fmt.Sprintf("a run at %d holds the acknowledgment: %s, %s", a.Lock.StartTS, state, does)), lockStyle
	}
	if len(a.Undecodable) > 0 {
		parts, s = append(parts, fmt.Sprintf("%d cells of its acknowledgment are undecodable", len(a.Undecodable))), cli.Red
	}
	return s, strings.Join(parts, "; ")
}

func (t rowText) observerState(p model.ObserverState) (cli.Style, string) {
	if p.Done {
		return cli.Plain, fmt.Sprintf("done up to %d, beside a parked one", p.Through)
	}
	return cli.Red, fmt.Sprintf("parked %s after %d attempts, for changes up to %d: %s", cli.Age(t.in.Now.Time(), p.Since), p.Attempts, p.Through,
		cli.Shortened(cli.OneLine(p.Reason), noteWidth))
}

// age of a timestamp, in its two largest units.
func (t rowText) age(ts tso.Timestamp) string { return text.Age(t.in.Now.Sub(ts)) + " ago" }

// size is a number of bytes for people.
func size(n int64) string {
	switch {
	case n < 0:
		return "? bytes"
	case n == 1:
		return "1 byte"
	case n < 10_000:
		return fmt.Sprintf("%d bytes", n)
	case n < 10_000_000:
		return fmt.Sprintf("%.1f kB", float64(n)/1e3)
	}
	return fmt.Sprintf("%.1f MB", float64(n)/1e6)
}

// valueLine is the beginning of a value in one line: text where it is readable, else hexadecimal.
func valueLine(t percolator.Type, value []byte, whole int64) string {
	text := cli.PartText(t, value, whole)
	if t == percolator.TypeBytes && strings.HasPrefix(text, `"`) && len(value) > 0 {
		text = fmt.Sprintf("% x", value)
	}
	if runes := []rune(text); len(runes) > noteWidth {
		return string(runes[:noteWidth]) + "…"
	}
	if int64(len(value)) < whole {
		text += "…"
	}
	return text
}
