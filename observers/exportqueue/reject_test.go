package exportqueue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/observers/exportqueue"
	"github.com/gopercolator/percolator/percolator"
)

func withDeadLetters(c *exportqueue.Config) { c.Partitions, c.DeadLetters = 1, "dead_letters" }

// refusing is a receiver that refuses some values for good.
type refusing struct {
	receiver
	values []string
}

func (r *refusing) deliver(_ context.Context, batch []exportqueue.Entry) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var taken, refused []exportqueue.Entry
	for _, x := range batch {
		if slices.Contains(r.values, string(x.Value)) {
			refused = append(refused, x)
		} else {
			taken = append(taken, x)
		}
	}
	r.calls = append(r.calls, taken)
	if len(refused) > 0 {
		return fmt.Errorf("the search service: %w", exportqueue.Reject(errors.New("400 bad document"), refused...))
	}
	return nil
}

// letters lists the dead letters of the table.
func (e *env) letters() (list []exportqueue.DeadLetter) {
	e.Helper()
	err := e.client.View(e.ctx, func(ctx context.Context, s *percolator.Snapshot) error {
		for l, err := range exportqueue.DeadLetters(ctx, s, "dead_letters", "exports") {
			if err != nil {
				return err
			}
			list = append(list, l)
		}
		return nil
	})
	if err != nil {
		e.Fatal(err)
	}
	return list
}

func (e *env) update(f func(ctx context.Context, tx *percolator.Txn) error) error {
	_, err := e.client.Update(e.ctx, f)
	return err
}

// What the receiver refuses leaves the queue, and what is behind it does not wait. A dead letter is
// retried with its number, wherever the partition's position is by then, or dropped, once.
func TestRejectedEntries(t *testing.T) {
	t.Parallel()
	e := newEnv(t, func(c *exportqueue.Config) { withDeadLetters(c); c.MaxEntries = 3 })
	to := &refusing{values: []string{"2", "4"}}
	w, stop := e.exportTo(e.client, e.client, to.deliver, observers.Config{MaxAttempts: 2})
	for i := range 6 {
		e.add("k", fmt.Sprint(i))
		e.Clock.Advance(2 * time.Second)
	}
	e.idle(w)
	if got := values(to.entries()); !slices.Equal(got, []string{"k=0", "k=1", "k=3", "k=5"}) || len(e.pending()) != 0 || w.Stats().Errors != 0 {
		t.Fatalf("delivered %v, left %v, %+v", got, e.pending(), w.Stats())
	}
	letters := e.letters()
	if len(letters) != 2 || string(letters[0].Value) != "2" || string(letters[1].Value) != "4" {
		t.Fatalf("dead letters %v", letters)
	}
	for _, l := range letters {
		if l.Key != "k" || l.Queue != "exports" || l.Reason != "400 bad document" || l.CommitTS <= l.StartTS || !strings.HasPrefix(l.ID(), "exports/000.") || strings.Contains(l.ID(), "k") {
			t.Errorf("%s: %+v", l.ID(), l)
		}
	}
	for range 3 { // the position passes the letters
		e.Clock.Advance(beyond)
		e.add("k", "later")
		e.idle(w)
	}

	to.mu.Lock()
	to.values = nil
	to.mu.Unlock()
	before := len(to.entries())
	if err := e.update(letters[0].Retry); err != nil {
		t.Fatal(err)
	}
	if err := e.update(letters[1].Drop); err != nil {
		t.Fatal(err)
	}
	e.idle(w)
	stop()
	again := to.entries()[before:]
	if len(again) != 1 || again[0].StartTS != letters[0].StartTS || again[0].Seq != letters[0].Seq || again[0].Key != "k" || string(again[0].Value) != "2" {
		t.Errorf("delivered again: %v, want %v", again, letters[0].Entry)
	}
	if left := e.letters(); len(left) != 0 || len(e.pending()) != 0 || !e.clean() {
		t.Errorf("dead letters %v, queued %v", left, e.pending())
	}
	for _, again := range []func(context.Context, *percolator.Txn) error{letters[0].Retry, letters[1].Retry, letters[0].Drop} {
		if err := e.update(again); !errors.Is(err, percolator.ErrNotFound) {
			t.Errorf("a letter that is gone: %v", err)
		}
	}
}

