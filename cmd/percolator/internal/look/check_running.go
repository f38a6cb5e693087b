package look

import (
	"github.com/gopercolator/percolator/percolator/model"

	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/tso"
)

// Checks of what runs: the oracle, transactions, collection and workers.

// clockTolerance is how far timestamps may be from this machine's clock. The oracle's high-water
// mark is ahead by seconds only.
const clockTolerance = time.Minute

func checkOracle(ctx context.Context, x *checker) []finding {
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
	return judgeOracle(ts[0], ts[1], served, x.now())
}

// judgeOracle judges two timestamps, taken one after the other, by one that was handed out before
// and by the clock.
func judgeOracle(first, second, served tso.Timestamp, now time.Time) (out []finding) {
	const raise = "percolator tso raise --to now+1m --fence"
	if second <= first {
		out = append(out, found(levelFailed, raise, "the oracle gave %d and then %d", first, second))
	}
	if first <= served {
		out = append(out, found(levelFailed, raise, "the oracle gave %d, but has handed out %d before: its record went back", first, served))
	}
	if ahead := second.Time().Sub(now); ahead.Abs() > clockTolerance {
		which := "ahead of"
		if ahead < 0 {
			which = "behind"
		}
		out = append(out, found(levelWarning, "percolator tso status", "timestamps are %s %s this machine's clock", cli.BriefAge(ahead.Abs()), which))
	}
	return elseOK(out, "timestamps increase, above %s and close to the clock", servedText(served))
}

func servedText(served tso.Timestamp) string {
	if served == 0 {
		return "0"
	}
	return cli.AtTime(served)
}

// Bounds of the check of locks.
const (
	locksChecked = 100_000 // that are looked at
	locksNamed   = 10      // undecodable ones that are named
)

func checkLocks(ctx context.Context, x *checker) []finding {
	all := allLocks(ctx, x.client, nil, percolator.All(), admin.LockOptions{PendingOptions: admin.PendingOptions{Scan: x.flags.scan}})
	return judgeLocks(all, x.flags.stranded)
}

