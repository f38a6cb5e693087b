package exportqueue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/observers/exportqueue"
	"github.com/gopercolator/percolator/percolator"
)

// Transactions that count a cell up export its value. Small batches, two workers: every value is
// delivered, for the first time in the order of the counter, and a receiver that keeps the highest
// number of each key ends with the store's state.
func TestOrderOfTransactionsThatConflict(t *testing.T) {
	t.Parallel()
	const keys, times, writers = 2, 8, 3
	e := newEnv(t, func(c *exportqueue.Config) { c.Partitions, c.MaxEntries = 2, 3 })
	var to receiver
	first, _ := e.export(e.client, &to, observers.Config{})
	second, _ := e.export(e.NewClient(), &to, observers.Config{})
	counter := percolator.Int64("t", "n")
	var group sync.WaitGroup
	for k := range keys {
		for range writers {
			c := e.NewClient()
			group.Go(func() {
				row := fmt.Sprint("key ", k)
				for range times {
					if _, err := c.Update(e.ctx, func(ctx context.Context, tx *percolator.Txn) error {
						n, err := counter.GetOr(ctx, tx, row, 0)
						if err != nil {
							return err
						}
						return errors.Join(counter.Set(tx, row, n+1), e.queue.Add(tx, row, []byte(strconv.FormatInt(n+1, 10))))
					}); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	group.Wait()
	e.idle(first)
	e.idle(second)

	type number struct {
		entry exportqueue.Entry
		value string
	}
	kept, seen := map[string]number{}, map[string][]string{}
	for _, x := range to.entries() {
		if v := string(x.Value); !slices.Contains(seen[x.Key], v) {
			seen[x.Key] = append(seen[x.Key], v)
		}
		if k, ok := kept[x.Key]; !ok || x.StartTS > k.entry.StartTS {
			kept[x.Key] = number{x, string(x.Value)}
		}
		if x.CommitTS <= x.StartTS {
			t.Errorf("an entry that began at %d and was committed at %d", x.StartTS, x.CommitTS)
		}
	}
	for k := range keys {
		row := fmt.Sprint("key ", k)
		for i, v := range seen[row] {
			if v != fmt.Sprint(i+1) {
				t.Fatalf("%s: first deliveries %v", row, seen[row])
			}
		}
		if n := len(seen[row]); n != writers*times || kept[row].value != fmt.Sprint(n) {
			t.Errorf("%s: %d different values, the receiver keeps %s, want %d", row, n, kept[row].value, writers*times)
		}
	}
	if left := e.pending(); len(left) != 0 {
		t.Errorf("left in the queue: %v", left)
	}
}

// What the order does not promise: of two transactions that overlap and have nothing in common, the
// one that began first can be delivered last. Its number tells.
func TestOverlappingTransactionsMayBeDeliveredInEitherOrder(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil)
	var to receiver
	w, _ := e.export(e.client, &to, observers.Config{})
	older := e.begin(e.client)
	e.queueIn(older, "k", "older")
	e.add("k", "newer")
	e.idle(w)
	e.commit(older)
	e.idle(w)
	got := to.entries()
	if v := values(got); !slices.Equal(v, []string{"k=newer", "k=older"}) || got[1].StartTS >= got[0].StartTS || got[1].CommitTS <= got[0].CommitTS {
		t.Errorf("delivered %v", got)
	}
}

// A transaction that began long ago commits after entries of later slices were delivered, and
// another one follows it: the follower's entry is in another slice and does not overtake it,
// whichever slice's notification is found first.
func TestLateCommitIsNotOvertaken(t *testing.T) {
	t.Parallel()
	for range 4 {
		e := newEnv(t, nil)
		var to receiver
		w, stop := e.export(e.client, &to, observers.Config{})
		late := e.begin(e.client)
		e.queueIn(late, "k", "late")
		e.Clock.Advance(10 * time.Second)
		e.add("k", "early bird")
		e.idle(w)
		stop()
		e.commit(late)
		e.Clock.Advance(10 * time.Second)
		e.add("k", "follower")
		w, _ = e.export(e.client, &to, observers.Config{})
		e.idle(w)
		if v := values(to.entries()); !slices.Equal(v, []string{"k=early bird", "k=late", "k=follower"}) {
			t.Fatalf("delivered %v", v)
		}
	}
}

// A backlog over many slices is delivered in order, in batches within the limits.
func TestBatchesAreBoundedAndInOrder(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		limit func(*exportqueue.Config)
		most  int
	}{
		"entries": {func(c *exportqueue.Config) { c.MaxEntries = 4 }, 4},
		"bytes":   {func(c *exportqueue.Config) { c.MaxBytes = 10 }, 3}, // of 1 + 2 bytes
		"tiny":    {func(c *exportqueue.Config) { c.MaxBytes = 1 }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, func(c *exportqueue.Config) { c.Partitions = 1; test.limit(c) })
			var want []string
			for i := 10; i < 30; i += 2 {
				tx := e.begin(e.client)
				for _, v := range []int{i, i + 1} {
					e.queueIn(tx, string(rune('a'+v%3)), fmt.Sprint(v))
					want = append(want, fmt.Sprintf("%c=%d", 'a'+v%3, v))
				}
				e.commit(tx)
				e.Clock.Advance(time.Second)
			}
			if got := e.pending(); !slices.Equal(got, want) {
				t.Fatalf("queued %v, want %v", got, want)
			}
			var to receiver
			w, _ := e.export(e.client, &to, observers.Config{})
			e.idle(w)
			if got := values(to.entries()); !slices.Equal(got, want) {
				t.Errorf("delivered %v, want %v", got, want)
			}
			most := 0
			for _, c := range to.calls {
				most = max(most, len(c))
			}
			if most != test.most {
				t.Errorf("the largest batch had %d entries, want the limit, %d", most, test.most)
			}
		})
	}
}

// Entries of one transaction are numbered in the order of Add, those of one that did not commit are
// never delivered.
func TestEntriesOfATransaction(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil)
	tx := e.begin(e.client)
	for i := range 100 {
		e.queueIn(tx, "k", fmt.Sprint(i))
	}
	e.queueIn(tx, "", "")
	e.commit(tx)
	gone := e.begin(e.client)
	e.queueIn(gone, "k", "never")
	if err := gone.Rollback(e.ctx); err != nil {
		t.Fatal(err)
	}
	loser := e.begin(e.client)
	e.queueIn(loser, "k", "never")
	cell := percolator.Cell{Table: "t", Row: "r", Column: "c"}
	winner := e.begin(e.client)
	for _, tx := range []*percolator.Txn{loser, winner} {
		if err := tx.Set(cell, nil); err != nil {
			t.Fatal(err)
		}
	}
	e.commit(winner)
	if _, err := loser.Commit(e.ctx); !errors.Is(err, percolator.ErrConflict) {
		t.Fatalf("Commit: %v", err)
	}
	var to receiver
	w, _ := e.export(e.client, &to, observers.Config{})
	e.idle(w)
	next := map[string]int{}
	for _, x := range to.entries() {
		if x.Key == "k" && string(x.Value) != fmt.Sprint(next["k"]) {
			t.Fatalf("delivered %q after %d entries", x.Value, next["k"])
		}
		if x.Key == "k" && x.Seq != next["k"] {
			t.Errorf("entry %s has number %d", x.Value, x.Seq)
		}
		next[x.Key]++
	}
	if next["k"] != 100 || next[""] != 1 {
		t.Errorf("delivered %v", next)
	}
}

