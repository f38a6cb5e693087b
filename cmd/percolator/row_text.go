package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/tso"
)

// rowText draws a row for people, in 120 columns unless names are long.
type rowText struct {
	in    admin.RowInspection
	now   bool // the reader is one of the present
	paint painter
}

// Widths, in characters.
const (
	rowIndent = "  "
	ageWidth  = len("59m59s ago")
	refWidth  = 44 // of a cell that something refers to; -o json has all of it
	noteWidth = 88 // of a value or a reason in a line of its own
)

func (t rowText) write(w io.Writer) {
	title := rowName(t.in.Table, t.in.Row)
	_, _ = fmt.Fprintf(w, "%s  at %s\n", t.paint.paint(bold, title), atTime(t.in.Now))
	for _, col := range t.in.Columns {
		t.writeColumn(w, col)
	}
	if t.in.Truncated != "" {
		_, _ = fmt.Fprintf(w, "\nleft out: %s\n", oneLine(t.in.Truncated))
	}
}

func (t rowText) writeColumn(w io.Writer, col admin.ColumnInspection) {
	title := t.paint.paint(bold, shown(col.Column))
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
		g := grid{
			head:   []string{"TIMESTAMP", "AGE", "DATA", "LOCK", "WRITE", "NOTIFY"},
			indent: rowIndent, least: map[string]int{"AGE": ageWidth},
		}
		for _, v := range col.Versions {
			t.addVersion(&g, col, v)
		}
		if col.More {
			g.add(line{}, lines("…"), nil, nil, lines("older ones: --versions"), nil, nil)
		}
		g.write(w, t.paint, "NOTIFY")
	}
	t.writeAbout(w, col)
}

func lines(texts ...string) (out []line) {
	for _, text := range texts {
		out = append(out, line{text: text})
	}
	return out
}

// addVersion adds what is stored at one timestamp.
func (t rowText) addVersion(g *grid, col admin.ColumnInspection, v admin.VersionInspection) {
	var data, lock, write, notify []line
	var note line
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
		notify = lines("notify")
	}
	at, when := lines(strconv.FormatInt(int64(v.Timestamp), 10)), lines(t.age(v.Timestamp))
	if v.Timestamp == 0 {
		at, when = lines("-"), nil
	}
	g.add(note, at, when, data, lock, write, notify)
	for _, u := range v.Undecodable {
		text := fmt.Sprintf("undecodable %s cell at %d µs of %s: %s", u.Family, u.Timestamp, size(u.Size), oneLine(u.Reason))
		g.add(line{shortened(text, noteWidth+1), red}, nil, nil, nil, nil, nil, nil)
	}
}

// data says what a data cell is; the note is its value.
func (t rowText) data(col admin.ColumnInspection, v admin.VersionInspection) ([]line, line) {
	out := lines(size(v.Data.Size))
	// The data is an aborted transaction's, or its record was collected.
	if v.Data.CommitTS == 0 && v.Lock == nil && !col.More {
		out = append(out, line{"of no record", dim})
	}
	if v.Data.Value == nil {
		return out, line{}
	}
	return out, line{valueLine(col.Type, v.Data.Value, v.Data.Size), dim}
}

// record says what a cell of the write family is, in the words of Figure 4 of the paper.
func (t rowText) record(v admin.VersionInspection) []line {
	switch v.Write.Kind {
	case "rollback":
		return []line{{"rolled back", yellow}}
	case "put":
		out := lines(fmt.Sprintf("put, data @ %d", v.Write.StartTS))
		if v.Write.DataMissing {
			out = append(out, line{"which is missing", red})
		}
		return out
	}
	return lines(fmt.Sprintf("%s of %d", v.Write.Kind, v.Write.StartTS))
}

// lock says where the primary is, what has become of the transaction, and what a client that meets
// the lock does.
func (t rowText) lock(l admin.LockInspection) []line {
	if l.Kind == "" {
		return []line{{"undecodable", red}, {shortened(oneLine(l.Reason), refWidth), red}}
	}
	where := l.Kind + ", primary"
	if !l.IsPrimary() {
		where = shortened(l.Kind+" → "+cellText(l.Primary), refWidth)
	}
	state, does, s := lockWords(l)
	return []line{{text: where}, {shortened(state, refWidth), s}, {does, s}}
}

