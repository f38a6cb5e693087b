package oracle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/internal/catalog/values"
	"github.com/gopercolator/percolator/tso"
)

// raiseFlags are the flags of "tso raise".
type raiseFlags struct {
	store StoreFlags

	to                  string
	fence, far, damaged bool
	timeout             time.Duration
}

// farAhead is how far ahead of the clock a mark may be raised without --far.
const farAhead = time.Hour

func NewRaise() *cobra.Command {
	var f raiseFlags
	cmd := &cobra.Command{
		Use: "raise",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.store.Choose(cmd); err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), f.timeout)
			defer cancel()
			return cli.Advise(raise(ctx, cmd, f))
		},
	}
	f.store.Add(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.to, "to", "", `"now", "now+DURATION", a time such as 2026-06-01T12:00:00Z, or a timestamp`)
	flags.BoolVar(&f.fence, "fence", false, "raise while a server leads; it stops leading")
	flags.BoolVar(&f.damaged, "replace-damaged", false, "replace a damaged or missing record; all servers must be stopped")
	flags.BoolVar(&f.far, "far", false, "raise to more than an hour ahead of this machine's clock")
	flags.DurationVar(&f.timeout, "timeout", time.Minute, "how long it may take; longer than the lease")
	return cmd
}

// ParseMark reads --to at the given time.
func ParseMark(text string, now time.Time) (tso.Timestamp, error) {
	if rest, ok := strings.CutPrefix(text, "now"); ok {
		if rest == "" {
			return tso.At(now), nil
		}
		if later, err := time.ParseDuration(rest); err == nil && strings.HasPrefix(rest, "+") {
			return tso.At(now.Add(later)), nil
		}
	}
	if at, err := values.ParseTime(time.RFC3339Nano, text); err == nil {
		return tso.At(at), nil
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n > 0 && tso.Timestamp(n) <= tso.MaxTimestamp {
		return tso.Timestamp(n), nil
	}
	return 0, cli.Usagef(`--to %q is not "now", "now+DURATION", a time or a timestamp`, text)
}

func raise(ctx context.Context, cmd *cobra.Command, f raiseFlags) (err error) {
	to, err := ParseMark(f.to, time.Now())
	if err != nil {
		return err
	}
	if ahead := to.Sub(tso.At(time.Now())); ahead > farAhead && !f.far {
		return cli.Usagef("--to is %v ahead of this machine's clock: that needs --far, and cannot be taken back", ahead.Round(time.Second))
	}
	if behind := tso.At(time.Now()).Sub(to); f.damaged && behind > time.Minute {
		return cli.Usagef("--to is %v before this machine's clock: whatever is left of the record, timestamps have been handed out since", behind.Round(time.Second))
	}
	store, closeStore, err := f.store.Open(ctx, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeStore()) }()
	if err := f.permits(ctx, store, to); err != nil {
		return err
	}
	if err := tso.Raise(ctx, store, to); err != nil {
		return err
	}
	st, err := store.Load(ctx)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "the high-water mark of oracle %q is %d (%s)\n",
		f.store.Name, st.HighWater, st.HighWater.Time().Format(time.RFC3339Nano))
	return err
}

// permits returns an error if what the store holds is not to be replaced without a flag
// that was not given.
func (f *raiseFlags) permits(ctx context.Context, store tso.Store, to tso.Timestamp) error {
	st, err := store.Load(ctx)
	switch {
	case errors.Is(err, tso.ErrCorrupt) && f.damaged:
		return nil
	case err != nil:
		return err
	case st == tso.State{} && !f.damaged:
		return tso.ErrNoRecord
	case st.HighWater > to:
		return cli.Usagef("the mark is %d (%s) already, above %d; it cannot be lowered",
			st.HighWater, st.HighWater.Time().Format(time.RFC3339Nano), to)
	case st.Holder == "" || f.fence:
		return nil
	}
	return f.awaitEnd(ctx, store, st)
}

// awaitEnd returns nil if the lease in st runs out without being renewed: its holder is
// dead.
func (f *raiseFlags) awaitEnd(ctx context.Context, store tso.Store, st tso.State) error {
	if err := cli.Sleep(ctx, st.Lease); err != nil {
		return fmt.Errorf("waiting to see whether the server at %s renews its lease: %w; give --timeout more than the lease", dash(st.Address), err)
	}
	later, err := store.Load(ctx)
	if err != nil {
		return err
	}
	if later != st && later.Holder != "" {
		return fmt.Errorf("the server at %s leads: stop the servers, or use --fence", dash(later.Address))
	}
	return nil
}
