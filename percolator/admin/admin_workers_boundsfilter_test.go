package admin_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/protobuf/proto"

	"github.com/gopercolator/percolator/internal/engine/membership"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// Bigtable refuses filters of more than 20 KB, which the emulator does not. The condition under
// which bounds are replaced holds the former ones twice: four tables with keys of 64 bytes, and 32
// bounds each as package observers makes them, are too much.
func TestBoundsAreReplacedWithinTheLimitOfFilters(t *testing.T) {
	ctx := context.Background()
	env := percolatortest.New(t, &percolator.Schema{Tables: []percolator.Table{{Name: "t", Observed: []string{"c"}}}})
	c := env.NewClient()
	var largest atomic.Int64
	env.FaultsOf(c).Handle(func(q percolatortest.Request) percolatortest.Action {
		if m, ok := q.Message.(*bigtablepb.CheckAndMutateRowRequest); ok {
			largest.Store(max(largest.Load(), int64(proto.Size(m.GetPredicateFilter()))))
		}
		return percolatortest.Pass
	})
	for range 2 {
		seen, err := membership.Directory{Engine: c.Engine()}.Workers(ctx)
		if err != nil {
			t.Fatal(err)
		}
		next := map[string]model.TableBounds{}
		for table := range 4 {
			b := model.TableBounds{Made: seen.Now}
			for i := range 32 { // observers.boundsOfATable
				b.Keys = append(b.Keys, fmt.Sprintf("%02d%s", i, strings.Repeat("k", membership.MaxBoundBytes-2)))
			}
			next[fmt.Sprint("table", table)] = b
		}
		if ok, err := (membership.Directory{Engine: c.Engine()}).SetBounds(ctx, seen, next); err != nil || !ok {
			t.Fatal(ok, err)
		}
	}
	if n := largest.Load(); n > 20<<10 {
		t.Errorf("a filter of %d bytes, more than Bigtable's 20 KB: bounds that are stored once cannot be replaced", n)
	}
}
