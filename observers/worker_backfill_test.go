package observers_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// aged is a store for whose cells an observer "old" has already run.
func aged(t *testing.T, rows int) (*env, *journal, *observers.Registry) {
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	t.Cleanup(cancel)
	e := &env{t, percolatortest.New(t, &percolator.Schema{
		Tables: []percolator.Table{table()},
		Timing: percolator.Timing{RequestLifetime: 2 * time.Second, MetaMaxAge: 2 * time.Second}, // a drain can be waited for
	}), ctx, nil, byJournal}
	e.client = e.Client
	j, r := newJournal(), observers.NewRegistry()
	r.Observe("old", "t", "in", j.observer("old"))
	_, err := e.client.Update(e.ctx, func(_ context.Context, tx *percolator.Txn) error {
		for i := range rows {
			if err := tx.Set(cell(fmt.Sprintf("%04d", i), "in"), []byte("x")); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	w, stop := e.start(e.client, r, observers.Config{})
	e.idle(w)
	stop()
	return e, j, r
}

// TestAnAddedObserverRunsFromNowOn: unless existing cells are backfilled; then it runs once for
// each of them, and no other observer does.
func TestAnAddedObserverRunsFromNowOn(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	const rows, page = 250, 40
	e, j, r := aged(t, rows)
	r.Observe("new", "t", "in", j.observer("new"))
	w, _ := e.start(e.NewClient(), r, observers.Config{})
	e.set(e.client, "0007", "in", "y")
	if _, err := e.client.Update(e.ctx, func(_ context.Context, tx *percolator.Txn) error { return tx.Delete(cell("0008", "in")) }); err != nil {
		t.Fatal(err)
	}
	e.lockRecords("0009", 9)
	e.idle(w)
	if j.count("new") != 2 {
		t.Fatalf("the new observer ran %d times, want 2", j.count("new"))
	}

	var reports []admin.ObserverProgress
	opts := admin.ObserverOptions{RowsPerPage: page, Count: true, Progress: func(p admin.ObserverProgress) { reports = append(reports, p) }}
	p, err := admin.New(e.client).BackfillObserver(e.ctx, "t", "in", "new", opts)
	if err != nil {
		t.Fatal(err)
	}
	if p.Rows != rows || p.Changed != rows-2 || p.Total != rows || p.Resumed || len(reports) != rows/page+1 {
		t.Fatalf("%+v with %d reports", p, len(reports))
	}
	e.idle(w)
	if j.count("new") != rows || j.count("old") != rows+2 {
		t.Fatalf("the observers ran %d and %d times, want %d and %d", j.count("new"), j.count("old"), rows, rows+2)
	}
	// The second time it asks only about the cell whose change other locks hide.
	if p, err = admin.New(e.client).BackfillObserver(e.ctx, "t", "in", "new", opts); err != nil || p.Changed > 1 {
		t.Fatalf("%+v, %v", p, err)
	}
	e.idle(w)
	if j.count("new") != rows {
		t.Fatal("an observer ran twice for a change")
	}
}

// lockRecords makes n records on the cell that change nothing.
func (e *env) lockRecords(row string, n int) {
	e.Helper()
	for range n {
		_, err := e.client.Update(e.ctx, func(ctx context.Context, tx *percolator.Txn) error {
			_, err := tx.GetForUpdate(ctx, cell(row, "in"))
			return err
		})
		if err != nil {
			e.Fatal(err)
		}
	}
	if err := e.client.Flush(e.ctx); err != nil {
		e.Fatal(err)
	}
}

// TestBackfillIsResumed kills the backfill at every request that it sends; each time another client
// resumes. The observer runs for every cell, and cells stored as done are not read again.
func TestBackfillIsResumed(t *testing.T) {
	t.Parallel()
	const rows, page = 60, 10
	e, j, r := aged(t, rows)
	r.Observe("new", "t", "in", j.observer("new"))
	opts := admin.ObserverOptions{RowsPerPage: page, Count: true}
	killed := 0
	for kill := int64(1); ; kill++ {
		c := e.NewClient()
		var sent atomic.Int64
		e.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
			if r.Method != percolatortest.Oracle && sent.Add(1) == 2+kill%8 {
				return percolatortest.Crash
			}
			return percolatortest.Pass
		})
		ctx, cancel := context.WithTimeout(e.ctx, 300*time.Millisecond) // a crashed client hears nothing
		p, err := admin.New(c).BackfillObserver(ctx, "t", "in", "new", opts)
		cancel()
		if err == nil {
			if p.Rows != rows || p.Total != rows || killed < 5 || !p.Resumed {
				t.Fatalf("%+v after %d crashes", p, killed)
			}
			break
		}
		if killed++; killed > 200 {
			t.Fatalf("no progress: %+v, %v", p, err)
		}
	}
	w, _ := e.start(e.NewClient(), r, observers.Config{})
	e.idle(w)
	if j.count("new") != rows || j.count("old") != rows {
		t.Fatalf("the observers ran %d and %d times, want %d each", j.count("new"), j.count("old"), rows)
	}
}

// TestForgetObserverCleansUp: nothing is left of a removed observer after a collection, and under
// its old name it starts anew.
func TestForgetObserverCleansUp(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		const rows = 30
		e, j, r := aged(t, rows)
		r.Observe("gone", "t", "in", func(_ context.Context, _ *percolator.Txn, ch observers.Change) error {
			if ch.Cell.Row == "0001" {
				return errors.New("poison")
			}
			j.add("gone", ch)
			return nil
		})
		w, stop := e.start(e.NewClient(), r, observers.Config{MaxAttempts: 1})
		if _, err := admin.New(e.client).BackfillObserver(e.ctx, "t", "in", "gone", admin.ObserverOptions{}); err != nil {
			t.Fatal(err)
		}
		e.idle(w)
		stop()
		if len(e.parked()) != 1 || j.count("gone") != rows-1 {
			t.Fatalf("parked %v, ran %d times", e.parked(), j.count("gone"))
		}
		p, err := admin.New(e.client).ForgetObserver(e.ctx, "t", "in", "gone", admin.ObserverOptions{RowsPerPage: 7})
		if err != nil || p.Changed != rows-1 || len(e.parked()) != 0 {
			t.Fatalf("%+v, %v, parked %v", p, err, e.parked())
		}
		if err := e.client.Flush(e.ctx); err != nil {
			t.Fatal(err)
		}
		if p, err = admin.New(e.client).ForgetObserver(e.ctx, "t", "in", "gone", admin.ObserverOptions{}); err != nil || p.Changed != 0 {
			t.Fatalf("the second time %+v, %v", p, err)
		}
		e.collect()
		if n := e.acks("gone"); n != 0 {
			t.Fatalf("%d cells of acknowledgments are left", n)
		}
		if n := e.acks("old"); n != rows {
			t.Fatalf("%d acknowledgments of the other observer, want %d", n, rows)
		}
		again := observers.NewRegistry()
		again.Observe("old", "t", "in", j.observer("old"))
		again.Observe("gone", "t", "in", j.observer("back"))
		w, _ = e.start(e.NewClient(), again, observers.Config{})
		if _, err := admin.New(e.client).BackfillObserver(e.ctx, "t", "in", "gone", admin.ObserverOptions{}); err != nil {
			t.Fatal(err)
		}
		e.idle(w)
		if j.count("back") != rows || j.count("old") != rows {
			t.Fatalf("ran %d and %d times, want %d each", j.count("back"), j.count("old"), rows)
		}
	})
}

