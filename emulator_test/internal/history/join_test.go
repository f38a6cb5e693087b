package history

import (
	"bytes"
	"reflect"
	"sync/atomic"
	"testing"
)

// checkJoined: a history that was saved, and added to one that has cells and values already, is
// judged as it was.
func checkJoined(t *testing.T, h *Recording, rules Rules, want *Report) {
	t.Helper()
	joined := New()
	joined.cell(Cell{"t", "other", "c"})
	joined.value([]byte("other"))
	var b bytes.Buffer
	if err := h.Save(&b); err != nil {
		t.Fatal(err)
	}
	if err := joined.Add(&b); err != nil {
		t.Fatal(err)
	}
	if got := Check(joined, rules); !reflect.DeepEqual(got, want) {
		t.Errorf("joined, it is judged as\n%s\nnot as\n%s", got, want)
	}
}

// TestJoinedRecordings: what one process read is judged by what another wrote, in the order of the
// real time that they share; and what a receiver got in both, in order.
func TestJoinedRecordings(t *testing.T) {
	t.Parallel()
	events := new(atomic.Int64)
	a, b := Counting(events), Counting(events)
	cell := Cell{"t", "r", "c"}
	w := a.Begin("a", "write")
	w.Started(10)
	w.Put(cell, []byte("1"))
	w.Exports("p", 0, "first")
	w.Exports("p", 1, "second")
	w.End(Committed, 20)
	r := b.Begin("b", "read")
	r.Started(15) // began after the commit was acknowledged
	r.Read(cell, []byte("1"))
	r.End(Committed, 0)
	b.Delivers("p", []Delivery{{10, 20, 0, "first"}})
	a.Delivers("p", []Delivery{{10, 20, 1, "second"}})

	joined := New()
	for _, h := range []*Recording{a, b} {
		var saved bytes.Buffer
		if err := h.Save(&saved); err != nil {
			t.Fatal(err)
		}
		if err := joined.Add(&saved); err != nil {
			t.Fatal(err)
		}
	}
	report := Check(joined, Rules{})
	kinds := map[Kind]int{}
	for _, found := range report.Anomalies {
		kinds[found.Kind]++
	}
	if kinds[anomalyFutureRead] == 0 || kinds[anomalyRealTime] == 0 || report.Delivered != 2 {
		t.Errorf("the read of another process is not judged: %s", report)
	}
}
