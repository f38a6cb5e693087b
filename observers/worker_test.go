package observers_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// table is the usual table of these tests.
func table() percolator.Table {
	return percolator.Table{Name: "t", Observed: []string{"in"}}
}

func TestRunsOnceForEachChange(t *testing.T) {
	t.Parallel()
	e, j, r := newEnv(t, table()), newJournal(), observers.NewRegistry()
	r.Observe("o", "t", "in", func(_ context.Context, tx *percolator.Txn, ch observers.Change) error {
		j.add("o", ch)
		return tx.Set(cell(ch.Cell.Row, "out"), append(ch.Value, '!'))
	})
	w, _ := e.start(e.client, r, observers.Config{})
	for i := range 8 {
		for round := range 3 {
			value := fmt.Sprint(i, round)
			ts := e.set(e.client, fmt.Sprint("row", i), "in", value)
			e.idle(w)
			all := j.all()
			if len(all) != 3*i+round+1 {
				t.Fatalf("%d calls after %d changes", len(all), 3*i+round+1)
			}
			ch := all[len(all)-1]
			if string(ch.Value) != value || ch.Deleted || ch.Weak || ch.CommitTS != ts || ch.Attempt != 1 {
				t.Fatalf("change %+v, want %s at %d", ch, value, ts)
			}
			if got := e.get(fmt.Sprint("row", i), "out"); got != value+"!" {
				t.Fatalf("wrote %q", got)
			}
		}
	}
	if p := e.pending(); len(p) != 0 {
		t.Fatalf("still notified: %v", p)
	}
	if s := w.Stats(); s.Runs != 24 || s.Attempts != 24 || s.Observers["o"].Runs != 24 || s.Dispatched == 0 || s.Queued+s.Running+int(s.Parked) != 0 {
		t.Fatalf("stats %+v", s)
	}
}

func TestObserversThatWriteNothingAcknowledge(t *testing.T) {
	t.Parallel()
	e, j, r := newEnv(t, table()), newJournal(), observers.NewRegistry()
	r.Observe("o", "t", "in", j.observer("o"))
	e.set(e.client, "r", "in", "1")
	w, stop := e.start(e.client, r, observers.Config{})
	e.idle(w)
	if p := e.pending(); len(p) != 0 {
		t.Fatalf("still notified: %v", p)
	}
	stop()
	w, _ = e.start(e.NewClient(), r, observers.Config{})
	e.idle(w)
	if n := j.count("o"); n != 1 {
		t.Fatalf("called %d times", n)
	}
}

func TestChangesBeforeARunCollapse(t *testing.T) {
	t.Parallel()
	e, j, r := newEnv(t, table()), newJournal(), observers.NewRegistry()
	r.Observe("o", "t", "in", j.observer("o"))
	for i := range 100 {
		e.set(e.client, "r", "in", fmt.Sprint(i))
	}
	w, _ := e.start(e.client, r, observers.Config{})
	e.idle(w)
	if all := j.all(); len(all) != 1 || string(all[0].Value) != "99" {
		t.Fatalf("%d calls, the last for %q; want one, for the newest value", len(all), all[len(all)-1].Value)
	}
}

func TestChangeDuringARunSurvives(t *testing.T) {
	t.Parallel()
	e, j, r := newEnv(t, table()), newJournal(), observers.NewRegistry()
	inRun, changed := make(chan struct{}), make(chan struct{})
	r.Observe("o", "t", "in", func(_ context.Context, _ *percolator.Txn, ch observers.Change) error {
		j.add("o", ch)
		if j.count("o") == 1 {
			close(inRun)
			<-changed
		}
		return nil
	})
	w, _ := e.start(e.client, r, observers.Config{ScanInterval: time.Hour})
	// The worker does not hear of what the other client writes.
	other := e.NewClient(percolatortest.Configure(func(c *percolator.Config) { c.DisableHints = true }))
	e.idle(w)
	e.set(e.client, "r", "in", "old")
	<-inRun
	e.set(other, "r", "in", "new")
	close(changed)
	e.idle(w)
	if all := j.all(); len(all) != 2 || string(all[1].Value) != "new" {
		t.Fatalf("calls %+v", all)
	}
}

