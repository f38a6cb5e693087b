package change

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/cmd/percolator/internal/look"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
)

// waitJSON is how "notify wait" ended, for programs.
type waitJSON struct {
	Idle          bool  `json:"idle"`
	Notifications int64 `json:"notifications"` // left for workers; parked ones do not count
	Locks         int64 `json:"locks"`         // on observed cells that may have committed
	Parked        int   `json:"parked"`        // cells that wait for an operator, counted when the rest is done

	ParkedSince *time.Time `json:"parkedSince,omitempty"` // the first of them
}

func NewNotifyWait() *cobra.Command {
	var f cli.QueryFlags
	cmd := &cobra.Command{
		Use: "wait",
		RunE: f.Run(func(ctx context.Context, cmd *cobra.Command, c *percolator.Client, _ []string) error {
			return waitIdle(ctx, cmd, c, f.Output)
		}),
	}
	f.Add(cmd, cli.DataTimeout)
	return cmd
}

// waitSilence is how old the last look may be that passes for the present: looks come every second.
const waitSilence = 5 * time.Second

func waitIdle(ctx context.Context, cmd *cobra.Command, c *percolator.Client, output cli.Output) error {
	say, end := cli.StatusLine(cmd)
	untaken, asked := "", time.Time{}
	err := observers.WaitIdle(ctx, c, func(r observers.Remaining) {
		if r.Notifications > 0 && time.Since(asked) > waitSilence {
			untaken, asked = look.UntakenColumns(ctx, c), time.Now()
		}
		say(r.String() + untaken)
	})
	end()
	busy, isBusy := errors.AsType[*observers.NotIdleError](err)
	if err != nil && (!isBusy || busy.Failed != nil || busy.CountedAt.IsZero() || !errors.Is(err, context.DeadlineExceeded)) {
		return err
	}
	var left observers.Remaining
	if isBusy {
		left = busy.Left
	}
	out := waitJSON{Idle: err == nil, Notifications: left.Notifications, Locks: left.Locks}
	text := "no notification is left"
	if out.Idle {
		all, parked := look.Parked(ctx, c, time.Now())
		if out.Parked = all.Cells; all.Cells > 0 {
			out.ParkedSince = new(all.Since)
		}
		for _, f := range parked {
			text += "; " + f.Saw
			if f.Remedy != "" {
				text += " (" + f.Remedy + ")"
			}
		}
	} else {
		text = left.String()
		if left == (observers.Remaining{}) {
			text = "nothing is left, but transactions keep writing"
		}
		if silent := time.Since(busy.CountedAt); silent > waitSilence {
			text += fmt.Sprintf(" (%s; the store has not answered since)", cli.Age(time.Now(), busy.CountedAt))
		}
	}
	werr := output.EmitText(cmd.OutOrStdout(), out, text)
	if err != nil && werr == nil {
		return cli.Findings("not everything was done in time%s", untaken)
	}
	return werr
}
