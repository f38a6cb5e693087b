package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/gopercolator/percolator/tso"
)

// job is what the callers of a process are to do: ask for Duration, or for Total
// timestamps; as fast as they can, or at Rate a second together.
type job struct {
	Callers  int           `json:"callers"`
	Duration time.Duration `json:"duration,omitempty"`
	Total    int64         `json:"total,omitempty"`
	Rate     float64       `json:"rate,omitempty"`
}

// result is what they did.
type result struct {
	Count     int64                  `json:"count"`
	Seconds   float64                `json:"seconds"`
	Heap      int64                  `json:"heap"`
	Latencies *hdrhistogram.Snapshot `json:"latencies,omitempty"`
	Error     string                 `json:"error,omitempty"`
}

// Load is a process with callers of the oracle at targets: it does a job for each line
// that it reads and prints what it did, until the input ends. Each caller is a
// goroutine with a context of its own.
func Load(ctx context.Context, targets string, connections int, in io.Reader, out io.Writer) error {
	var clients []*tso.Client
	for range connections {
		client, err := tso.Dial(ctx, targets)
		if err != nil {
			return err
		}
		defer func() { _ = client.Close() }()
		clients = append(clients, client)
	}
	answers := json.NewEncoder(out)
	for jobs := json.NewDecoder(in); ; {
		var j job
		if err := jobs.Decode(&j); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := answers.Encode(j.run(ctx, clients)); err != nil {
			return err
		}
	}
}

// crowd is the callers of a job.
type crowd struct {
	job
	clients []*tso.Client
	begin   time.Time
	end     atomic.Bool
	left    atomic.Int64 // of Total, in lots
	count   atomic.Int64
	failed  atomic.Pointer[error]

	mu        sync.Mutex
	latencies *hdrhistogram.Histogram
}

// lot is how many timestamps of a total a caller takes on at once.
const lot = 64

func (j job) run(ctx context.Context, clients []*tso.Client) result {
	c := &crowd{job: j, clients: clients, latencies: newHistogram()}
	c.left.Store(j.Total)
	if j.Total == 0 {
		timer := time.AfterFunc(j.Duration, func() { c.end.Store(true) })
		defer timer.Stop()
	}
	ask := c.closed
	if j.Rate > 0 {
		ask = c.open
	}
	var wg sync.WaitGroup
	c.begin = time.Now()
	for i := range j.Callers {
		wg.Go(func() {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			if err := ask(ctx, i); err != nil {
				c.failed.Store(&err)
				c.end.Store(true)
			}
		})
	}
	wg.Wait()
	r := result{Count: c.count.Load(), Seconds: time.Since(c.begin).Seconds(), Heap: liveHeap()}
	if j.Rate > 0 {
		r.Latencies = c.latencies.Export()
	}
	if err := c.failed.Load(); err != nil {
		r.Error = (*err).Error()
	}
	return r
}

// more reports whether a caller is to take another lot.
func (c *crowd) more() bool {
	return !c.end.Load() && (c.Total == 0 || c.left.Add(-lot) > -lot)
}

// closed asks again and again.
func (c *crowd) closed(ctx context.Context, caller int) error {
	client := c.clients[caller%len(c.clients)]
	var last tso.Timestamp
	for c.more() {
		for range lot {
			ts, err := client.Next(ctx)
			if err != nil {
				return err
			}
			if ts <= last {
				return fmt.Errorf("timestamp %d after %d", ts, last)
			}
			last = ts
		}
		c.count.Add(lot)
	}
	return nil
}

// open asks at set times, evenly spread over the callers.
func (c *crowd) open(ctx context.Context, caller int) error {
	period := time.Duration(float64(c.Callers) / c.Rate * float64(time.Second))
	client := c.clients[caller%len(c.clients)]
	due := c.begin.Add(period * time.Duration(caller) / time.Duration(c.Callers))
	mine := newHistogram()
	asked := int64(0)
	for ; !c.end.Load(); due = due.Add(period) {
		if wait := time.Until(due); wait > 0 {
			time.Sleep(wait)
		}
		if _, err := client.Next(ctx); err != nil {
			return err
		}
		asked++
		_ = mine.RecordValue(min(int64(time.Since(due)), longest))
	}
	c.count.Add(asked)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.latencies.Merge(mine)
	return nil
}

// longest is the greatest latency that is told from greater ones.
const longest = int64(10 * time.Second)

func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1000, longest, 2) }

func importHistogram(s *hdrhistogram.Snapshot) *hdrhistogram.Histogram { return hdrhistogram.Import(s) }
