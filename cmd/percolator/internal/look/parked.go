package look

import (
	"context"
	"time"

	"github.com/gopercolator/percolator/internal/health"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
)

// parkedLimit bounds the look for parked cells: without a journal it passes over the tables.
const parkedLimit = 10 * time.Second

// Parked judges the cells that only wait for an operator, and says how many there are at least.
func Parked(ctx context.Context, c *percolator.Client, now time.Time) (found health.Parked, out []health.Finding) {
	within, cancel := context.WithTimeout(ctx, parkedLimit)
	defer cancel()
	var err error
	for p, failed := range observers.ListParked(within, c) {
		if err = failed; err != nil {
			break
		}
		found.Add(p.Cell, p.Observer, p.Since)
	}
	out = found.Findings(err != nil, now)
	switch {
	case err == nil:
	case ctx.Err() == nil && within.Err() != nil:
		out = append(out, health.Unchecked("parked cells that %v are too short for", parkedLimit)...)
	default:
		out = append(out, cannot(err)...)
	}
	return found, out
}