func TestObserversOfOneColumnAcknowledgeIndependently(t *testing.T) {
	t.Parallel()
	e, j, r := newEnv(t, table()), newJournal(), observers.NewRegistry()
	var broken atomic.Bool
	broken.Store(true)
	r.Observe("good", "t", "in", j.observer("good"))
	r.Observe("bad", "t", "in", func(_ context.Context, _ *percolator.Txn, ch observers.Change) error {
		if broken.Load() {
			return errors.New("not yet")
		}
		j.add("bad", ch)
		return nil
	})
	w, stop := e.start(e.client, r, observers.Config{MaxAttempts: 2, MinBackoff: time.Millisecond})
	e.set(e.client, "r", "in", "1")
	e.idle(w)
	if p := e.parked(); len(p) != 1 || p[0].Observer != "bad" {
		t.Fatalf("parked %+v", p)
	}
	stop()
	broken.Store(false)
	e.retryParked()
	w, _ = e.start(e.NewClient(), r, observers.Config{})
	e.idle(w)
	if j.count("good") != 1 || j.count("bad") != 1 {
		t.Fatalf("good ran %d times, bad %d", j.count("good"), j.count("bad"))
	}
	e.until("nothing is left of it", func() bool { return len(e.pending()) == 0 })
}

func TestCascadeRunsByDispatchAlone(t *testing.T) {
	t.Parallel()
	e, j, r := newEnv(t, percolator.Table{Name: "t", Observed: []string{"a", "b", "c"}}), newJournal(), observers.NewRegistry()
	for _, step := range [][2]string{{"a", "b"}, {"b", "c"}, {"c", "d"}} {
		r.Observe("from-"+step[0], "t", step[0], func(_ context.Context, tx *percolator.Txn, ch observers.Change) error {
			j.add(step[0], ch)
			return tx.Set(cell(ch.Cell.Row+step[1], step[1]), append(ch.Value, step[1]...))
		})
	}
	// Nothing is scanned, so the steps follow each other by direct dispatch alone.
	w, _ := e.start(e.client, r, observers.Config{ScanInterval: time.Hour})
	for i := range 50 {
		e.set(e.client, fmt.Sprint(i), "a", "a")
	}
	e.idle(w)
	for i := range 50 {
		if got := e.get(fmt.Sprint(i)+"bcd", "d"); got != "abcd" {
			t.Fatalf("chain %d ended with %q", i, got)
		}
	}
	if j.count("a") != 50 || j.count("b") != 50 || j.count("c") != 50 {
		t.Fatalf("steps ran %d, %d and %d times", j.count("a"), j.count("b"), j.count("c"))
	}
}

func TestDeletesTrigger(t *testing.T) {
	t.Parallel()
	e, j, r := newEnv(t, table()), newJournal(), observers.NewRegistry()
	r.Observe("o", "t", "in", j.observer("o"))
	w, _ := e.start(e.client, r, observers.Config{})
	e.set(e.client, "r", "in", "")
	e.idle(w)
	ts, err := e.client.Update(e.ctx, func(_ context.Context, tx *percolator.Txn) error { return tx.Delete(cell("r", "in")) })
	if err != nil {
		t.Fatal(err)
	}
	e.idle(w)
	all := j.all()
	if len(all) != 2 || all[0].Deleted || all[0].Value == nil || !all[1].Deleted || all[1].Value != nil || all[1].CommitTS != ts {
		t.Fatalf("changes %+v", all)
	}
}

func TestTypedObserver(t *testing.T) {
	t.Parallel()
	type page struct{ Title string }
	e, j, r := newEnv(t, table()), newJournal(), observers.NewRegistry()
	col := percolator.JSON[page]("t", "in")
	observers.Observe(r, "o", col, func(_ context.Context, tx *percolator.Txn, ch observers.Change, v page) error {
		j.add(v.Title, ch)
		return nil
	})
	w, _ := e.start(e.client, r, observers.Config{MaxAttempts: 1})
	write := func(f func(tx *percolator.Txn) error) {
		t.Helper()
		if _, err := e.client.Update(e.ctx, func(_ context.Context, tx *percolator.Txn) error { return f(tx) }); err != nil {
			t.Fatal(err)
		}
		e.idle(w)
	}
	write(func(tx *percolator.Txn) error { return col.Set(tx, "r", page{"hello"}) })
	write(func(tx *percolator.Txn) error { return col.Delete(tx, "r") })
	if j.count("hello") != 1 || j.count("") != 1 {
		t.Fatalf("saw %v", j.names)
	}
	write(func(tx *percolator.Txn) error { return tx.Set(cell("r", "in"), []byte("{")) })
	if p := e.parked(); len(p) != 1 || !strings.Contains(p[0].Reason, percolator.ErrCorrupt.Error()) {
		t.Fatalf("parked %+v", p)
	}
}

