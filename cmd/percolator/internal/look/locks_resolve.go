package look

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// resolvedJSON is what "locks resolve" prints for programs.
type resolvedJSON struct {
	Resolved    []resolvedLock `json:"resolved"`
	More        bool           `json:"more"`        // more were resolved than are listed
	Counts      countsJSON     `json:"counts"`      // of all
	Undecodable []*lockJSON    `json:"undecodable"` // no client can resolve these
}

type resolvedLock struct {
	Lock *lockJSON `json:"lock"`
	// Rolled forward, rolled back, gone or alive; with --dry-run: expected.
	Became string `json:"became"`
}

type countsJSON struct {
	RolledForward int `json:"rolledForward"`
	RolledBack    int `json:"rolledBack"`
	Gone          int `json:"gone"`  // another client was faster
	Alive         int `json:"alive"` // left alone
	Undecodable   int `json:"undecodable"`
}

// resolveFlags are what "locks resolve" is told.
type resolveFlags struct {
	cli.QueryFlags
	opts    admin.LockOptions
	consent cli.Consent
}

// Bounds of a resolution.
const (
	ResolvedAtOnce = 256  // locks that are resolved side by side, and printed in order
	resolvedInJSON = 1000 // locks that the JSON lists; all are counted
	resolvers      = 32
)

func NewLocksResolve() *cobra.Command {
	var f resolveFlags
	cmd := &cobra.Command{
		Use:     "resolve [TABLE [ROW]]",
		PreRunE: func(*cobra.Command, []string) error { return cli.NotNegative("older-than", f.opts.OlderThan) },
		RunE:    f.Run(f.resolve),
	}
	f.Add(cmd, cli.WalkTimeout)
	flags := cmd.Flags()
	flags.DurationVar(&f.opts.OlderThan, "older-than", 0, "only locks of transactions that began this long ago, or longer")
	scanFlag(cmd, &f.opts)
	f.consent.Add(cmd)
	return cmd
}

func (f *resolveFlags) resolve(ctx context.Context, cmd *cobra.Command, c *percolator.Client, args []string) error {
	if f.consent == (cli.Consent{}) {
		n := 0
		for l, err := range f.locks(ctx, c, args) {
			if err != nil {
				return err
			}
			if l.Resolvable() {
				n++
			}
		}
		if err := cli.Ask(ctx, cmd, n == 0, "Resolve %d locks?", n); err != nil {
			return err
		}
	}
	r := resolution{
		c: c, dryRun: f.consent.DryRun, text: cmd.OutOrStdout(), undone: map[tso.Timestamp]bool{},
		found: resolvedJSON{Resolved: []resolvedLock{}, Undecodable: []*lockJSON{}},
	}
	if f.Output.IsJSON() {
		r.text = io.Discard
	}
	err := r.resolveAll(ctx, f.locks(ctx, c, args))
	if err != nil && r.found.Counts == (countsJSON{}) {
		return err
	}
	if perr := f.Output.Emit(cmd.OutOrStdout(), r.found, r.summarize); err == nil {
		err = perr
	}
	return cmp.Or(err, cli.FindingsOf(r.found.Counts.Undecodable, "lock", "%s cannot be decoded"))
}

// locks are those of the tables or the row that were named.
func (f *resolveFlags) locks(ctx context.Context, c *percolator.Client, args []string) iter.Seq2[admin.LockInspection, error] {
	rows := percolator.All()
	if len(args) > 1 {
		rows = percolator.Row(args[1])
	}
	return allLocks(ctx, c, args[:min(1, len(args))], rows, f.opts)
}

// resolution is a running "locks resolve".
type resolution struct {
	c      *percolator.Client
	dryRun bool
	text   io.Writer
	found  resolvedJSON
	batch  []admin.LockInspection // that can be resolved, and were not yet
	undone map[tso.Timestamp]bool // transactions that it has rolled back, by start timestamp
}

