package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/percolator"
)

// WatchFlag has a list printed again and again.
type WatchFlag struct{ every time.Duration }

// watchEvery is the pause of --watch without a value.
const watchEvery = 2 * time.Second

// Add adds --watch.
func (f *WatchFlag) Add(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&f.every, "watch", 0, "print again after this pause, until interrupted; on a terminal in place of the earlier output")
	cmd.Flags().Lookup("watch").NoOptDefVal = watchEvery.String()
	args := cmd.Args
	if args == nil {
		args = countArgs
	}
	cmd.Args = func(cmd *cobra.Command, given []string) error {
		for _, arg := range given { // pflag takes it for an argument, as the value may be left out
			if _, err := time.ParseDuration(arg); err == nil && cmd.Flags().Changed("watch") {
				return Usagef("--watch takes its pause with an equals sign: --watch=%s", arg)
			}
		}
		return args(cmd, given)
	}
}

// Applied is list, or again of it with --watch, for which timeout is longer unless it is given.
func (f *WatchFlag) Applied(cmd *cobra.Command, list action, timeout *time.Duration) (action, error) {
	if err := NotNegative("watch", f.every); err != nil || f.every == 0 {
		return list, err
	}
	if !cmd.Flags().Changed("timeout") {
		*timeout = WalkTimeout
	}
	return f.again(list), nil
}

// again lists until ctx ends. Once it has listed, an error is shown in place of a list: a store
// that pauses, or an oracle that moves, will answer again.
func (f *WatchFlag) again(list action) action {
	return func(ctx context.Context, cmd *cobra.Command, c *percolator.Client, args []string) error {
		for listed := false; ; listed = true {
			if Terminal(cmd.OutOrStdout()) != nil {
				_, _ = fmt.Fprint(cmd.OutOrStdout(), "\x1b[H\x1b[2J")
			}
			if err := list(ctx, cmd, c, args); err != nil && (ctx.Err() == nil || !listed) {
				if !listed || ExitCode(err) != ExitUnavailable {
					return err
				}
				printError(cmd.ErrOrStderr(), err)
			}
			if Sleep(ctx, f.every) != nil {
				return nil
			}
		}
	}
}

// ListFlags are those of a command that lists what there is now.
type ListFlags struct {
	QueryFlags
	watch WatchFlag
}

// Add adds the flags, as DataFlags.Add.
func (f *ListFlags) Add(cmd *cobra.Command, timeout time.Duration) {
	f.QueryFlags.Add(cmd, timeout)
	f.watch.Add(cmd)
}

// Run is the RunE of such a command. --timeout bounds one list, or all of them if it is given.
func (f *ListFlags) Run(list action, configure ...func(*percolator.Config)) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		list, err := f.watch.Applied(cmd, list, &f.Oracle.Timeout)
		if err != nil {
			return err
		}
		return f.QueryFlags.Run(list, configure...)(cmd, args)
	}
}
