package workload

import (
	"context"
	"fmt"
	"time"
)

// poke notifies weakly, in most cases together with a write. A notification that is lost shows if
// no later one of the same row takes its place: so some rows are poked once, and some a second time
// soon after, with luck while an observer is at work.
func (s *Session) poke(ctx context.Context) {
	row, again := fmt.Sprintf("k%d", s.Rand.IntN(pingRows)), s.poked
	s.poked = ""
	switch {
	case again != "":
		row = again
		wait(ctx, time.Duration(s.Rand.Int64N(int64(50*time.Millisecond))))
	case s.Rand.IntN(3) > 0:
		row = fmt.Sprintf("once%d", s.ids.Add(1))
		if s.Rand.IntN(2) == 0 {
			s.poked = row
		}
	}
	s.transact(ctx, options{kind: "poke"}, func(_ context.Context, a *attempt) error {
		if err := a.notify(cell(pings, row, "poke")); err != nil {
			return err
		}
		return a.set(cell(pings, fmt.Sprintf("k%d", s.Rand.IntN(pingRows)), "cause"), a.unique(""))
	})
}
