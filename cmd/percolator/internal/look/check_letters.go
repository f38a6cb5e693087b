package look

import (
	"context"
	"time"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/observers/exportqueue"
	"github.com/gopercolator/percolator/percolator"
)

// lettersLimit bounds the check of dead letters: those that were retried or dropped cost reads.
const lettersLimit = 10 * time.Second

func checkLetters(ctx context.Context, x *checker) []finding {
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
	return judgeLetters(counts, x.now())
}

func judgeLetters(counts []exportqueue.DeadLetterCount, now time.Time) (out []finding) {
	for _, c := range counts {
		atLeast := ""
		if c.More {
			atLeast = "more than "
		}
		out = append(out, found(levelWarning, "percolator exports ls "+c.Table+" --queue "+c.Queue,
			"entries of the queue %s that were refused for good: %s%d, the oldest %s ago", c.Queue, atLeast, c.Letters, cli.BriefAge(now.Sub(c.Oldest.Time()))))
	}
	return elseOK(out, "no dead letters of export queues")
}
