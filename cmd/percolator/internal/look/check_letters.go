package look

import (
	"context"
	"time"

	"github.com/gopercolator/percolator/internal/health"
	"github.com/gopercolator/percolator/observers/exportqueue"
	"github.com/gopercolator/percolator/percolator"
)

// lettersLimit bounds the check of dead letters: those that were retried or dropped cost reads.
const lettersLimit = 10 * time.Second

func checkLetters(ctx context.Context, x *checker) []health.Finding {
	ctx, cancel := context.WithTimeout(ctx, lettersLimit)
	defer cancel()
	var counts []exportqueue.DeadLetterCount
	err := x.client.View(ctx, func(ctx context.Context, s *percolator.Snapshot) (err error) {
		counts, err = exportqueue.CountDeadLetters(ctx, s, x.client.Schema())
		return err
	})
	if err != nil {
		return cannot(err)
	}
	var out []health.Finding
	for _, c := range counts {
		out = append(out, health.Letters(c.Table, c.Queue, c.Letters, c.More, x.now().Sub(c.Oldest.Time())))
	}
	return health.ElseFine(out, "no dead letters of export queues")
}