// lockWords describe the state of a lock, and what becomes of it.
func lockWords(l admin.LockInspection) (state, does string, s style) {
	switch l.State {
	case admin.LockStateAlive:
		return "alive, " + lifeText(l), "readers wait for it", yellow
	case admin.LockStateCommitted:
		return fmt.Sprintf("committed at %d", l.CommitTS), "roll forward by any reader", green
	case admin.LockStateRolledBack:
		return "rolled back", "erased by any reader", dim
	case admin.LockStateDead:
		return "dead, " + lifeText(l), "roll back by any reader", red
	}
	return "corrupt: " + oneLine(l.Reason), "no client can resolve it", red
}

// lifeText says by what a lock was judged.
func lifeText(l admin.LockInspection) string {
	switch {
	case l.SessionState == admin.SessionEnded:
		return "its session has ended"
	case l.State == admin.LockStateDead:
		return "its TTL is over"
	case l.SessionState == admin.SessionOpen:
		return "its session is open"
	}
	return "its TTL lasts"
}

// writeAbout says below a column's versions what readers find and what observers have done.
func (t rowText) writeAbout(w io.Writer, col admin.ColumnInspection) {
	about := func(who string, s style, what string) {
		_, _ = fmt.Fprintf(w, "%s%s %s\n", rowIndent, who+":", t.paint.paint(s, what))
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
		about("observer "+shown(a.Observer), s, what)
	}
	for _, p := range col.States {
		s, what := t.observerState(p)
		about("observer "+shown(p.Observer), s, what)
	}
	if col.Observed && len(col.Acks) == 0 {
		about("observers", plain, "none has run")
	}
}

func (t rowText) reader(r admin.ReaderView) (style, string) {
	first := map[admin.Resolution]string{
		admin.LockRolledForward: " (it rolls the lock forward first)",
		admin.LockRolledBack:    " (it rolls the lock back first)",
	}[r.Resolves]
	switch r.State {
	case admin.ReaderValue:
		return green, fmt.Sprintf("put of %s, data @ %d, committed at %d%s", size(r.Size), r.StartTS, r.CommitTS, first)
	case admin.ReaderDeleted:
		return plain, fmt.Sprintf("nothing, deleted at %d%s", r.CommitTS, first)
	case admin.ReaderAbsent:
		return plain, "nothing, no change was committed up to then" + first
	case admin.ReaderWaits:
		return yellow, fmt.Sprintf("waits for transaction %d", r.StartTS)
	case admin.ReaderTooOld:
		return yellow, "snapshot too old: " + r.Reason
	case admin.ReaderCorrupt:
		return red, "corrupt: " + oneLine(r.Reason)
	}
	return yellow, "not known, older records than were read decide"
}

func (t rowText) ack(a admin.AckInspection) (style, string) {
	var parts []string
	s := plain
	if a.RanAt == 0 {
		parts = append(parts, "has not run")
	} else {
		parts = append(parts, fmt.Sprintf("ran at %d, committed at %d", a.RanAt, a.CommittedAt))
	}
	if a.Due {
		parts, s = append(parts, "the column has changed since"), yellow
	}
	if a.Lock != nil {
		state, does, lockStyle := lockWords(*a.Lock)
		parts, s = append(parts, fmt.Sprintf("a run at %d holds the acknowledgment: %s, %s", a.Lock.StartTS, state, does)), lockStyle
	}
	if len(a.Undecodable) > 0 {
		parts, s = append(parts, fmt.Sprintf("%d cells of its acknowledgment are undecodable", len(a.Undecodable))), red
	}
	return s, strings.Join(parts, "; ")
}

func (t rowText) observerState(p admin.ObserverState) (style, string) {
	if p.Done {
		return plain, fmt.Sprintf("done up to %d, beside a parked one", p.Through)
	}
	return red, fmt.Sprintf("parked %s after %d attempts, for changes up to %d: %s", age(t.in.Now.Time(), p.Since), p.Attempts, p.Through,
		shortened(oneLine(p.Reason), noteWidth))
}

// age of a timestamp, in its two largest units.
func (t rowText) age(ts tso.Timestamp) string { return briefAge(t.in.Now.Sub(ts)) + " ago" }

func briefAge(d time.Duration) string {
	d = max(0, d).Truncate(time.Second)
	const day = 24 * time.Hour
	switch {
	case d < time.Hour:
		return d.String()
	case d < day:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%dd%dh", d/day, d%day/time.Hour)
}

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

// cellText is percolator.Cell.String with the row of an index entry, which that leaves out.
func cellText(c percolator.Cell) string {
	return rowName(shown(c.Table), c.Row) + "/" + strconv.Quote(c.Column)
}

// valueLine is the beginning of a value in one line: text where it is readable, else hexadecimal.
func valueLine(t percolator.Type, value []byte, whole int64) string {
	text := partText(t, value, whole)
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