func TestWeakNotificationRunsAndIsErased(t *testing.T) {
	t.Parallel()
	e, j, r := newEnv(t, percolator.Table{Name: "t", Weak: []string{"w"}}), newJournal(), observers.NewRegistry()
	for _, name := range []string{"o", "p"} {
		r.Observe(name, "t", "w", func(_ context.Context, tx *percolator.Txn, ch observers.Change) error {
			j.add(name, ch)
			return tx.Set(cell(ch.Cell.Row, "out-"+name), []byte("x"))
		})
	}
	notify := func(c *percolator.Client) {
		t.Helper()
		if _, err := c.Update(e.ctx, func(_ context.Context, tx *percolator.Txn) error {
			if err := tx.Set(cell("other", "data"), []byte("y")); err != nil {
				return err
			}
			return tx.Notify(cell("r", "w"))
		}); err != nil {
			t.Fatal(err)
		}
	}
	w, _ := e.start(e.client, r, observers.Config{})
	notify(e.client)      // dispatched
	notify(e.NewClient()) // found
	e.idle(w)
	all := j.all()
	for _, name := range []string{"o", "p"} {
		if n := j.count(name); n < 1 || n > 2 { // one run may do for both notifications
			t.Fatalf("%s ran %d times", name, n)
		}
	}
	for _, ch := range all {
		if !ch.Weak || ch.Deleted || ch.Value != nil || ch.CommitTS == 0 {
			t.Fatalf("change %+v", ch)
		}
	}
	if p := e.pending(); len(p) != 0 {
		t.Fatalf("still notified: %v", p)
	}
	if e.get("r", "out-o") != "x" || e.get("r", "out-p") != "x" {
		t.Fatal("the observers' writes are missing")
	}
}

func TestWeakNotificationSurvivesAFailingObserver(t *testing.T) {
	t.Parallel()
	e, j, r := newEnv(t, percolator.Table{Name: "t", Weak: []string{"w"}}), newJournal(), observers.NewRegistry()
	var broken atomic.Bool
	broken.Store(true)
	r.Observe("good", "t", "w", j.observer("good"))
	r.Observe("bad", "t", "w", func(_ context.Context, _ *percolator.Txn, ch observers.Change) error {
		if broken.Load() {
			return errors.New("not yet")
		}
		j.add("bad", ch)
		return nil
	})
	w, stop := e.start(e.client, r, observers.Config{MaxAttempts: 1})
	if _, err := e.client.Update(e.ctx, func(_ context.Context, tx *percolator.Txn) error { return tx.Notify(cell("r", "w")) }); err != nil {
		t.Fatal(err)
	}
	e.idle(w)
	stop()
	if len(e.parked()) != 1 { // parked means that the notification is there
		t.Fatal("the notification is gone before all observers ran")
	}
	broken.Store(false)
	e.retryParked()
	w, _ = e.start(e.NewClient(), r, observers.Config{})
	e.idle(w)
	if j.count("bad") != 1 {
		t.Fatalf("bad ran %d times", j.count("bad"))
	}
	e.until("nothing is left of it", func() bool { return len(e.pending()) == 0 })
}

