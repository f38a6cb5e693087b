package look

import (
	"context"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/internal/health"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// Checks of what runs: the oracle, transactions, collection and workers.

func checkOracle(ctx context.Context, x *checker) []health.Finding {
	var ts [2]tso.Timestamp
	for i := range ts {
		var err error
		if ts[i], err = admin.New(x.client).Oracle().Next(ctx); err != nil {
			return cannot(err)
		}
	}
	d := x.flags
	served, err := admin.Instance{Project: d.Project, ID: d.Instance, AppProfile: d.AppProfile, Options: cli.BigtableOptions(ctx)}.ServedTimestamp(ctx)
	if err != nil {
		return cannot(err)
	}
	return health.Timestamps(ts[0], ts[1], served, x.now())
}

// Bounds of the check of locks.
const (
	locksChecked = 100_000 // that are looked at
	locksNamed   = 10      // undecodable ones that are named
)

func checkLocks(ctx context.Context, x *checker) []health.Finding {
	all := allLocks(ctx, x.client, nil, percolator.All(), admin.LockOptions{PendingOptions: admin.PendingOptions{Scan: x.flags.scan}})
	return judgeLocks(all, x.flags.stranded)
}

// judgeLocks finds what is wrong with locks, such as that one stands for more than so many times
// its TTL though nothing keeps it from being resolved.
func judgeLocks(all iter.Seq2[admin.LockInspection, error], ttls int) (out []health.Finding) {
	var seen, stranded, undecodable int
	var oldest time.Duration
	for l, err := range all {
		if err != nil {
			return append(out, cannot(err)...)
		}
		if seen++; seen > locksChecked {
			out = append(out, health.Unchecked("the locks after the first %d", locksChecked)...)
			break
		}
		switch {
		case l.State == admin.LockStateUndecodable:
			if undecodable++; undecodable <= locksNamed {
				out = append(out, health.Found(health.Failed, rowCommand(l.Cell), "the lock of %s cannot be decoded: %s", cli.CellText(l.Cell), l.Reason))
			}
		case l.State == admin.LockStateAlive && l.Overdue() < -2*l.TTL:
			out = append(out, health.Found(health.Failed, rowCommand(l.Cell),
				"the lock of %s says that it was placed in the future: no client will resolve it before %s", cli.CellText(l.Cell), l.Expires.Time().Format(time.RFC3339)))
		case l.Resolvable() && l.Overdue() > health.StrandedAfter(l.TTL, ttls):
			stranded++
			oldest = max(oldest, l.Overdue()+l.TTL)
		}
	}
	if undecodable > locksNamed {
		out = append(out, health.Found(health.Failed, "percolator locks ls", "%d more locks cannot be decoded", undecodable-locksNamed))
	}
	if stranded > 0 {
		out = append(out, health.StrandedLocks(stranded, ttls, oldest))
	}
	return health.ElseFine(out, "locks: %d, none of them stranded", seen)
}

func rowCommand(c percolator.Cell) string {
	if strings.HasPrefix(c.Row, "-") { // it would be taken for a flag
		c.Table = "-- " + c.Table
	}
	return "percolator row " + c.Table + " " + quoted(c.Row)
}

// quoted is an argument for a shell.
func quoted(key string) string {
	text := cli.Shown(key)
	if strings.ContainsFunc(text, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-:@%+=,", r)
	}) {
		return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
	}
	return text
}

func checkCollection(ctx context.Context, x *checker) []health.Finding {
	b, err := admin.New(x.client).CollectionBounds(ctx)
	if err != nil {
		return cannot(err)
	}
	col, err := admin.New(x.client).Collection(ctx)
	if err != nil {
		return []health.Finding{health.Found(health.Failed, "percolator gc status", "%s", cli.ShortError(err))}
	}
	return health.Collection{Now: b.Now, Safepoint: b.Safepoint, Watermark: b.Watermark, Retention: b.Retention, HeldBy: b.HeldBy, Corrupt: col.Corrupt}.Findings()
}

// running is what workers say of themselves.
type running struct {
	workers []model.WorkerInfo
	reports []model.Report
}

func askRunning(ctx context.Context, c *percolator.Client) (r running, err error) {
	seen, err := admin.New(c).Workers(ctx)
	if err == nil {
		r.reports, err = admin.New(c).Reports(ctx)
	}
	r.workers = health.Running(seen.Live, r.reports)
	return r, err
}

// RunningWorkers are the workers that run.
func RunningWorkers(ctx context.Context, c *percolator.Client) ([]model.WorkerInfo, error) {
	r, err := askRunning(ctx, c)
	return r.workers, err
}

func checkWorkers(_ context.Context, x *checker) []health.Finding {
	r, err := x.running()
	if err != nil {
		return cannot(err)
	}
	return health.ElseFine(slices.Concat(health.Agreement(r.workers), health.Overloaded(r.reports)), "workers: %d, in agreement", len(r.workers))
}

func checkObservers(ctx context.Context, x *checker) []health.Finding {
	r, err := x.running()
	if err != nil {
		return cannot(err)
	}
	_, parked := Parked(ctx, x.client, x.now())
	out := slices.Concat(health.Untaken(x.client.Schema(), r.workers), health.Backlog(health.OldestReported(r.reports)), health.Overdue(r.reports), parked)
	n := 0
	for _, t := range x.client.Schema().Tables {
		n += len(t.Observed) + len(t.Weak)
	}
	return health.ElseFine(out, "columns: %d, each has a worker", n)
}

// UntakenColumns says which columns no worker takes, as far as is known.
func UntakenColumns(ctx context.Context, c *percolator.Client) (text string) {
	live, err := RunningWorkers(ctx, c)
	if err != nil {
		return ""
	}
	for _, f := range health.Untaken(c.Schema(), live) {
		if f.Level == health.Warning {
			text += "; " + f.Saw
		}
	}
	return text
}