// judgeLocks finds what is wrong with locks, such as that one stands for more than so many times
// its TTL though nothing keeps it from being resolved.
func judgeLocks(all iter.Seq2[admin.LockInspection, error], ttls int) (out []finding) {
	var seen, stranded, undecodable int
	var oldest time.Duration
	for l, err := range all {
		if err != nil {
			return append(out, cannot(err)...)
		}
		if seen++; seen > locksChecked {
			out = append(out, notChecked("the locks after the first %d", locksChecked)...)
			break
		}
		switch {
		case l.State == admin.LockStateUndecodable:
			if undecodable++; undecodable <= locksNamed {
				out = append(out, found(levelFailed, rowCommand(l.Cell), "the lock of %s cannot be decoded: %s", cli.CellText(l.Cell), l.Reason))
			}
		case l.State == admin.LockStateAlive && l.Overdue() < -2*l.TTL:
			out = append(out, found(levelFailed, rowCommand(l.Cell),
				"the lock of %s says that it was placed in the future: no client will resolve it before %s", cli.CellText(l.Cell), l.Expires.Time().Format(time.RFC3339)))
		case l.Resolvable() && l.Overdue() > time.Duration(ttls-1)*l.TTL:
			stranded++
			oldest = max(oldest, l.Age)
		}
	}
	if undecodable > locksNamed {
		out = append(out, found(levelFailed, "percolator locks ls", "%d more locks cannot be decoded", undecodable-locksNamed))
	}
	if stranded > 0 {
		out = append(out, found(levelWarning, "percolator locks resolve",
			"%d locks of transactions that are over stand for more than %d times their TTL, the oldest began %s ago: is no worker running?",
			stranded, ttls, cli.BriefAge(oldest)))
	}
	return elseOK(out, "locks: %d, none of them stranded", seen)
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

// How many times the retention the safepoint may lie back: a cycle begins every twelfth of it.
const (
	collectionSlow  = 2
	collectionStuck = 10
)

func checkCollection(ctx context.Context, x *checker) []finding {
	b, err := admin.New(x.client).CollectionBounds(ctx)
	if err != nil {
		return cannot(err)
	}
	col, err := admin.New(x.client).Collection(ctx)
	if err != nil {
		return []finding{found(levelFailed, "percolator gc status", "%s", cli.ShortError(err))}
	}
	return judgeCollection(b, col)
}

func judgeCollection(b admin.CollectionBounds, col admin.Collection) (out []finding) {
	if col.Corrupt > 0 {
		out = append(out, found(levelWarning, "percolator gc status", "the last cycle met %d cells that it could not decode", col.Corrupt))
	}
	if b.Safepoint == 0 {
		return append(out, found(levelWarning, "percolator gc run",
			"nothing has ever been collected: workers do that, within a twelfth of the retention"))
	}
	back := b.Now.Sub(b.Safepoint)
	about := fmt.Sprintf("the safepoint is %s back, for a retention of %s", cli.BriefAge(back), b.Retention)
	// Collectors announce collection again and again, and never finish.
	if b.Watermark > 0 && b.Now.Sub(b.Watermark) > collectionSlow*b.Retention {
		back = b.Now.Sub(b.Watermark)
		about = fmt.Sprintf("what is %s old has not been collected, for a retention of %s", cli.BriefAge(back), b.Retention)
	}
	held := b.HeldBy != nil && b.HeldBy.Timestamp <= b.Safepoint.Add(time.Second)
	remedy, level := "percolator gc run", levelOK
	switch {
	case back > collectionStuck*b.Retention:
		level = levelFailed
	case back > collectionSlow*b.Retention:
		level = levelWarning
	}
	if held {
		remedy, about = "percolator gc hold ls", about+", held by "+b.HeldBy.ID
		if level == levelFailed {
			level = levelWarning // on purpose, but the store grows
		} else {
			level = levelOK
		}
	}
	if level == levelOK {
		return append(out, finding{Level: levelOK, Saw: about})
	}
	return append(out, found(level, remedy, "%s", about))
}

func checkWorkers(ctx context.Context, x *checker) []finding {
	live, err := RunningWorkers(ctx, x.client)
	if err != nil {
		return cannot(err)
	}
	return judgeWorkers(live)
}

// RunningWorkers are the workers that announce themselves, which those with
// observers.Config.Partition do, and those that only report.
func RunningWorkers(ctx context.Context, c *percolator.Client) ([]model.WorkerInfo, error) {
	seen, err := admin.New(c).Workers(ctx)
	if err != nil {
		return nil, err
	}
	reports, err := admin.New(c).Reports(ctx)
	if err != nil {
		return nil, err
	}
	live := seen.Live
	for _, r := range reports {
		if r.HasWorker() && !slices.ContainsFunc(seen.Live, func(w model.WorkerInfo) bool { return w.Name == r.Name }) {
			live = append(live, model.WorkerInfo{Name: r.Name, Version: r.Version, Started: r.Started, Expires: r.Expires,
				Observers: slices.Sorted(maps.Keys(r.Worker.Observers)), Columns: r.Worker.Columns, Takes: r.Worker.Takes})
		}
	}
	return live, nil
}

// judgeWorkers looks for disagreement, which is normal only while a new version is being rolled
// out.
func judgeWorkers(live []model.WorkerInfo) (out []finding) {
	versions := map[string]int{}
	sets := map[string]map[string]bool{} // of observers, by the columns that are taken
	for _, w := range live {
		versions[cli.OneLine(w.Version)]++
		if w.Columns == "" {
			continue // it does not say what it takes
		}
		if sets[w.Columns] == nil {
			sets[w.Columns] = map[string]bool{}
		}
		sets[w.Columns][strings.Join(slices.Sorted(slices.Values(w.Observers)), ", ")] = true
	}
	const ls = "percolator workers ls"
	if len(versions) > 1 {
		var each []string
		for _, v := range slices.Sorted(maps.Keys(versions)) {
			each = append(each, fmt.Sprintf("%s: %d", v, versions[v]))
		}
		out = append(out, found(levelWarning, ls, "workers of different versions (%s)", strings.Join(each, ", ")))
	}
	for _, columns := range slices.Sorted(maps.Keys(sets)) {
		if len(sets[columns]) > 1 {
			out = append(out, found(levelWarning, ls, "workers of the same columns have different observers (%s)",
				strings.Join(slices.Sorted(maps.Keys(sets[columns])), " | ")))
		}
	}
	return elseOK(out, "workers: %d, in agreement", len(live))
}

func checkObservers(ctx context.Context, x *checker) []finding {
	live, err := RunningWorkers(ctx, x.client)
	if err != nil {
		return cannot(err)
	}
	return judgeObservers(x.client.Schema(), live)
}

// judgeObservers looks for columns whose notifications pile up. It has one finding for all of a
// table: a queue has a column for each of its parts.
func judgeObservers(s *percolator.Schema, live []model.WorkerInfo) (out []finding) {
	n := 0
	for _, t := range s.Tables {
		var waiting, unsure []string
		for _, column := range slices.Concat(t.Observed, t.Weak) {
			n++
			taken, silent := false, false
			for _, w := range live {
				takes, known := w.TakesColumn(t.Name, column)
				taken, silent = taken || takes, silent || !known
			}
			switch {
			case taken:
			case silent:
				unsure = append(unsure, cli.Shown(column))
			default:
				waiting = append(waiting, cli.Shown(column))
			}
		}
		if len(unsure) > 0 {
			out = append(out, notChecked("%s: some workers do not say which columns they take", columnsOf(t.Name, unsure))...)
		}
		if len(waiting) > 0 {
			out = append(out, found(levelWarning, "percolator notify ls "+t.Name, "no worker takes %s: notifications wait", columnsOf(t.Name, waiting)))
		}
	}
	return elseOK(out, "columns: %d, each has a worker", n)
}

// UntakenColumns says which columns no worker takes, as far as is known.
func UntakenColumns(ctx context.Context, c *percolator.Client) (text string) {
	live, err := RunningWorkers(ctx, c)
	if err != nil {
		return ""
	}
	for _, f := range judgeObservers(c.Schema(), live) {
		if f.Level == levelWarning {
			text += "; " + f.Saw
		}
	}
	return text
}

// columnsNamed is how many columns of a table a finding names.
const columnsNamed = 3

func columnsOf(table string, columns []string) string {
	if len(columns) == 1 {
		return fmt.Sprintf("the column %s of %s", columns[0], table)
	}
	named := strings.Join(columns[:min(len(columns), columnsNamed)], ", ")
	if len(columns) > columnsNamed {
		named += ", …"
	}
	return fmt.Sprintf("%d columns of %s (%s)", len(columns), table, named)
}
