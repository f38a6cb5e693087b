package bench

import (
	"context"
	"time"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/clumping"
)

// ClumpingReport is what came of a simulation of scanners, by variant. It depends on the configuration alone: a machine that is slower
// takes longer to the same figures.
type ClumpingReport struct {
	Machine
	Config   clumping.Config   `json:"config"` // durations in nanoseconds
	Variants []clumping.Result `json:"variants"`
}

// Clumping simulates every way to search for notifications (section 2.4 of the paper) under the same load. progress, if any, is told how
// many are done.
func Clumping(ctx context.Context, cfg clumping.Config, progress func(done, all int)) (*ClumpingReport, error) {
	r := &ClumpingReport{Machine: ThisMachine(time.Now()), Config: cfg}
	variants := clumping.Variants()
	for i, v := range variants {
		if progress != nil {
			progress(i, len(variants))
		}
		result, err := clumping.Run(ctx, cfg, v)
		if err != nil {
			return nil, err
		}
		r.Variants = append(r.Variants, result)
	}
	if progress != nil {
		progress(len(variants), len(variants))
	}
	return r, nil
}
