package store

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/gopercolator/percolator/internal/layout"
	"github.com/gopercolator/percolator/internal/model"
)

// A pass holds on to nothing that it has handed out: a table may be a thousand times as large as
// what is read ahead.
func TestPassForgetsWhatItHasHandedOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDense()
		p := d.store().NewPass("t", model.All(), Pending(), PageSize{})
		defer p.Close()
		var handedOut []weak.Pointer[layout.Row]
		for more := true; more; {
			page, err := p.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait() // everything else is as far ahead as it may be
			handedOut, more = append(handedOut, weak.Make(&page.Rows[0])), page.More
		}
		runtime.GC()
		kept := 0
		for _, page := range handedOut {
			if page.Value() != nil {
				kept++
			}
		}
		if kept > 1 { // the stack may still name the last one
			t.Errorf("the pass holds on to %d of %d pages", kept, len(handedOut))
		}
		runtime.KeepAlive(p)
	})
}

// To find one row takes few requests, though many rows match behind a part that is slow.
func TestHasRowsReadsLittleAhead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &disk{rows: 4000, matches: func(i int) bool { return i >= 100 }, samples: []string{diskKey(100), diskKey(2000)}}
		d.script = func(int) cut { return cut{after: -1, tell: 1} }
		d.passing = func(ctx context.Context, i int) {
			if i < 100 {
				select {
				case <-ctx.Done():
				case <-time.After(time.Second):
				}
			}
		}
		if found, err := d.store().HasRows(t.Context(), "t", Pending()); !found || err != nil {
			t.Errorf("found: %v, %v", found, err)
		}
		if len(d.sent) > 20 {
			t.Errorf("%d requests", len(d.sent))
		}
	})
}
