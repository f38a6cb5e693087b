package simulated_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopercolator/percolator/emulator_test/internal/simulated"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/internal/engine/store"
)

func (p process) cuts(t *testing.T) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, lifetime)
	defer cancel()
	keys, err := p.SampleKeys(ctx, "t")
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// Tablets split and merge, and a read goes across them.
func TestTabletsSplitAndMerge(t *testing.T) {
	t.Parallel()
	simulate(t, simulated.Config{Seed: 1, Tablets: simulated.Tablets{Most: 8, Recut: time.Second}}, func(t *testing.T, c *simulated.Cluster) {
		p := connect(t, c, "p")
		if keys := p.cuts(t); len(keys) != 0 {
			t.Errorf("an empty table is cut at %q", keys)
		}
		rows := numbered(500)
		if errs, err := p.write(rows...); errs != nil || err != nil {
			t.Fatal(errs, err)
		}
		split, merged := 0, 0
		var before []string
		for range 40 {
			time.Sleep(time.Second)
			keys := p.cuts(t)
			if len(keys) > 24 || !slices.IsSorted(keys) {
				t.Errorf("cut at %q", keys)
			}
			for _, k := range keys {
				if !slices.Contains(before, k) {
					split++
				}
			}
			for _, k := range before {
				if !slices.Contains(keys, k) {
					merged++
				}
			}
			before = keys
			for _, read := range []func() ([]string, error){p.read, p.readDown} {
				if got, err := read(); err != nil || !slices.Equal(got, rows) {
					t.Errorf("%d rows, %v", len(got), err)
				}
			}
		}
		if split < 10 || merged < 10 || split > 200 {
			t.Errorf("%d splits, %d merges", split, merged)
		}
	})
}

// The entries of one request are applied tablet by tablet, at different times.
func TestTabletsApplyTheirEntriesApart(t *testing.T) {
	t.Parallel()
	simulate(t, simulated.Config{Seed: 1, Tablets: simulated.Tablets{Most: 8}}, func(t *testing.T, c *simulated.Cluster) {
		p := connect(t, c, "p")
		rows := numbered(200)
		if errs, err := p.write(rows...); errs != nil || err != nil {
			t.Fatal(errs, err)
		}
		time.Sleep(2 * time.Minute) // for the table to be cut
		tablets := len(p.cuts(t)) + 1
		muts := make([]*store.Mutation, len(rows))
		for i := range muts {
			muts[i] = put("second")
		}
		states, done := map[int]bool{}, make(chan error)
		go func() {
			ctx, cancel := context.WithTimeout(t.Context(), lifetime)
			defer cancel()
			_, err := p.MutateRows(ctx, "t", rows, muts)
			done <- err
		}()
		for running := true; running; {
			select {
			case err := <-done:
				if running = false; err != nil {
					t.Error(err)
				}
			case <-time.After(time.Microsecond):
			}
			n := 0
			if err := c.Visit("t", func(r layout.Row) bool {
				if string(r.Items[0].Value) == "second" {
					n++
				}
				return true
			}); err != nil {
				t.Fatal(err)
			}
			states[n] = true
		}
		if tablets < 3 || len(states) != tablets+1 {
			t.Errorf("%d tablets, %d states were seen", tablets, len(states))
		}
	})
}

// A tablet that is away answers Unavailable for a time, while others serve; Google's client waits
// for it.
func TestTabletsAway(t *testing.T) {
	t.Parallel()
	cfg := often(simulated.TabletAway)
	cfg.Tablets = simulated.Tablets{Most: 4, Recut: time.Hour}
	simulate(t, cfg, func(t *testing.T, c *simulated.Cluster) {
		p := connect(t, c, "p")
		rows := numbered(200)
		if errs, err := p.write(rows...); errs != nil || err != nil {
			t.Fatal(errs, err)
		}
		time.Sleep(2 * time.Hour)
		first, last := "r000", "r199"
		var away, apart int
		for range 3000 {
			a, b := p.toggle(first), p.toggle(last)
			for _, err := range []error{a, b} {
				if err != nil {
					if away++; code(err) != "Unavailable" {
						t.Error(err)
					}
				}
			}
			if (a == nil) != (b == nil) {
				apart++
			}
		}
		if away == 0 || apart == 0 || away > 5000 {
			t.Errorf("away %d times, %d times one of two", away, apart)
		}
		for range 20 {
			if _, err := p.read(); err != nil {
				t.Error(err)
			}
			if errs, err := p.write(rows...); errs != nil || err != nil {
				t.Error(errs, err)
			}
		}
		only(t, c, simulated.TabletAway)
	})
}

// A read pays for every byte that its tablet passes over, and tells how far it has come.
func TestReadsPayForWhatTheyPassOver(t *testing.T) {
	t.Parallel()
	simulate(t, simulated.Config{Seed: 1, Disks: simulated.Disks{Speed: 1 << 20}}, func(t *testing.T, c *simulated.Cluster) {
		p := connect(t, c, "p")
		rows := numbered(1000)
		muts := make([]*store.Mutation, len(rows))
		for i := range muts {
			muts[i] = put(string(make([]byte, 10<<10)))
		}
		ctx, cancel := context.WithTimeout(t.Context(), lifetime)
		defer cancel()
		if errs, err := p.MutateRows(ctx, "t", rows, muts); errs != nil || err != nil {
			t.Fatal(errs, err)
		}
		var passed []string
		begun := time.Now()
		err := p.ReadRows(ctx, "t", store.Rows{}, store.AllLocks(), 0, func(key string) { passed = append(passed, key) },
			func(layout.Row) bool { t.Error("a row"); return true })
		if took := time.Since(begun); err != nil || took < 9*time.Second || took > 12*time.Second {
			t.Errorf("%v after %v", err, took)
		}
		if len(passed) < 5 || !slices.IsSorted(passed) || passed[len(passed)-1] != "r999" {
			t.Errorf("passed over %q", passed)
		}

		// Another read waits for its turn, and one whose time is over ends.
		short, stop := context.WithTimeout(t.Context(), 3*time.Second)
		defer stop()
		go func() { _, _ = p.read() }()
		time.Sleep(100 * time.Millisecond)
		begun = time.Now()
		if _, err := p.ReadRow(ctx, "t", "r000", store.Anything()); err != nil || time.Since(begun) < 10*time.Millisecond {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
		passed = nil
		err = p.ReadRows(short, "t", store.Rows{}, store.AllLocks(), 0, func(key string) { passed = append(passed, key) },
			func(layout.Row) bool { return true })
		if code(err) != "DeadlineExceeded" || len(passed) == 0 {
			t.Errorf("%v after %q", err, passed)
		}
	})
}

// The one who watches a request learns that it is sent again, and which of its mutations an answer
// says to be applied.
func TestRepetitionsAreReported(t *testing.T) {
	t.Parallel()
	simulate(t, often(simulated.ErrorAfter), func(t *testing.T, c *simulated.Cluster) {
		p := connect(t, c, "p")
		var again atomic.Int64
		ok := 0
		for _, row := range numbered(40) {
			p.ctx = (&store.Attempts{Again: func() { again.Add(1) }}).Watch(t.Context())
			if _, err := p.write(row); err == nil {
				ok++
			} else if !retry.Ambiguous(err) {
				t.Error(err)
			}
			if !exists(t, c, row) {
				t.Errorf("%s is missing", row)
			}
		}
		if ok == 0 || ok == 40 || again.Load() == 0 {
			t.Errorf("%d of 40 succeeded after %d repetitions", ok, again.Load())
		}
	})
}
