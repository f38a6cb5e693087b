package console

import (
	"context"

	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// journalState is the journal as it is stored.
type journalState struct {
	Disabled bool // by the schema: workers scan, and collection passes over all tables
	Building bool // likewise, until a sweep has ended
	Streams  []admin.JournalStream
	More     bool // there are more than these
	Sweep    model.Sweep
}

// journal lists at most MaxListed streams. That reads the journal, so it runs only while the page
// is open.
func (s clientSource) journal(ctx context.Context) (j journalState, err error) {
	j.Disabled = s.c.Schema().DisableJournal
	j.Building = !j.Disabled && !s.c.Engine().Meta.ByJournal()
	if j.Disabled {
		return j, nil
	}
	if j.Streams, j.More, err = s.JournalStreams(ctx, MaxListed); err != nil {
		return journalState{}, err
	}
	j.Sweep, err = s.Admin.Sweep(ctx)
	return j, err
}

// journalSum adds up what the listed streams hold.
type journalSum struct {
	Rows, Unsettled int64
	Oldest          tso.Timestamp // of an unsettled entry; 0: there is none
	AtLeast         bool          // there is more
}

// Sum adds up what the listed streams hold.
func (j journalState) Sum() (sum journalSum) {
	sum.AtLeast = j.More
	for _, st := range j.Streams {
		sum.Rows, sum.Unsettled = sum.Rows+int64(st.Rows), sum.Unsettled+int64(st.Unsettled)
		sum.AtLeast = sum.AtLeast || st.More
		if st.Oldest != 0 {
			sum.Oldest = older(sum.Oldest, st.Oldest)
		}
	}
	return sum
}
