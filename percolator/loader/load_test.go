package loader_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/loader"
)

func TestLoadThatHasEndedBeginsAnew(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	var committed atomic.Int64
	var last loader.Progress
	cfg := loader.Config{Name: "l", Concurrency: 3, ItemsPerTransaction: 7, Progress: func(p loader.Progress) { last = p }}
	job := loader.Job[string]{Source: source("a-", 500), Write: loader.Each(set), Committed: func(items []string) { committed.Add(int64(len(items))) }}
	for range 2 { // a load that has come to its end begins anew
		r, err := loader.Load(e.ctx, e.Client, cfg, job)
		if err != nil {
			t.Fatal(err)
		}
		if r.Resumed || r.Items != 500 || r.Bytes != 5000 || r.Failed != 0 || r.InFlight != 0 || r.Position.Items != 500 || last.Items != 500 {
			t.Errorf("report %+v, last progress %+v", r, last)
		}
	}
	if n := e.stored("a-"); n != 500 || committed.Load() != 1000 {
		t.Errorf("%d rows, %d items committed", n, committed.Load())
	}
	if p := e.position("l"); !p.Done || p.Items != 500 {
		t.Errorf("stored position %+v", p)
	}
	if n := e.Client.Stats().Transactions; n < 2*500/7 || n > 1000 {
		t.Errorf("%d transactions", n)
	}
}

// An item does not wait for others: the source yields the next one when it is in the store.
func TestSlowSource(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	committed := make(chan string, 1)
	src := func(ctx context.Context) iter.Seq2[string, error] {
		return func(yield func(string, error) bool) {
			for i := range 20 {
				if !yield(name("s-", i), nil) {
					return
				}
				select {
				case <-committed:
				case <-ctx.Done():
					return
				}
			}
		}
	}
	r, err := loader.Load(e.ctx, e.Client, loader.Config{}, loader.Job[string]{
		Source: loader.Replay(src, nil), Write: loader.Each(set), Committed: func(items []string) { committed <- items[0] },
	})
	if err != nil || r.Items != 20 {
		t.Errorf("%+v, %v", r, err)
	}
}

// What has been read and not been dealt with is bounded in bytes, and so are the transactions under
// way, in number and size.
func TestWhatIsUnderWayIsBounded(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	const size, room = 100, 1000
	var inFlight, running, most, largest atomic.Int64
	raise := func(high *atomic.Int64, n int64) {
		for old := high.Load(); n > old && !high.CompareAndSwap(old, n); old = high.Load() {
		}
	}
	src := func(_ context.Context, _ loader.Position) iter.Seq2[loader.Item[string], error] {
		return func(yield func(loader.Item[string], error) bool) {
			for i := range 300 {
				bytes := int64(size)
				if i == 150 {
					bytes = 10 * room // goes alone
				}
				// The item that is being yielded has not been taken in yet.
				if n := inFlight.Load(); i != 151 && n > room {
					t.Errorf("%d bytes were in flight when item %d was asked for", n, i)
				}
				inFlight.Add(bytes)
				if !yield(loader.Item[string]{Value: name("b-", i), Bytes: bytes}, nil) {
					return
				}
			}
		}
	}
	write := func(ctx context.Context, tx *percolator.Txn, items []string) error {
		raise(&most, running.Add(1))
		defer running.Add(-1)
		raise(&largest, int64(len(items)))
		return loader.Each(set)(ctx, tx, items)
	}
	r, err := loader.Load(e.ctx, e.Client, loader.Config{Concurrency: 3, ItemsPerTransaction: 50, BytesPerTransaction: 4 * size, MaxInFlightBytes: room},
		loader.Job[string]{Source: src, Write: write, Committed: func(items []string) {
			for _, item := range items {
				bytes := int64(size)
				if item == name("b-", 150) {
					bytes = 10 * room
				}
				inFlight.Add(-bytes)
			}
		}})
	if err != nil || r.Items != 300 || e.stored("b-") != 300 {
		t.Fatalf("%+v, %v", r, err)
	}
	if most.Load() > 3 || largest.Load() > 4 || most.Load() < 1 || largest.Load() < 2 {
		t.Errorf("%d transactions at once, at most %d items in one; want 3 and 4", most.Load(), largest.Load())
	}
}

