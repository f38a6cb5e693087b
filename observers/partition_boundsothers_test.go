package observers

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gopercolator/percolator/internal/engine/membership"
	"github.com/gopercolator/percolator/internal/scanning"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// TestBoundsOfOtherTablesStay: workers that take columns of different tables share the row of
// bounds. If each kept only those of its own tables, they would keep erasing each other's.
func TestBoundsOfOtherTablesStay(t *testing.T) {
	percolatortest.Bubble(t, func(t *testing.T) {
		d := newFakeDirectory()
		tablets := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i"}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{}, 2)
		for _, table := range []string{"t", "u"} {
			places := scanning.NewPlaces(func(context.Context, string) ([]string, error) { return tablets, nil }, time.Now, newRandom())
			places.Pick(t.Context(), table, percolator.All())
			m := &partition{
				directory: d, places: places, tables: []string{table}, owners: new(owners), deaf: func() bool { return false }, cannot: func(error) {},
				self: membership.WorkerInfo{Name: "worker-" + table, Columns: "of " + table},
			}
			go func() { m.run(ctx); ended <- struct{}{} }()
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		d.mu.Lock()
		looks, writes, bounds := d.looks, d.writes, len(d.bounds)
		d.mu.Unlock()
		time.Sleep(time.Minute)
		synctest.Wait()
		d.mu.Lock()
		looks, writes = d.looks-looks, d.writes-writes
		d.mu.Unlock()
		cancel()
		<-ended
		<-ended
		if bounds != 2 {
			t.Errorf("%d tables have bounds, of 2", bounds)
		}
		// docs: six looks a minute for each, and at most six writes a minute without sessions.
		if looks > 14 || writes > 14 {
			t.Errorf("%d looks and %d writes in a minute of two workers of which nothing changes", looks, writes)
		}
	})
}
