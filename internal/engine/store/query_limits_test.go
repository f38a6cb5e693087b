package store_test

import (
	"strings"
	"testing"

	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/testing/layertest"
	"github.com/gopercolator/percolator/percolator/model"
)

// The predicate with the longest column stays below Bigtable's 20 KB.
func TestPredicateOfAPrimaryStaysBelowTheLimit(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("\xff", model.MaxColumnBytes)
	if size := layertest.PredicateBytes(t, store.Primary(long, 1<<40)); size > 20<<10 {
		t.Errorf("the filter of a primary has %d bytes", size)
	}
}
