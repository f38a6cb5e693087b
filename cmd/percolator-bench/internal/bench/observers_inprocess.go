package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
)

// measureInProcess finds the saturated rate and offers half of it.
func measureInProcess(ctx context.Context, cfg ObserversConfig, step func()) (out InProcess, err error) {
	most := 0.0
	for _, writers := range cfg.Writers {
		rate, err := saturate(ctx, writers, cfg.Duration/4)
		if err != nil {
			return out, fmt.Errorf("%d writers: %w", writers, err)
		}
		out.Saturated = append(out.Saturated, SaturatedRate{writers, rate})
		most = max(most, rate)
		step()
	}
	out.Offered = most / 2
	err = out.offer(ctx, cfg.Duration)
	step()
	return out, err
}

// saturate lets writers write, each of them again as soon as the observer of its last write has committed, so that writes
// and runs go at one rate: left alone, writers would outrun the worker. The first third of the time is not counted.
func saturate(ctx context.Context, writers int, d time.Duration) (perSecond float64, err error) {
	s, err := startStore(ctx, 1)
	if err != nil {
		return 0, err
	}
	defer func() { err = firstOf(err, s.close()) }()
	_, stop, err := startWorker(ctx, s.client, 1, observers.Config{})
	if err != nil {
		return 0, err
	}
	defer func() { err = firstOf(err, stop()) }()

	var rows, runs atomic.Int64
	begun := time.Now()
	counted, end := begun.Add(d/3), begun.Add(d)
	var group errgroup.Group
	for range writers {
		group.Go(func() error {
			ctx, cancel := context.WithDeadline(ctx, end.Add(patience))
			defer cancel()
			for time.Now().Before(end) {
				row := rowName(int(rows.Add(1)))
				if err := write(ctx, s.client, row); err != nil {
					return err
				}
				at, err := s.clock.await(ctx, row, hopColumn(1))
				if err != nil {
					return fmt.Errorf("the observer of row %s: %w", row, err)
				}
				if at.After(counted) && !at.After(end) {
					runs.Add(1)
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return 0, err
	}
	if runs.Load() == 0 {
		return 0, fmt.Errorf("no run was counted in %v", d)
	}
	return float64(runs.Load()) / end.Sub(counted).Seconds(), nil
}

func rowName(i int) string { return fmt.Sprintf("row-%09d", i) }

// arrivals calls f at the moments of a Poisson process of the given rate, for d, at least once, and waits for all calls. A call does not
// wait for those before it: who is late does not make others late, and is measured as late.
func arrivals(d time.Duration, rate float64, f func(i int) error) error {
	random := rand.New(rand.NewPCG(1, 2))
	begun := time.Now()
	var group errgroup.Group
	for i, due := 0, time.Duration(0); ; i++ {
		due += time.Duration(random.ExpFloat64() / rate * float64(time.Second))
		if due > d && i > 0 {
			return group.Wait()
		}
		if wait := time.Until(begun.Add(due)); wait > 0 {
			time.Sleep(wait)
		}
		group.Go(func() error { return f(i) })
	}
}

// offer writes rows at the rate, whatever becomes of them, and measures how long their observers take.
func (p *InProcess) offer(ctx context.Context, d time.Duration) (err error) {
	s, err := startStore(ctx, 1)
	if err != nil {
		return err
	}
	defer func() { err = firstOf(err, s.close()) }()
	_, stop, err := startWorker(ctx, s.client, 1, observers.Config{})
	if err != nil {
		return err
	}
	defer func() { err = firstOf(err, stop()) }()
	ctx, cancel := context.WithTimeout(ctx, d+patience)
	defer cancel()

	var rows atomic.Int64
	begun := time.Now()
	if err := arrivals(d, p.Offered, func(i int) error {
		rows.Add(1)
		return write(ctx, s.client, rowName(i))
	}); err != nil {
		return err
	}
	n := int(rows.Load())
	var latencies []time.Duration
	inTime := 0
	for i := range n {
		ran, err := s.clock.await(ctx, rowName(i), hopColumn(1))
		if err != nil {
			return fmt.Errorf("the observer of write %d of %d: %w", i, n, err)
		}
		written := s.clock.committed(rowName(i), hopColumn(0))
		if written.Sub(begun) <= d {
			inTime++
		}
		latencies = append(latencies, ran.Sub(written))
	}
	p.Delivered = float64(inTime) / d.Seconds()
	p.Latency = spreadOf(latencies)
	p.Timestamps, err = byTimestamps(ctx, s.client)
	return err
}

// byTimestamps reads the commit timestamps of all writes and of the runs for them.
func byTimestamps(ctx context.Context, c *percolator.Client) (Spread, error) {
	var latencies []time.Duration
	err := c.View(ctx, func(ctx context.Context, s *percolator.Snapshot) error {
		latencies = nil
		var written percolator.Entry
		for e, err := range s.Scan(ctx, benchTable, percolator.All(), hopColumn(0), hopColumn(1)) {
			switch {
			case err != nil:
				return err
			case e.Cell.Column == hopColumn(0):
				written = e
			case e.Cell.Row == written.Cell.Row:
				latencies = append(latencies, e.CommitTS.Sub(written.CommitTS))
			default:
				return fmt.Errorf("row %s has column %s alone", e.Cell.Row, strconv.Quote(e.Cell.Column))
			}
		}
		return nil
	})
	return spreadOf(latencies), err
}
