package history

import (
	"testing"

	"github.com/gopercolator/percolator/tso"
)

// TestNobodyReadsOrCommitsDuringAnImport: between the fence of an import and its end nobody reads
// the table or commits there, and what began before does not later either.
func TestNobodyReadsOrCommitsDuringAnImport(t *testing.T) {
	const start, commit, since = 30, 40, 50
	x := Cell{"t", "x", "c"}
	for _, c := range []struct {
		name  string
		early bool // it began before the fence was in force
		at    tso.Timestamp
		do    func(*Txn) tso.Timestamp // its commit timestamp
		want  []Kind
	}{
		{"a snapshot from before, before", true, 20, func(r *Txn) tso.Timestamp { r.Read(x, nil); return 0 }, nil},
		{"a snapshot from before, after", false, 20, func(r *Txn) tso.Timestamp { r.Read(x, nil); return 0 }, []Kind{anomalyImport}},
		{"a scan in the middle", false, 45, func(r *Txn) tso.Timestamp {
			r.Scan("t", "", "", nil, []Entry{{x, []byte("1"), commit}})
			return 0
		}, []Kind{anomalyImport}},
		{"a snapshot from the end on", false, since, func(r *Txn) tso.Timestamp { r.Read(x, []byte("1")); return 0 }, nil},
		{"a snapshot of another table", false, 45, func(r *Txn) tso.Timestamp { r.Read(Cell{"u", "x", "c"}, nil); return 0 }, nil},
		{"a commit from before", true, 20, func(r *Txn) tso.Timestamp { r.Put(Cell{"t", "y", "c"}, []byte("2")); return 60 }, []Kind{anomalyImport}},
		{"a commit before", true, 20, func(r *Txn) tso.Timestamp { r.Put(Cell{"t", "y", "c"}, []byte("2")); return 25 }, nil},
		{"a commit from the end on", false, 55, func(r *Txn) tso.Timestamp { r.Put(Cell{"t", "y", "c"}, []byte("2")); return 60 }, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := New()
			var o *Txn
			if c.early {
				o = h.Begin("c", "other")
			}
			i := h.Begin("c", "import")
			i.StartedAt(start)
			i.Put(x, []byte("1"))
			h.Imported(Import{Table: "t", Commit: commit, Since: since, Fenced: h.Moment()})
			i.End(Committed, commit)
			if !c.early {
				o = h.Begin("c", "other")
			}
			o.StartedAt(c.at)
			o.End(Committed, c.do(o))
			expectKinds(t, Check(h, Rules{}).Anomalies, c.want...)
		})
	}
}
