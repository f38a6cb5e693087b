package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gopercolator/percolator/tso"
)

// What a story tells of a transaction at most.
const (
	toldOps     = 50
	toldEntries = 20
	toldBytes   = 60 // of a value
)

// involved lists the transactions that an anomaly names, in the order in which they began.
func involved(args []any) []*Txn {
	var all []*Txn
	for _, a := range args {
		if t, ok := a.(*Txn); ok && t != nil && !slices.Contains(all, t) {
			all = append(all, t)
		}
	}
	slices.SortStableFunc(all, func(a, b *Txn) int { return cmp.Compare(a.number, b.number) })
	return all
}

// story is what a transaction did, a line for each operation.
func (t *Txn) story() string {
	var b strings.Builder
	fmt.Fprintln(&b, t)
	if t.forgotten {
		b.WriteString("  (the rest is forgotten)\n")
	}
	for _, run := range t.runs {
		fmt.Fprintf(&b, "  runs %s for %s, changed at %d\n", run.Observer, run.Cell, run.Change)
	}
	for i, o := range t.ops {
		if i == toldOps {
			fmt.Fprintf(&b, "  … and %d more\n", len(t.ops)-i)
			break
		}
		b.WriteString("  " + t.h.tellOp(o) + "\n")
	}
	for _, id := range t.weak {
		fmt.Fprintf(&b, "  notifies %s\n", t.h.names[id])
	}
	if t.queued != nil {
		t.queued.tell(&b)
	}
	return b.String()
}

func (q *queued) tell(b *strings.Builder) {
	for _, a := range q.adds {
		fmt.Fprintf(b, "  adds %d to %s\n", a.n, a.total)
	}
	for _, a := range q.sums {
		fmt.Fprintf(b, "  finds %d in %s\n", a.n, a.total)
	}
	for _, e := range q.exports {
		fmt.Fprintf(b, "  exports %q to %s as number %d\n", e.what, e.partition, e.seq)
	}
}

func (h *Recording) tellOp(o op) string {
	switch o.kind {
	case opRead:
		return fmt.Sprintf("reads %s = %s", h.names[o.cell], h.tellValue(o.value, o.commit))
	case opPresent:
		return fmt.Sprintf("is told that %s has a value", h.names[o.cell])
	case opPut:
		return fmt.Sprintf("puts %s = %s", h.names[o.cell], h.tellValue(o.value, 0))
	case opDelete:
		return fmt.Sprintf("deletes %s", h.names[o.cell])
	case opLock:
		return fmt.Sprintf("locks %s", h.names[o.cell])
	}
	return h.tellScan(o.scan)
}

func (h *Recording) tellScan(s *scan) string {
	var b strings.Builder
	what := "scans " + s.table
	if s.index {
		what = "scans the index of " + s.table
	}
	fmt.Fprintf(&b, "%s %q…%q %s:", what, s.from, s.to, strings.Join(s.columns, ","))
	for i, e := range s.entries {
		if i == toldEntries {
			fmt.Fprintf(&b, " … and %d more", len(s.entries)-i)
			break
		}
		name := h.names[e.cell]
		fmt.Fprintf(&b, " %s/%s = %s", name.Row, name.Column, h.tellValue(e.value, e.commit))
	}
	return b.String()
}

func (h *Recording) tellValue(v valueID, commit tso.Timestamp) string {
	if v == absent {
		return "nothing"
	}
	text := h.texts[v]
	if len(text) > toldBytes {
		text = text[:toldBytes/2] + "…" + text[len(text)-toldBytes/2:]
	}
	if commit == 0 {
		return fmt.Sprintf("%q", text)
	}
	return fmt.Sprintf("%q committed at %d", text, commit)
}
