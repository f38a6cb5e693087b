package simulated

import (
	"fmt"
	"strings"

	"github.com/gopercolator/percolator/internal/engine/store"
)

// Event is something that happened to a row.
type Event struct{ Process, Table, Row, What string }

func (e Event) String() string { return fmt.Sprintf("%s: %s %q %s", e.Process, e.Table, e.Row, e.What) }

// sent tells of a request that is sent, and of what becomes of it.
func (r *request) sent(op operation, row string) {
	if r.conn.cluster.config.Trace != nil {
		r.tell(row, "is sent "+op.String())
	}
}

// sends tells of changes that are about to be sent.
func (r *request) sends(bulk bool, row string, changes []store.Change) {
	if r.conn.cluster.config.Sent != nil && len(changes) > 0 {
		r.conn.cluster.config.Sent(r.conn.process, bulk, r.deadline, r.table.name, row, changes)
	}
}

func (r *request) fated(row string, f fate) {
	if r.conn.cluster.config.Trace == nil {
		return
	}
	switch {
	case f.lost && f.later > 0:
		r.tell(row, fmt.Sprintf("the request comes late, in %v", f.later))
	case f.lost:
		r.tell(row, "the request is lost")
	case f.later > 0:
		r.tell(row, fmt.Sprintf("the request comes twice, again in %v", f.later))
	}
	if f.failed != nil || f.silent {
		r.tell(row, fmt.Sprintf("no answer comes, but %v", f.failed))
	}
}

// landed takes notice of changes that were applied, unless err says why not.
func (r *request) landed(row, how string, changes []store.Change, err error) {
	if err == nil {
		r.conn.cluster.notifications.note(r.table.name, row, changes, r.copied)
		if r.conn.cluster.config.Applied != nil {
			r.conn.cluster.config.Applied(r.conn.process, r.table.name, row, changes)
		}
	}
	if r.conn.cluster.config.Trace == nil {
		return
	}
	if err != nil {
		r.tell(row, fmt.Sprintf("%s: %v", how, err))
		return
	}
	var b strings.Builder
	b.WriteString(how)
	for _, c := range changes {
		b.WriteString(" " + describe(c))
	}
	r.tell(row, b.String())
}

func describe(c store.Change) string {
	switch c.Kind {
	case store.PutVersion:
		return fmt.Sprintf("put %s:%q@%d=%q", c.Family, c.Column, c.From, c.Value)
	case store.EraseVersions:
		return fmt.Sprintf("erase %s:%q@%d…%d", c.Family, c.Column, c.From, c.To)
	}
	return "erase all"
}

func (r *request) tell(row, what string) {
	r.conn.cluster.config.Trace(Event{r.conn.process, r.table.name, row, what})
}

func (op operation) String() string {
	return [...]string{opReadRows: "ReadRows", opCheckAndMutate: "CheckAndMutateRow", opMutateRows: "MutateRows", opMutateEntry: "an entry", opSampleKeys: "SampleRowKeys"}[op]
}
