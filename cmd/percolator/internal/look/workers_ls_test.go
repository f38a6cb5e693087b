package look

import (
	"testing"

	"github.com/gopercolator/percolator/percolator/model"
)

// TestWorkerList: a worker that only announces itself is listed, and so is one that only reports.
func TestWorkerList(t *testing.T) {
	t.Parallel()
	list := workerList(
		model.Workers{Live: []model.WorkerInfo{{Name: "a", Started: 1, Version: "v1", Observers: []string{"x y"}}, {Name: "both", Started: 2, Columns: "c", Session: "s"}}},
		[]model.Report{{Name: "both", Started: 3, Host: "h", Version: "v2", Worker: model.WorkerReport{Queued: 4}}, {Name: "r", Started: 4}})
	if len(list) != 3 || list[0].Name != "a" || list[0].Reported != nil || list[0].Observers[0] != `"x y"` ||
		list[1].Name != "both" || list[1].Session != "s" || list[1].Host != "h" || list[1].Version != "v2" || list[1].Queued != 4 ||
		list[2].Name != "r" || list[2].Observers == nil {
		t.Errorf("%+v", list)
	}
}