func TestTwoWorkersCommitOnceForEachChange(t *testing.T) {
	t.Parallel()
	e, r := newEnv(t, table()), observers.NewRegistry()
	var attempts atomic.Int64
	r.Observe("o", "t", "in", func(ctx context.Context, tx *percolator.Txn, ch observers.Change) error {
		attempts.Add(1)
		v, err := tx.GetMulti(ctx, cell(ch.Cell.Row, "runs"))
		if err != nil {
			return err
		}
		return tx.Set(cell(ch.Cell.Row, "runs"), append(v[0], '.'))
	})
	const rows = 64
	loader := e.NewClient()
	var workers []*observers.Worker
	for range 2 {
		w, _ := e.start(e.NewClient(), r, observers.Config{Concurrency: 8, MinBackoff: time.Millisecond, MaxAttempts: 1000})
		workers = append(workers, w)
	}
	var load sync.WaitGroup
	for part := range 8 {
		load.Go(func() {
			for i := part; i < rows; i += 8 {
				e.set(loader, fmt.Sprintf("%03d", i), "in", "1")
			}
		})
	}
	load.Wait()
	for _, w := range workers {
		e.idle(w)
	}
	for i := range rows {
		if got := e.get(fmt.Sprintf("%03d", i), "runs"); got != "." {
			t.Fatalf("row %d: %d runs committed for one change", i, len(got))
		}
	}
	if runs := workers[0].Stats().Runs + workers[1].Stats().Runs; runs != rows {
		t.Fatalf("%d runs committed for %d changes", runs, rows)
	}
}

func TestOverflowIsLeftToTheScan(t *testing.T) {
	t.Parallel()
	e, j, r := newEnv(t, table()), newJournal(), observers.NewRegistry()
	release := make(chan struct{})
	r.Observe("o", "t", "in", func(_ context.Context, _ *percolator.Txn, ch observers.Change) error {
		<-release
		j.add("o", ch)
		return nil
	})
	w, _ := e.start(e.client, r, observers.Config{QueueLength: 2, Concurrency: 2})
	for i := range 60 {
		e.set(e.client, fmt.Sprint(i), "in", "1")
	}
	close(release)
	e.idle(w)
	if j.count("o") != 60 {
		t.Fatalf("%d calls for 60 changes", j.count("o"))
	}
	if s := w.Stats(); s.Dropped == 0 || s.Found == 0 {
		t.Fatalf("stats %+v: nothing was dropped and found again", s)
	}
}

func TestNewWorkerChecksTheSchema(t *testing.T) {
	t.Parallel()
	e, j := newEnv(t, percolator.Table{Name: "t", Observed: []string{"a", "b"}, Weak: []string{"w"}}), newJournal()
	some := observers.NewRegistry()
	some.Observe("o", "t", "a", j.observer("o"))
	if _, err := observers.NewWorker(e.client, some, observers.Config{}); !errors.Is(err, percolator.ErrSchemaMismatch) {
		t.Fatalf("two columns without observer: %v", err)
	}
	if _, err := observers.NewWorker(e.client, some, observers.Config{Columns: []observers.Column{{Table: "t", Name: "a"}}}); err != nil {
		t.Fatal(err)
	}
	some.Observe("p", "t", "not observed", j.observer("p"))
	if _, err := observers.NewWorker(e.client, some, observers.Config{Columns: []observers.Column{{Table: "t", Name: "a"}}}); !errors.Is(err, percolator.ErrSchemaMismatch) {
		t.Fatalf("a column that nobody notifies: %v", err)
	}
}

func TestWorkersShareTheColumns(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testWorkersShareTheColumns)
}

func testWorkersShareTheColumns(t *testing.T) {
	e, j := newEnv(t, percolator.Table{Name: "t", Observed: []string{"a", "b"}}), newJournal()
	r := observers.NewRegistry()
	r.Observe("on-a", "t", "a", j.observer("on-a"))
	r.Observe("on-b", "t", "b", j.observer("on-b"))
	takes := func(column string) *observers.Worker {
		w, _ := e.start(e.NewClient(), r, observers.Config{Columns: []observers.Column{{Table: "t", Name: column}}})
		return w
	}
	a, b := takes("a"), takes("b")
	e.set(e.client, "r", "a", "1")
	e.set(e.client, "r", "b", "1")
	e.idle(a) // waits for what b takes, too
	if j.count("on-a") != 1 || j.count("on-b") != 1 || len(e.pending()) != 0 {
		t.Fatalf("on-a ran %d times, on-b %d", j.count("on-a"), j.count("on-b"))
	}
	if a, b := a.Stats(), b.Stats(); a.Runs != 1 || b.Runs != 1 || len(a.Observers) != 1 {
		t.Fatalf("a %+v, b %+v", a, b)
	}
}
