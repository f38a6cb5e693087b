package admin_test

import (
	"context"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// The entries of an index say when the values expire, as those of a scan do.
func TestScanIndexSaysWhenValuesExpire(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		env := percolatortest.New(t, mailSchema(nil, 10*time.Minute, true))
		ctx, c := context.Background(), env.Client
		setMail(t, ctx, c, "ann", "ann@x")
		s, err := c.Snapshot(ctx)
		fixture.Must(t, err)
		var byScan, byIndex percolator.Entry
		for e, err := range s.Scan(ctx, "people", percolator.All()) {
			fixture.Must(t, err)
			byScan = e
		}
		for e, err := range s.ScanIndex(ctx, "people", "mail", percolator.All()) {
			fixture.Must(t, err)
			byIndex = e
		}
		if byScan.Expires == 0 || byIndex.Expires != byScan.Expires {
			t.Errorf("by the scan it expires at %d, by the index at %d", byScan.Expires, byIndex.Expires)
		}
	})
}