// Items that keep failing are reported, and nothing else is lost. One that can never succeed is
// tried once.
func TestPoisonIsReportedAndLosesNothing(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	errPoison := errors.New("poison")
	write := loader.Each(func(ctx context.Context, tx *percolator.Txn, item string) error {
		switch {
		case strings.HasSuffix(item, "07"):
			return errPoison
		case strings.HasSuffix(item, "13"):
			return tx.Set(percolator.Cell{Table: "t", Row: item, Column: ""}, nil) // no such column can be
		}
		return set(ctx, tx, item)
	})
	failed := map[int64]loader.Failure[string]{}
	cfg := loader.Config{Name: "p", MaxAttempts: 3, Concurrency: 4, ItemsPerTransaction: 16}
	job := loader.Job[string]{Source: source("p-", 220), Write: write, Failed: func(f loader.Failure[string]) error {
		if _, twice := failed[f.Index]; twice {
			t.Errorf("item %d was reported twice", f.Index)
		}
		failed[f.Index] = f
		return nil
	}}
	r, err := loader.Load(e.ctx, e.Client, cfg, job)
	if err != nil {
		t.Fatal(err)
	}
	if r.Items != 214 || r.Failed != 6 || len(r.Failures) != 6 || len(failed) != 6 || e.stored("p-") != 214 || r.Position.Items != 220 || r.Retries == 0 {
		t.Errorf("report %+v, %d failures reported", r, len(failed))
	}
	for _, i := range []int64{7, 107, 207, 13, 113, 213} {
		f := failed[i]
		want, attempts := errPoison, 3
		if i%100 == 13 {
			want, attempts = percolator.ErrInvalidArgument, 1
		}
		if f.Item != name("p-", int(i)) || f.Attempts != attempts || !errors.Is(f.Err, want) {
			t.Errorf("item %d: %+v", i, f)
		}
	}
	if p := e.position("p"); !p.Done || p.Failed != 6 {
		t.Errorf("position %+v", p)
	}

	// Without a word about failed items the load ends at the first of them, and goes on there.
	job.Failed = nil
	for range 2 {
		r, err = loader.Load(e.ctx, e.Client, cfg, job)
		var ie *loader.ItemError
		if !errors.As(err, &ie) || ie.Index%100 != 7 && ie.Index%100 != 13 || r.Position.Items > 7 {
			t.Errorf("%v, position %d", err, r.Position.Items)
		}
	}
	job.Failed = func(f loader.Failure[string]) error { return fmt.Errorf("no more of item %d", f.Index) }
	_, err = loader.Load(e.ctx, e.Client, cfg, job)
	e.mentions(err, "no more of item")
}

func TestSourceFails(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	errTorn := errors.New("torn page")
	src := func(context.Context) iter.Seq2[string, error] {
		return func(yield func(string, error) bool) {
			for i := range 30 {
				if i%10 == 5 && !yield("", errTorn) {
					return
				}
				if !yield(name("f-", i), nil) {
					return
				}
			}
		}
	}
	cfg := loader.Config{Name: "f"}
	job := loader.Job[string]{Source: loader.Replay(src, nil), Write: loader.Each(set)}
	r, err := loader.Load(e.ctx, e.Client, cfg, job)
	if !errors.Is(err, errTorn) || r.Items > 5 {
		t.Errorf("%+v, %v", r, err)
	}
	torn := 0
	job.SourceFailed = func(err error) error {
		if torn++; !errors.Is(err, errTorn) {
			t.Error(err)
		}
		return nil
	}
	r, err = loader.Load(e.ctx, e.Client, cfg, job)
	if err != nil || r.From.Items+r.Items != 30 || torn != 3 || e.stored("f-") != 30 {
		t.Errorf("%+v, %v, %d errors", r, err, torn)
	}
}

