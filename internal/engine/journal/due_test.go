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
	if o.named != 1 || o.due.Len() != 1 {
		t.Fatalf("%d names, %d rows are due", o.named, o.due.Len())
	}
	if after := o.due.First().due.Sub(now); after > rarestLook+time.Minute {
		t.Errorf("the only row that is left is looked at in %v, want at most %v", after, rarestLook)
	}
}
