package reads

import (
	"errors"
	"testing"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/testing/layertest"
	"github.com/gopercolator/percolator/percolator/model"
)

// Reads of strangers travel together; a row of one that cannot be decoded is that one's alone.
func TestCorruptRowFailsOnlyItsOwnReaderInABatch(t *testing.T) {
	t.Parallel()
	l := layertest.New(t, layertest.StartEmulator(t), "i")
	c := New(l.Store, l.Clock, l.Meta, l.Locks, l.Config)
	layertest.Plant(t, l.Store, "good", layout.DataFamily, "c", 1, []byte("v"))
	layertest.Plant(t, l.Store, "good", layout.WriteFamily, "c", 2, layout.EncodeWrite(1, layout.KindPut))
	layertest.Plant(t, l.Store, "bad", layout.LockFamily, "c", 1, []byte("not a lock"))
	q := rowQuery{table: "t", columns: []string{"c"}, ts: 100, window: 1}
	batch := []*batchedRead{{q, "bad", make(chan batchAnswer, 1)}, {q, "good", make(chan batchAnswer, 1)}}
	c.batch.send(batch)
	if a := <-batch[0].answer; a.err != nil || !errors.Is(a.seen["c"].Corrupt, model.ErrCorrupt) {
		t.Errorf("the reader of the corrupt row got %v, %+v", a.err, a.seen)
	}
	a := <-batch[1].answer
	if a.err != nil {
		t.Fatalf("the reader of the other row got %v", a.err)
	}
	if seen := a.seen["c"].At(100, a.window); string(seen.Value) != "v" {
		t.Errorf("the reader of the other row saw %+v", seen)
	}
}