// A worker that still has the observer parks it again while it is forgotten: the journal lists
// that.
func TestForgottenObserverIsParkedAgain(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		e, _, r := aged(t, 1)
		r.Observe("poison", "t", "in", func(context.Context, *percolator.Txn, observers.Change) error { return errors.New("poison") })
		w, _ := e.start(e.NewClient(), r, observers.Config{MaxAttempts: 1})
		if _, err := admin.New(e.client).BackfillObserver(e.ctx, "t", "in", "poison", admin.ObserverOptions{}); err != nil {
			t.Fatal(err)
		}
		e.idle(w)
		forgetting, hold := e.NewClient(), percolatortest.NewHold()
		e.FaultsOf(forgetting).HandleJournal(func(r percolatortest.Request) percolatortest.Action {
			if strings.HasPrefix(r.Row, "\x40") { // what is listed as parked
				return hold
			}
			return percolatortest.Pass
		})
		forgotten := make(chan error, 1)
		go func() {
			_, err := admin.New(forgetting).ForgetObserver(e.ctx, "t", "in", "poison", admin.ObserverOptions{})
			forgotten <- err
		}()
		time.Sleep(20 * time.Second) // it is found, runs, and is parked
		hold.Release()
		fixture.Must(t, <-forgotten)
		if n := len(e.parked()); n != 1 {
			t.Errorf("%d cells are parked", n)
		}
		e.Audit(t)
	})
}

// collect runs a collection of everything that is garbage now.
func (e *env) collect() {
	e.Helper()
	e.Clock.Advance(25 * time.Hour)
	fixture.Collect(e, e.ctx, e.client)
}

// acks counts the stored acknowledgments of an observer.
func (e *env) acks(observer string) (n int) {
	e.Helper()
	column := "\x00ack\x00" + observer + "\x00in"
	err := e.Store().Open("t").ReadRows(e.ctx, bigtable.InfiniteRange(""), func(r bigtable.Row) bool {
		for _, items := range r {
			for _, it := range items {
				if it.Column[len(it.Column)-min(len(it.Column), len(column)):] == column {
					n++
				}
			}
		}
		return true
	})
	if err != nil {
		e.Fatal(err)
	}
	return n
}

func TestBackfillRefuses(t *testing.T) {
	t.Parallel()
	e := newEnv(t, table())
	for _, test := range []struct {
		table, column, observer string
		opts                    admin.ObserverOptions
		want                    error
	}{
		{"none", "in", "o", admin.ObserverOptions{}, percolator.ErrSchemaMismatch},
		{"t", "out", "o", admin.ObserverOptions{}, percolator.ErrSchemaMismatch},
		{"t", "in", "", admin.ObserverOptions{}, percolator.ErrInvalidArgument},
		{"t", "in", "a\x00b", admin.ObserverOptions{}, percolator.ErrInvalidArgument},
		{"t", "in", "o", admin.ObserverOptions{RowsPerPage: 10_001}, percolator.ErrInvalidArgument},
		{"t", "in", "o", admin.ObserverOptions{Pause: -1}, percolator.ErrInvalidArgument},
	} {
		if _, err := admin.New(e.client).BackfillObserver(e.ctx, test.table, test.column, test.observer, test.opts); !errors.Is(err, test.want) {
			t.Errorf("backfill of %+v: %v", test, err)
		}
		if _, err := admin.New(e.client).ForgetObserver(e.ctx, test.table, test.column, test.observer, test.opts); !errors.Is(err, test.want) {
			t.Errorf("forgetting of %+v: %v", test, err)
		}
	}
}
