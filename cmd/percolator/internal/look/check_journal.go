package look

import (
	"context"
	"time"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/percolator/admin"
)

// Bounds of the check of the journal.
const (
	streamsChecked = 1000
	// adoptionSlow is how old an unsettled entry of a dead client may be: a worker adopts its
	// stream within seconds, and then waits for observers.
	adoptionSlow = 10 * time.Minute
)

func checkJournal(ctx context.Context, x *checker) []finding {
	if x.client.Schema().DisableJournal {
		return sawOK("the schema does without one")
	}
	list, more, err := admin.New(x.client).JournalStreams(ctx, streamsChecked)
	if err != nil {
		return cannot(err)
	}
	return judgeJournal(list, more, x.now())
}

// judgeJournal looks for streams that no worker can read, or works off.
func judgeJournal(list []admin.JournalStream, more bool, now time.Time) (out []finding) {
	left, oldest := 0, time.Duration(0)
	for _, s := range list {
		if s.Corrupt != "" {
			out = append(out, found(levelFailed, "percolator journal ls --stream "+s.ID, "a stream cannot be read, so nothing is collected: %s", s.Corrupt))
		}
		if s.SessionState != admin.SessionEnded || s.Oldest == 0 {
			continue
		}
		if age := now.Sub(s.Oldest.Time()); age > adoptionSlow {
			left, oldest = left+1, max(oldest, age)
		}
	}
	if left > 0 {
		out = append(out, found(levelWarning, "percolator journal ls",
			"streams of dead clients with unfinished work: %d, the oldest of it %s old: is no worker running?", left, cli.BriefAge(oldest)))
	}
	if more {
		out = append(out, notChecked("the streams after the first %d", streamsChecked)...)
	}
	return elseOK(out, "streams: %d, all of them readable and worked off", len(list))
}