// A receiver that fails gets the same entries again, and nothing else of the partition before;
// after MaxAttempts they are parked, not lost.
func TestFailedDeliveries(t *testing.T) {
	t.Parallel()
	e := newEnv(t, func(c *exportqueue.Config) { c.Partitions, c.MaxEntries = 1, 1 })
	e.add("k", "1")
	e.add("k", "2")
	to := receiver{fail: func(call int) error {
		if call <= 3 {
			return errors.New("busy")
		}
		return nil
	}}
	w, stop := e.export(e.client, &to, observers.Config{MaxAttempts: 5})
	e.idle(w)
	stop()
	if v := values(to.entries()); !slices.Equal(v, []string{"k=1", "k=1", "k=1", "k=1", "k=2"}) {
		t.Errorf("delivered %v", v)
	}
	e.add("k", "3")
	broken := receiver{fail: func(int) error { return errors.New("down") }}
	w, stop = e.export(e.client, &broken, observers.Config{MaxAttempts: 2})
	e.idle(w)
	stop()
	if n := len(broken.entries()); n != 2 || w.Stats().Errors != 2 {
		t.Errorf("%d deliveries to a receiver that is down, stats %+v, want 2", n, w.Stats())
	}
	if left := e.pending(); !slices.Equal(left, []string{"k=3"}) {
		t.Errorf("left in the queue: %v", left)
	}
	e.add("k", "4") // which retries
	w, _ = e.export(e.client, &to, observers.Config{})
	e.idle(w)
	if v := values(to.entries()[5:]); !slices.Equal(v, []string{"k=3", "k=4"}) {
		t.Errorf("delivered %v", v)
	}
}

