package look

import (
	"github.com/gopercolator/percolator/percolator/model"

	"testing"

	"github.com/gopercolator/percolator/percolator"
)

// A queue of which nobody takes the columns is one finding, however many partitions it has.
func TestCheckNamesAQueueOnce(t *testing.T) {
	t.Parallel()
	queue := percolator.Table{Name: "exports"}
	for _, n := range "01234567" {
		queue.Weak = append(queue.Weak, "export-00"+string(n))
	}
	found := judgeObservers(&percolator.Schema{Tables: []percolator.Table{queue}}, nil)
	if len(found) != 1 || found[0].Saw != "no worker takes 8 columns of exports (export-000, export-001, export-002, …): notifications wait" {
		t.Errorf("%+v", found)
	}
	silent := judgeObservers(&percolator.Schema{Tables: []percolator.Table{queue}}, []model.WorkerInfo{{Name: "w"}})
	if len(silent) != 1 {
		t.Errorf("of a worker that does not say what it takes: %+v", silent)
	}
}