// resolveAll resolves what can be resolved, many at a time, and says what became of each, in order.
func (r *resolution) resolveAll(ctx context.Context, locks iter.Seq2[admin.LockInspection, error]) error {
	for l, err := range locks {
		switch {
		case err != nil:
			return errors.Join(err, r.resolve(ctx))
		case l.State == admin.LockStateAlive:
			r.found.Counts.Alive++
		case l.Resolvable():
			if r.batch = append(r.batch, l); len(r.batch) < ResolvedAtOnce {
				continue
			}
			if err := r.resolve(ctx); err != nil {
				return err
			}
		default:
			if err := r.resolve(ctx); err != nil { // first, so that what is printed stays in order
				return err
			}
			r.refuse(l)
		}
	}
	return r.resolve(ctx)
}

// refuse notes a lock that no client can resolve.
func (r *resolution) refuse(l admin.LockInspection) {
	r.found.Counts.Undecodable++
	if len(r.found.Undecodable) < resolvedInJSON {
		r.found.Undecodable = append(r.found.Undecodable, newLockJSON(&l))
	}
	_, _ = fmt.Fprintf(r.text, "undecodable, left alone: %s: %s\n", cli.CellText(l.Cell), cli.OneLine(l.Reason))
}

// resolve resolves the batch.
func (r *resolution) resolve(ctx context.Context) error {
	batch := r.batch
	r.batch = nil
	became := make([]model.Resolution, len(batch))
	errs := make([]error, len(batch))
	var g errgroup.Group
	g.SetLimit(resolvers)
	for i, l := range batch {
		g.Go(func() error {
			if r.dryRun {
				became[i] = expected(l)
			} else {
				became[i], errs[i] = admin.New(r.c).ResolveLock(ctx, l.Lock)
			}
			return nil
		})
	}
	_ = g.Wait() // errors are kept apart: what was done is reported
	for i, l := range batch {
		if became[i] == model.LockRolledBack {
			r.undone[l.StartTS] = true
		}
	}
	for i, l := range batch {
		if became[i] == model.LockGone && l.IsPrimary() && r.undone[l.StartTS] {
			became[i] = model.LockRolledBack // with a secondary, by this very run
		}
		switch {
		case errors.Is(errs[i], percolator.ErrCorrupt):
			l.State, l.Reason = admin.LockStateUndecodable, errs[i].Error()
			r.refuse(l)
			errs[i] = nil
		case errs[i] == nil:
			if err := r.report(l, became[i]); err != nil {
				return err
			}
		}
	}
	return errors.Join(errs...)
}

// expected is what becomes of a lock that is met now.
func expected(l admin.LockInspection) model.Resolution {
	if l.State == admin.LockStateCommitted {
		return model.LockRolledForward
	}
	return model.LockRolledBack
}

func (r *resolution) report(l admin.LockInspection, became model.Resolution) error {
	n := &r.found.Counts
	*map[model.Resolution]*int{
		model.LockRolledForward: &n.RolledForward, model.LockRolledBack: &n.RolledBack, model.LockGone: &n.Gone, model.LockAlive: &n.Alive,
	}[became]++
	if len(r.found.Resolved) < resolvedInJSON {
		r.found.Resolved = append(r.found.Resolved, resolvedLock{newLockJSON(&l), became.String()})
	} else {
		r.found.More = true
	}
	_, err := fmt.Fprintf(r.text, "%s%s: %s (transaction %d)\n", r.would(), became, cli.CellText(l.Cell), l.StartTS)
	return err
}

func (r *resolution) would() string {
	if r.dryRun {
		return "would be "
	}
	return ""
}

func (r *resolution) summarize(w io.Writer) {
	n := r.found.Counts
	would := r.would()
	text := fmt.Sprintf("%d %srolled forward, %d %srolled back", n.RolledForward, would, n.RolledBack, would)
	for _, part := range []struct {
		n    int
		what string
	}{{n.Gone, "gone before"}, {n.Alive, "alive and left alone"}, {n.Undecodable, "undecodable"}} {
		if part.n > 0 {
			text += fmt.Sprintf(", %d %s", part.n, part.what)
		}
	}
	_, _ = fmt.Fprintln(w, text)
}