// A worker dies at each of its writes in turn while the receiver refuses an entry: the entry is
// in the queue or a dead letter, and never both or neither.
func TestCrashWhileRejecting(t *testing.T) {
	t.Parallel()
	e := newEnv(t, withDeadLetters)
	var want []string
	var to *refusing
	e.DieAtEach(func(ctx context.Context, run int, c *percolator.Client) error {
		bad := fmt.Sprint("bad ", run)
		want = append(want, "k="+bad)
		to = &refusing{values: []string{bad}}
		e.add("k", fmt.Sprint("good ", run))
		e.add("k", bad)
		_, stop := e.exportTo(c, c, to.deliver, observers.Config{})
		e.until("the worker dies, or is done", func() bool { return ctx.Err() != nil || e.clean() })
		stop()
		return nil
	}, func(_ context.Context, _ int, c *percolator.Client) error {
		var found []string
		for _, l := range e.letters() {
			found = append(found, l.Key+"="+string(l.Value))
		}
		if found = append(found, slices.DeleteFunc(e.pending(), func(v string) bool { return strings.Contains(v, "good") })...); !slices.Equal(found, want) {
			return fmt.Errorf("dead letters and queued %v, want %v", found, want)
		}
		survivor, stop := e.exportTo(c, e.client, to.deliver, observers.Config{})
		e.idle(survivor)
		stop()
		if left := e.pending(); len(left) != 0 {
			return fmt.Errorf("left in the queue: %v", left)
		}
		return nil
	})
}

// A rejection for which there is no table, or of what is not in the batch, fails like any other
// delivery: nothing is lost.
func TestRejectionsThatCannotBe(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		configure func(*exportqueue.Config)
		entry     func(exportqueue.Entry) exportqueue.Entry
	}{
		"no table":       {onePartition, func(x exportqueue.Entry) exportqueue.Entry { return x }},
		"another number": {withDeadLetters, func(x exportqueue.Entry) exportqueue.Entry { x.Seq++; return x }},
		"another time":   {withDeadLetters, func(x exportqueue.Entry) exportqueue.Entry { x.StartTS++; return x }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, c.configure)
			e.add("k", "v")
			w, stop := e.exportTo(e.client, e.client, func(_ context.Context, batch []exportqueue.Entry) error {
				return exportqueue.Reject(nil, c.entry(batch[0]))
			}, observers.Config{MaxAttempts: 2})
			e.idle(w)
			stop()
			if left := e.pending(); !slices.Equal(left, []string{"k=v"}) || w.Stats().Errors != 2 {
				t.Errorf("left in the queue: %v, %+v", left, w.Stats())
			}
		})
	}
}

// A long reason is cut between letters, and a cell that is no dead letter is corrupt.
func TestReasonsAndStrangers(t *testing.T) {
	t.Parallel()
	e := newEnv(t, withDeadLetters)
	e.add("k", "v")
	w, stop := e.exportTo(e.client, e.client, func(_ context.Context, batch []exportqueue.Entry) error {
		return exportqueue.Reject(errors.New("\xff"+strings.Repeat("ä", exportqueue.MaxReasonBytes)), batch...)
	}, observers.Config{})
	e.idle(w)
	stop()
	l := e.letters()[0]
	if n := len(l.Reason); n > exportqueue.MaxReasonBytes || n < exportqueue.MaxReasonBytes-1 || strings.Trim(l.Reason, "ä") != "\uFFFD" {
		t.Errorf("a reason of %d bytes: %q", n, l.Reason)
	}
	const row, column = "exports/000.0000000000.00", "000000000000000100000000"
	for _, c := range []struct{ row, column, value string }{
		{"exports", column, "\x00\x01k"}, {"exports/000", column, "\x00\x01k"}, {row, "x", "\x00\x01k"}, {row, column, ""}, {row, column, "\x05r"}, {row, column, "\x00\x05k"},
	} {
		e := newEnv(t, withDeadLetters)
		if err := e.update(func(_ context.Context, tx *percolator.Txn) error {
			return tx.Set(percolator.Cell{Table: "dead_letters", Row: c.row, Column: c.column}, []byte(c.value))
		}); err != nil {
			t.Fatal(err)
		}
		s, err := e.client.Snapshot(e.ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, err := range exportqueue.DeadLetters(e.ctx, s, "dead_letters", "") {
			want := percolator.ErrCorrupt
			if c.row != row { // it is another table's
				want = percolator.ErrInvalidArgument
			}
			if !errors.Is(err, want) {
				t.Errorf("%q: %v", c, err)
			}
		}
	}
}

// A delivery that rejects nothing and names a reason has failed: an error deletes no entry. A
// receiver that answers 503 rejects none of the entries, and `Reject(err, refused...)` with an
// empty list says so.
func TestRejectingNothingDeletesNothing(t *testing.T) {
	t.Parallel()
	e := newEnv(t, withDeadLetters)
	e.add("k", "v")
	w, stop := e.exportTo(e.client, e.client, func(context.Context, []exportqueue.Entry) error {
		var refused []exportqueue.Entry
		return exportqueue.Reject(errors.New("503 Service Unavailable"), refused...)
	}, observers.Config{MaxAttempts: 2})
	e.idle(w)
	stop()
	if left := e.pending(); !slices.Equal(left, []string{"k=v"}) || w.Stats().Errors == 0 {
		t.Errorf("after a delivery that returned an error the queue holds %v, dead letters %v, errors %d", left, e.letters(), w.Stats().Errors)
	}
}
