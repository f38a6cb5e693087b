package store

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/telemetry"
	"github.com/gopercolator/percolator/percolator/model"
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

// splitting is a disk that has no samples when it is first asked, as a table before its first
// split.
type splitting struct {
	*disk
	err error // of the first answer
}

func (s *splitting) SampleKeys(ctx context.Context, table string) ([]string, error) {
	if keys, err := s.disk.SampleKeys(ctx, table); s.sampled > 1 {
		return keys, err
	}
	return nil, s.err
}

// A pass that takes hours does not stay slow because of what was so at its beginning: it reads
// ahead as soon as the table has parts, and they can be had.
func TestPassReadsAheadLater(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]error{"the table was split": nil, "the samples were not to be had": errCut} {
		synctest.Test(t, func(t *testing.T) {
			d := &disk{rows: 100, matches: always, script: func(int) cut { return cut{after: 5, err: errCut} }}
			for i := range 9 {
				d.samples = append(d.samples, diskKey(10*i+10))
			}
			p := New(t.Context(), &splitting{d, first}, &telemetry.Counters{}).NewPass("t", model.All(), Pending(), PageSize{})
			got, err := readAll(t, t.Context(), p)
			if err != nil || len(got) != d.rows || p.ahead == nil {
				t.Errorf("%s: %d rows, %v, ahead: %v", name, len(got), err, p.ahead != nil)
			}
		})
	}
}
