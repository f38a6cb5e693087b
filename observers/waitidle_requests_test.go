package observers_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// A search through clean tables costs two requests for each table at most, whatever it holds, and
// none to the oracle.
func TestIdleRequests(t *testing.T) {
	t.Parallel()
	e, r := newScanEnv(t, table()), observers.NewRegistry()
	r.Observe("o", "t", "in", newJournal().observer("o"))
	for i := range 100 {
		e.set(e.client, fmt.Sprint(i), "in", "x")
	}
	w, stop := e.start(e.client, r, observers.Config{})
	e.idle(w)
	stop()

	c := e.NewClient()
	idle, stop := e.start(c, r, observers.Config{ScanInterval: time.Millisecond, Scanners: 1, DisableCollection: true, ReportInterval: -1})
	e.until("fifty searches", func() bool { return idle.Stats().Searches >= 50 })
	stop()
	searches := idle.Stats().Searches
	counts := map[string]int64{}
	for _, req := range e.FaultsOf(c).Requests() {
		if req.Table != "percolator_meta" {
			counts[req.Method]++
		}
	}
	if n := counts[percolatortest.ReadRows]; n < searches-1 || n > 2*searches {
		t.Errorf("%d requests read rows in %d searches", n, searches)
	}
	delete(counts, percolatortest.ReadRows)
	if n := counts["SampleRowKeys"]; n != 1 {
		t.Errorf("%d requests for the tablets", n)
	}
	delete(counts, "SampleRowKeys")
	if len(counts) != 0 {
		t.Errorf("an idle worker sent %v", counts)
	}
}

// An idle worker of an instance with a journal sends no request to a user's table, and a handful a
// second to the journal, whatever the table holds.
func TestIdleRequestsByJournal(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		e, r := newEnv(t, table()), observers.NewRegistry()
		r.Observe("o", "t", "in", newJournal().observer("o"))
		for i := range 100 {
			e.set(e.client, fmt.Sprint(i), "in", "x")
		}
		w, stop := e.start(e.client, r, observers.Config{})
		e.idle(w)
		stop()
		if err := e.client.Close(); err != nil { // its streams are settled
			t.Fatal(err)
		}
		c := e.NewClient()
		_, stop = e.start(c, r, observers.Config{DisableCollection: true, ReportInterval: -1})
		e.until("some lists of the streams", func() bool { return len(e.FaultsOf(c).JournalRequests()) > 20 })
		stop()
		for _, req := range e.FaultsOf(c).Requests() {
			if req.Table != "percolator_meta" && req.Method != "Oracle" {
				t.Errorf("an idle worker sent %v", req)
			}
		}
	})
}
