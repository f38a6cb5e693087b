package bench

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/gopercolator/percolator/observers"
)

// measureChain begins chains at random moments and measures each hop.
func measureChain(ctx context.Context, cfg ObserversConfig, dispatch bool) (out Chain, err error) {
	s, err := startStore(ctx, cfg.Hops)
	if err != nil {
		return out, err
	}
	defer func() { err = firstOf(err, s.close()) }()
	_, stop, err := startWorker(ctx, s.client, cfg.Hops, observers.Config{DisableDispatch: !dispatch})
	if err != nil {
		return out, err
	}
	defer func() { err = firstOf(err, stop()) }()
	ctx, cancel := context.WithTimeout(ctx, cfg.Duration+patience)
	defer cancel()

	var rows atomic.Int64
	if err := arrivals(cfg.Duration/2, cfg.Chains, func(i int) error {
		rows.Add(1)
		return write(ctx, s.client, rowName(i))
	}); err != nil {
		return out, err
	}
	hops := make([][]time.Duration, cfg.Hops)
	var whole []time.Duration
	for i := range int(rows.Load()) {
		first := s.clock.committed(rowName(i), hopColumn(0))
		last := first
		for h := range hops {
			at, err := s.clock.await(ctx, rowName(i), hopColumn(h+1))
			if err != nil {
				return out, fmt.Errorf("hop %d of chain %d: %w", h+1, i, err)
			}
			hops[h] = append(hops[h], at.Sub(last))
			last = at
		}
		whole = append(whole, last.Sub(first))
	}
	out = Chain{Dispatch: dispatch, Whole: spreadOf(whole)}
	for _, h := range hops {
		out.Hops = append(out.Hops, spreadOf(h))
	}
	return out, nil
}