// Transactions that write the same cells conflict, with each other and with those of others. No
// update is lost.
func TestConflictsLoseNoUpdate(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	add := func(ctx context.Context, tx *percolator.Txn, item string) error {
		c := cell("hot-" + item[len(item)-1:])
		old, err := tx.GetMulti(ctx, c)
		if err != nil || strings.Contains(string(old[0]), item+" ") {
			return err
		}
		return tx.Set(c, append(old[0], item+" "...))
	}
	done := make(chan error, 3)
	for i := range 3 {
		client := e.NewClient()
		go func() {
			r, err := loader.Load(e.ctx, client, loader.Config{Name: fmt.Sprint(i), Concurrency: 4, ItemsPerTransaction: 5, MaxAttempts: 1000},
				loader.Job[string]{Source: source(fmt.Sprintf("c%d-", i), 60), Write: loader.Each(add)})
			if err == nil && r.Items != 60 {
				err = fmt.Errorf("%d items", r.Items)
			}
			done <- err
		}()
	}
	for range 3 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	items := 0
	if err := e.Client.View(e.ctx, func(ctx context.Context, s *percolator.Snapshot) error {
		for entry, err := range s.Scan(ctx, "t", percolator.Prefix("hot-")) {
			if err != nil {
				return err
			}
			items += len(strings.Fields(string(entry.Value)))
		}
		return nil
	}); err != nil || items != 180 {
		t.Errorf("%d items, %v", items, err)
	}
	// A cell that conflicts every time is an item that fails.
	stubborn := func(ctx context.Context, tx *percolator.Txn, item string) error {
		if strings.HasSuffix(item, "3") {
			return fmt.Errorf("always: %w", percolator.ErrConflict)
		}
		return set(ctx, tx, item)
	}
	var attempts int
	r, err := loader.Load(e.ctx, e.Client, loader.Config{MaxAttempts: 4}, loader.Job[string]{
		Source: source("x-", 10), Write: loader.Each(stubborn), Failed: func(f loader.Failure[string]) error { attempts = f.Attempts; return nil },
	})
	if err != nil || r.Items != 9 || r.Failed != 1 || attempts != 4 {
		t.Errorf("%+v, %v, %d attempts", r, err, attempts)
	}
}

func TestInvalidJobsAreRefused(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	good := loader.Job[string]{Source: source("i-", 1), Write: loader.Each(set)}
	for field, cfg := range map[string]loader.Config{
		"Name":               {Name: strings.Repeat("n", admin.MaxLoadName+1)},
		"Concurrency":        {Concurrency: 1025},
		"ItemsPer":           {ItemsPerTransaction: -1},
		"BytesPer":           {BytesPerTransaction: percolator.MaxTxnBytes + 1},
		"MaxInFlightBytes":   {MaxInFlightBytes: -1},
		"MaxAttempts":        {MaxAttempts: -1},
		"OutageTimeout":      {OutageTimeout: -time.Second},
		"Timeout":            {Timeout: -1},
		"DrainTimeout":       {DrainTimeout: -1},
		"CheckpointInterval": {CheckpointInterval: -1},
		"ProgressInterval":   {ProgressInterval: -1},
	} {
		_, err := loader.Load(e.ctx, e.Client, cfg, good)
		if !errors.Is(err, percolator.ErrInvalidArgument) {
			t.Errorf("%s: %v", field, err)
		}
		e.mentions(err, field)
	}
	for what, job := range map[string]loader.Job[string]{
		"no source": {Write: good.Write},
		"no write":  {Source: good.Source},
		"a long token": {Write: good.Write, Source: func(context.Context, loader.Position) iter.Seq2[loader.Item[string], error] {
			return func(yield func(loader.Item[string], error) bool) {
				yield(loader.Item[string]{Token: make([]byte, loader.MaxToken+1)}, nil)
			}
		}},
	} {
		if _, err := loader.Load(e.ctx, e.Client, loader.Config{}, job); !errors.Is(err, percolator.ErrInvalidArgument) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if n := e.stored("i-"); n != 0 {
		t.Errorf("%d rows", n)
	}
}
