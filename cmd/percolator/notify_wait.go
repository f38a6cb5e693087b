package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
)

// waitJSON is how "notify wait" ended, for programs.
type waitJSON struct {
	Idle          bool  `json:"idle"`
	Notifications int64 `json:"notifications"` // left for workers; parked ones do not count
	Locks         int64 `json:"locks"`         // under which an observed cell may have been committed
}

func newNotifyWait() *cobra.Command {
	var f dataFlags
	var output outputFlag
	cmd := &cobra.Command{
		Use:   "wait",
		Short: "Wait until the workers have nothing left to do",
		Long: `Wait until no notification is left that a worker has to deal with, and no lock under which
an observed cell may have been committed. Cells whose observers are parked do not count.
While transactions keep writing it does not end. It looks at all tables of the schema, at
most once a second, and some worker has to run.

After --timeout it says what is left, and the exit status is 5.`,
		Example: `  percolator notify wait --timeout 10m && percolator scan documents
  percolator notify wait -o json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := output.check(); err != nil {
				return err
			}
			return f.with(cmd, func(ctx context.Context, c *percolator.Client) error { return waitIdle(ctx, cmd, c, output) })
		},
	}
	f.add(cmd, defaultDataTimeout)
	output.add(cmd)
	return cmd
}

func waitIdle(ctx context.Context, cmd *cobra.Command, c *percolator.Client, output outputFlag) error {
	say, end := statusLine(cmd)
	var left observers.Remaining
	looked := false
	err := observers.WaitIdle(ctx, c, func(r observers.Remaining) {
		left, looked = r, true
		say(r.String())
	})
	end()
	if err != nil && !(looked && errors.Is(err, context.DeadlineExceeded)) {
		return err
	}
	out := waitJSON{err == nil, left.Notifications, left.Locks}
	if out.Idle {
		out.Notifications, out.Locks = 0, 0
	}
	werr := output.emit(cmd.OutOrStdout(), out, func(w io.Writer) error {
		text := "no notification is left"
		if !out.Idle {
			text = left.String()
			if left == (observers.Remaining{}) {
				text = "nothing is left, but transactions keep writing"
			}
		}
		_, err := fmt.Fprintln(w, text)
		return err
	})
	if err != nil && werr == nil {
		return errFindings
	}
	return werr
}
