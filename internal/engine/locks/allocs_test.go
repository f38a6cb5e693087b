package locks

import (
	"testing"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// TestAllocations: the status of a transaction is read off its primary without an allocation. The
// one of store says how such bounds are kept.
func TestAllocations(t *testing.T) {
	const start, end = tso.Timestamp(1_000_000), tso.Timestamp(1_000_100)
	primary := model.Cell{Table: "t", Row: "row", Column: "title"}
	seen := &layout.Versions{Writes: []layout.WriteRecord{{CommitTS: end, StartTS: start, Kind: layout.KindPut}}}
	var status TxnStatus
	var err error
	if got := testing.AllocsPerRun(100, func() { status, err = StatusOf(primary, start, seen) }); got > 0 {
		t.Errorf("the status of a transaction: %v allocations", got)
	}
	if err != nil || status.CommitTS != end {
		t.Error(status, err)
	}
}
