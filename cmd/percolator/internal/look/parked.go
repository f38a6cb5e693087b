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
func Parked(ctx context.Context, c *percolator.Client, now time.Time) (cells int, out []health.Finding) {
	within, cancel := context.WithTimeout(ctx, parkedLimit)
	defer cancel()
	cells, oldest, err := countParked(within, c)
	out = health.Parked(cells, err != nil, now.Sub(oldest))
	switch {
	case err == nil:
	case ctx.Err() == nil && within.Err() != nil:
		out = append(out, health.Unchecked("parked cells that %v are too short for", parkedLimit)...)
	default:
		out = append(out, cannot(err)...)
	}
	return cells, out
}

// countParked counts parked cells, before an error those that came first. oldest is by the clock of
// the worker that parked the cell.
func countParked(ctx context.Context, c *percolator.Client) (cells int, oldest time.Time, err error) {
	var last percolator.Cell
	for p, err := range observers.ListParked(ctx, c) {
		if err != nil {
			return cells, oldest, err
		}
		if cells == 0 || p.Since.Before(oldest) {
			oldest = p.Since
		}
		if cells == 0 || p.Cell != last {
			cells, last = cells+1, p.Cell
		}
	}
	return cells, oldest, nil
}
