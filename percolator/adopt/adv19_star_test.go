package adopt_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/fixture"
	"github.com/gopercolator/percolator/percolator"
)

// A column of the Percolator table that the mapping does not mean is left out, whatever its name.
func TestMendingLeavesOtherColumns(t *testing.T) { inBubble(t, testMendingLeavesOtherColumns) }

func testMendingLeavesOtherColumns(t *testing.T) {
	w := newWorld(t)
	w.put("a", time.Now().Add(-time.Hour), "f", "v", "value")
	_, err := w.bulk(time.Now(), nil)
	fixture.Must(t, err)
	time.Sleep(time.Minute)
	_, err = w.Client.Update(w.ctx, func(_ context.Context, tx *percolator.Txn) error {
		return tx.Set(percolator.Cell{Table: "t", Row: "a", Column: "val*"}, []byte("a program's own"))
	})
	fixture.Must(t, err)
	_, found := w.compare(true)
	if have := w.contents(); have["a/val*"] != "a program's own" {
		t.Errorf("it is gone: %q, mended %v", have, fmt.Sprint(found))
	}
}
