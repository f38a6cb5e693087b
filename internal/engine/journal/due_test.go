package journal

import (
	"testing"
	"time"

	"github.com/gopercolator/percolator/percolator/model"
)

// What rests for long because there was much to look at is looked at soon once that is settled.
func TestAStragglerIsLookedAtSoonOnceTheOthersAreSettled(t *testing.T) {
	t.Parallel()
	o := NewOwner()
	names := make([]model.JournalName, 50_000)
	var entries []*Append
	for i := range 1001 {
		e := &model.JournalEntry{StartTS: 1, Rows: names}
		if i == 1000 {
			e.Rows = names[:1]
		}
		w := &Append{entry: e}
		entries = append(entries, w)
		o.sent("stream", uint64(i+1), []*part{{entry: e, of: w}})
	}
	now := time.Now()
	for _, l := range o.Due(now.Add(2*FirstLook), 2000) {
		o.Looked(l, Outcome{})
	}
	for _, w := range entries[:1000] {
		o.RolledBack(w)
	}
	if o.again.Len() != 1 || o.first.Len() != 0 {
		t.Fatalf("%d rows are due again, want 1, and %d for the first time", o.again.Len(), o.first.Len())
	}
	if after := o.again.First().due.Sub(now); after > rarestLook+time.Minute {
		t.Errorf("the only row that is left is looked at in %v, want at most %v", after, rarestLook)
	}
}
