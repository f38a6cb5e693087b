package exportqueue_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/observers/exportqueue"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// counting is a store with two queues, which share a table of dead letters, and a table of another
// kind. Their receivers refuse everything.
type counting struct {
	*percolatortest.Env
	t        testing.TB
	ctx      context.Context
	requests atomic.Int64
	schema   *percolator.Schema
	queues   []*exportqueue.Queue
	worker   *observers.Worker
}

func newCounting(t *testing.T) *counting {
	c := &counting{t: t, schema: &percolator.Schema{Tables: []percolator.Table{{Name: "documents"}, {Name: "dead"}, {Name: "people", Observed: []string{"name"}}}}}
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	t.Cleanup(cancel)
	c.ctx = ctx
	for _, name := range []string{"mails", "a-search", "a"} {
		q, err := exportqueue.New(exportqueue.Config{Table: name, Name: name, Partitions: 2, DeadLetters: "dead"})
		if err != nil {
			t.Fatal(err)
		}
		c.queues = append(c.queues, q)
		c.schema.Tables = append(c.schema.Tables, q.Table())
	}
	c.Env = percolatortest.New(t, c.schema)
	r := observers.NewRegistry()
	r.Observe("greet", "people", "name", func(context.Context, *percolator.Txn, observers.Change) error { return nil })
	for _, q := range c.queues {
		q.Observe(r, c.Client, func(_ context.Context, batch []exportqueue.Entry) error {
			return exportqueue.Reject(errors.New("400 bad document"), batch...)
		})
	}
	w, err := observers.NewWorker(c.Client, r, observers.Config{DisableCollection: true})
	if err != nil {
		t.Fatal(err)
	}
	c.worker = w
	ended := make(chan error, 1)
	runs, stop := context.WithCancel(ctx)
	go func() { ended <- w.Run(runs) }()
	t.Cleanup(func() { stop(); <-ended })
	return c
}

// refuse has entries refused, in one transaction.
func (c *counting) refuse(queue, entries int, value []byte) {
	c.t.Helper()
	_, err := c.Client.Update(c.ctx, func(_ context.Context, tx *percolator.Txn) error {
		for i := range entries {
			if err := c.queues[queue].Add(tx, fmt.Sprintf("key-%04d", i), value); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		err = c.worker.WaitIdle(c.ctx)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *counting) count() (counts []exportqueue.DeadLetterCount, err error) {
	client := c.NewClient(percolatortest.Handler(func(r percolatortest.Request) percolatortest.Action {
		if r.Table == "documents" || r.Table == "dead" || r.Table == "people" {
			c.requests.Add(1)
		}
		return percolatortest.Pass
	}))
	err = client.View(c.ctx, func(ctx context.Context, s *percolator.Snapshot) error {
		counts, err = exportqueue.CountDeadLetters(ctx, s, c.schema)
		return err
	})
	return counts, err
}

// Dead letters are found without being told where they are, with one request for each table that
// may hold some; queues with more than are counted do not hide others.
func TestCountDeadLetters(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		c := newCounting(t)
		if counts, err := c.count(); err != nil || len(counts) != 0 || c.requests.Load() != 2 {
			t.Errorf("without letters %v, %v, with %d requests", counts, err, c.requests.Load())
		}
		before := time.Now()
		c.refuse(0, 2, []byte("a value"))
		c.refuse(0, 1, []byte("a value"))
		c.refuse(1, exportqueue.MaxCounted+1, nil)
		c.refuse(2, 3, make([]byte, 3<<20))
		counts, err := c.count()
		if err != nil || len(counts) != 3 {
			t.Fatalf("%d counts, %v", len(counts), err)
		}
		var text []string
		for _, x := range counts {
			text = append(text, fmt.Sprintf("%s %s %d %v %d", x.Table, x.Queue, x.Letters, x.More, len(x.First)))
			if x.Oldest.Time().Before(before.Add(-time.Second)) || x.Oldest > x.First[0].CommitTS {
				t.Errorf("%s: the oldest of %v", x.Queue, x.Oldest.Time())
			}
			for _, l := range x.First {
				if l.Value != nil || !strings.HasPrefix(l.Key, "key-") || l.Reason != "400 bad document" || l.Queue != x.Queue {
					t.Errorf("%s: %+v", l.ID(), l)
				}
			}
		}
		if want := "dead a-search 1000 true 5, dead a 2 true 2, dead mails 3 false 3"; strings.Join(text, ", ") != want {
			t.Errorf("counted %q, want %q", text, want)
		}
	})
}

// What is no dead letter is reported where one would be, and not looked at elsewhere.
func TestCountOfOtherRows(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		c := newCounting(t)
		set := func(row string) {
			if _, err := c.Client.Update(c.ctx, func(_ context.Context, tx *percolator.Txn) error {
				return tx.Set(percolator.Cell{Table: "documents", Row: row, Column: "c"}, nil)
			}); err != nil {
				t.Fatal(err)
			}
		}
		for _, row := range []string{"mails", "mails/", "mails/x", "mails/0x", "another/000.01a2b3c4d5.e6"} {
			set(row)
		}
		if counts, err := c.count(); err != nil || len(counts) != 0 {
			t.Errorf("%v, %v", counts, err)
		}
		set("mails/000.01a2b3c4d5.e6")
		if counts, err := c.count(); !errors.Is(err, percolator.ErrCorrupt) {
			t.Errorf("%v, %v", counts, err)
		}
	})
}
