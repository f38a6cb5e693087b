package admin

import (
	"math"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/testing/layertest"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// The position of a deletion among rows with the longest keys, of as many columns as a filter
// takes: it has room in a condition, is saved again and again, and the next run goes on there
// (J10).
func TestDeletionOfRowsWithLongKeys(t *testing.T) {
	t.Parallel()
	l := layertest.New(t, layertest.StartEmulator(t), "i")
	table := strings.Repeat("t", 50)
	long := func(last string) string { return strings.Repeat("\xff", model.MaxRowKeyBytes-1) + last }
	columns := strings.Split(strings.Repeat("c ", model.MaxFilterBytes), " ")
	life := meta.Life{Drop: math.MaxUint64, Import: tso.MaxTimestamp}
	newRun := func() deletePosition {
		p := newDeletePosition(l.Store, table, model.Between(long("\x01"), long("\xff")), columns)
		p.life = life
		if err := p.claim(t.Context(), tso.MaxTimestamp); err != nil {
			t.Fatal(err)
		}
		return p
	}
	p := newRun()
	if len(p.row) > model.MaxRowKeyBytes || p.at.Resumed {
		t.Fatalf("a row of %d bytes, resumed: %v", len(p.row), p.at.Resumed)
	}
	for _, last := range []string{"\x02", "\x03", "\x04"} {
		p.at.Row, p.at.Deleted, p.at.Kept, p.at.Conflicts = long(last), math.MaxInt64, math.MaxInt64, math.MaxInt64
		if err := p.save(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := len(p.Stored); n < model.MaxRowKeyBytes*4/3 || n > store.MaxCompared {
			t.Errorf("%d bytes", n)
		}
	}
	next := newRun()
	if !next.at.Resumed || next.at.Row != long("\x04") {
		t.Errorf("goes on at a key of %d bytes, resumed: %v", len(next.at.Row), next.at.Resumed)
	}
	if err := next.finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	if next = newRun(); next.at.Resumed {
		t.Error("a deletion that has ended is resumed")
	}
}
