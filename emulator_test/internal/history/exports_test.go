package history

import (
	"testing"

	"github.com/gopercolator/percolator/tso"
)

// TestExportsHaveObserversRunAgain: an export has those observers run again which had not run at
// its snapshot.
func TestExportsHaveObserversRunAgain(t *testing.T) {
	rules := Rules{Observers: []Observer{{Name: "o", Table: "t", Column: "c"}, {Name: "w", Table: "t", Column: "k", Weak: true}}}
	cell, poke := Cell{"t", "r", "c"}, Cell{"t", "r", "k"}
	for _, c := range []struct {
		name     string
		snapshot tso.Timestamp
		due      []string
		want     []Kind
	}{
		{"before everything", 5, nil, nil},
		{"both are due", 25, []string{"o", "w"}, nil},
		{"the change is lost", 25, []string{"w"}, []Kind{anomalyUndue}},
		{"the notification is lost", 25, []string{"o"}, []Kind{anomalyUndue}},
		{"the run had not committed", 35, []string{"w"}, []Kind{anomalyUndue}},
		{"both had run", 60, nil, nil},
		{"once more", 60, []string{"o", "w"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := New()
			writer := h.Begin("c", "write")
			writer.Started(10)
			writer.Put(cell, []byte("1"))
			writer.Notifies(poke)
			writer.End(Committed, 20)
			for _, o := range []string{"o", "w"} {
				run := h.Begin("c", "run of "+o)
				start := tso.Timestamp(30)
				if o == "w" {
					start = 31
				}
				run.Started(start)
				if o == "w" {
					run.Observes(Run{Observer: o, Cell: poke, Weak: true})
				} else {
					run.Observes(Run{Observer: o, Cell: cell, Change: 20})
				}
				run.Put(Cell{"t", o, "ran"}, []byte(o))
				run.End(Committed, start+10)
			}
			export := h.Begin("c", "export")
			export.StartedAt(c.snapshot)
			export.Exported("o", "w")
			for _, o := range c.due {
				export.Due(o, map[string]Cell{"o": cell, "w": poke}[o])
			}
			export.End(Committed, 0)
			expectKinds(t, Check(h, rules).Anomalies, c.want...)
		})
	}
}

// TestAbandonedChangesNeedNoRun: a change that an operator has abandoned need not be run for, nor
// be due in an export. A later one must.
func TestAbandonedChangesNeedNoRun(t *testing.T) {
	rules := Rules{Observers: []Observer{{Name: "o", Table: "t", Column: "c"}}}
	cell, ack := Cell{"t", "r", "c"}, Cell{"t", "r", "ack"}
	for _, c := range []struct {
		name string
		drop func(*Recording)
		want []Kind
	}{
		{"nothing", func(*Recording) {}, []Kind{anomalyUndue, anomalyUnobserved}},
		{"the change", func(h *Recording) { h.Drops("o", cell, 20, ack); h.Drops("o", cell, 10, ack) }, nil},
		{"and its acknowledgment", func(h *Recording) {
			h.Drops("o", cell, 20, ack)
			h.Found(Record{Cell: ack, Start: 21, Commit: 22})
		}, nil},
		{"an acknowledgment of nobody", func(h *Recording) {
			h.Found(Record{Cell: ack, Start: 21, Commit: 22})
		}, []Kind{anomalyUndue, anomalyUnobserved, anomalyUnknownRecord}},
		{"one before", func(h *Recording) { h.Drops("o", cell, 19, ack) }, []Kind{anomalyUndue, anomalyUnobserved}},
		{"of another observer", func(h *Recording) { h.Drops("p", cell, 20, ack) }, []Kind{anomalyUndue, anomalyUnobserved}},
		{"of another cell", func(h *Recording) { h.Drops("o", Cell{"t", "s", "c"}, 20, ack) }, []Kind{anomalyUndue, anomalyUnobserved}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := New()
			writer := h.Begin("c", "write")
			writer.Started(10)
			writer.Put(cell, []byte("1"))
			writer.End(Committed, 20)
			c.drop(h)
			export := h.Begin("c", "export")
			export.StartedAt(30)
			export.Exported("o")
			export.End(Committed, 0)
			expectKinds(t, Check(h, rules).Anomalies, c.want...)
		})
	}
}