func TestWhatIsRefused(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*exportqueue.Config){
		"no table":        func(c *exportqueue.Config) { c.Table = "" },
		"no name":         func(c *exportqueue.Config) { c.Name = "" },
		"a long name":     func(c *exportqueue.Config) { c.Name = strings.Repeat("x", exportqueue.MaxNameBytes+1) },
		"not UTF-8":       func(c *exportqueue.Config) { c.Name = "a\xff" },
		"partitions":      func(c *exportqueue.Config) { c.Partitions = -1 },
		"many partitions": func(c *exportqueue.Config) { c.Partitions = exportqueue.MaxPartitions + 1 },
		"entries":         func(c *exportqueue.Config) { c.MaxEntries = 10_001 },
		"dead letters":    func(c *exportqueue.Config) { c.DeadLetters = c.Table },
		"bytes":           func(c *exportqueue.Config) { c.MaxBytes = -1 },
	} {
		cfg := exportqueue.Config{Table: "exports", Name: "export"}
		change(&cfg)
		if _, err := exportqueue.New(cfg); !errors.Is(err, percolator.ErrInvalidArgument) {
			t.Errorf("%s: %v", name, err)
		}
	}
	e := newEnv(t, nil)
	blind, err := e.client.Begin(e.ctx, percolator.Blind())
	if err != nil {
		t.Fatal(err)
	}
	if err := e.queue.Add(blind, "k", nil); !errors.Is(err, percolator.ErrInvalidArgument) {
		t.Errorf("a blind transaction: %v", err)
	}
	tx := e.begin(e.client)
	if err := e.queue.Add(tx, strings.Repeat("x", exportqueue.MaxKeyBytes+1), nil); !errors.Is(err, percolator.ErrTooLarge) {
		t.Errorf("a long key: %v", err)
	}
	if err := e.queue.Add(tx, "k", make([]byte, exportqueue.MaxValueBytes+1)); !errors.Is(err, percolator.ErrTooLarge) {
		t.Errorf("a large value: %v", err)
	}
	other, err := exportqueue.New(exportqueue.Config{Table: "other", Name: "export"})
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Add(tx, "k", nil); !errors.Is(err, percolator.ErrSchemaMismatch) || !strings.Contains(err.Error(), "add queue.Table()") {
		t.Errorf("a table that the schema lacks: %v", err)
	}
	e.queueIn(tx, "k", "v")
	e.commit(tx)
	if err := e.queue.Add(tx, "k", nil); !errors.Is(err, percolator.ErrTxnDone) {
		t.Errorf("a finished transaction: %v", err)
	}
	for column, value := range map[string]string{
		"x": "", strings.Repeat("z", 24): "", "0000000000000001zzzzzzzz": "", "000000000000000100000000": "\x05k",
	} {
		e := newEnv(t, nil)
		alien := e.begin(e.client)
		if err := alien.Set(percolator.Cell{Table: "exports", Row: "000.0000000000.00", Column: column}, []byte(value)); err != nil {
			t.Fatal(err)
		}
		e.commit(alien)
		s, err := e.client.Snapshot(e.ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, err := range e.queue.Pending(e.ctx, s) {
			if !errors.Is(err, percolator.ErrCorrupt) {
				t.Errorf("a cell %q of somebody else: %v", column, err)
			}
		}
	}
	r := observers.NewRegistry()
	e.queue.Observe(r, nil, nil)
	if _, err := observers.NewWorker(e.client, r, observers.Config{}); !errors.Is(err, percolator.ErrInvalidArgument) {
		t.Errorf("Observe without a function: %v", err)
	}
}

// Deliveries can wait for others, and others for deliveries.
func TestNamesOfObservers(t *testing.T) {
	t.Parallel()
	e := newEnv(t, func(c *exportqueue.Config) { c.Partitions = 2 })
	if names := e.queue.Observers(); !slices.Equal(names, []string{"export-000", "export-001"}) {
		t.Errorf("%q", names)
	}
	for name, valid := range map[string]bool{"export-001": true, "export-002": false} {
		r := observers.NewRegistry()
		e.queue.Observe(r, e.client, new(receiver).deliver, observers.After(time.Second, append(e.queue.Observers(), name)...))
		if _, err := observers.NewWorker(e.client, r, observers.Config{}); valid != (err == nil) || !valid && !errors.Is(err, percolator.ErrInvalidArgument) {
			t.Errorf("After %s: %v", name, err)
		}
	}
}
