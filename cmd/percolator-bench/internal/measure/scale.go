package measure

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/report"
	"github.com/gopercolator/percolator/percolator"
)

// scaleBenchmark measures the growth of costs: with the rows of a table, the versions of its cells,
// the rows that changed since the last collection, and the notifications, by one caller that does
// one operation after the other.
type scaleBenchmark struct {
	// The sizes of the four sweeps, ascending; none: that sweep is left out. Each size is a table
	// in a store of its own, and sizes take turns.
	Rows, Versions, Changes, Notifications []int

	// VersionRows is how many rows each table of the sweep over versions has. Those of the sweeps
	// over changes and notifications have as many as the largest has of these.
	VersionRows int

	Value   int // bytes of a value
	Samples int // operations of each kind in each repetition and table; one whole scan
	repeat  int
}

func (b *scaleBenchmark) check() error {
	err := errors.Join(sizes("rows", &b.Rows, scaleLeastRows), sizes("versions", &b.Versions, 1),
		sizes("changes", &b.Changes, 1), sizes("notifications", &b.Notifications, 1))
	most := slices.Max(append([]int{0}, b.Versions...))
	return errors.Join(err,
		unless(len(b.Rows)+len(b.Versions)+len(b.Changes)+len(b.Notifications) > 0,
			"--rows, --versions, --changes and --notifications leave nothing to measure"),
		unless(b.VersionRows*most <= 10_000_000, "--version-rows %d with --versions %d are more than 10,000,000 versions", b.VersionRows, most))
}

// sizes refuses a list that does not ascend from least on; 0 alone is none.
func sizes(name string, list *[]int, least int) error {
	if slices.Equal(*list, []int{0}) {
		*list = nil
		return nil
	}
	return errors.Join(unless(slices.Min(*list) >= least, "--%s %v begin below %d", name, *list, least), ascending(name, *list))
}

// scaleLimit bounds all of it.
const scaleLimit = 2 * time.Hour

// scaleMemory is what this process holds at most, as long as what lives is less: its tables live
// long, and without a limit the collector of garbage lets as much of that gather beside them.
const scaleMemory = 7 << 30

// run fills all tables first, and collects when everything else has been measured.
func (b *scaleBenchmark) run(ctx context.Context, r *run) (err error) {
	ctx, cancel := context.WithTimeout(ctx, scaleLimit)
	defer cancel()
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(scaleMemory))
	b.repeat = r.Repeat
	r.Title = fmt.Sprintf("one caller; values of %d bytes, %d times %d samples of each operation", b.Value, b.repeat, b.Samples)
	r.all = (len(b.Rows) + len(b.Versions) + len(b.Changes) + len(b.Notifications)) * (1 + b.repeat)
	r.Notes = []string{"µs: median of the repetitions' medians, and p99 of all samples; " +
		"× smallest: median, least and greatest of the repetitions",
		"requests and rows read: of each operation, or of a pass through the whole table; of a collection, those to the table"}
	var labs environment // that are open
	defer labs.closeInto(&err)
	sweeps := b.sweeps(r.mode)
	for i, phase := range []func(*scaleSweep) error{
		func(s *scaleSweep) error { return s.begin(ctx, b, r, &labs) },
		func(s *scaleSweep) error { return s.measure(ctx, b, r) },
		func(s *scaleSweep) error { return s.finish(ctx, r) },
	} {
		for _, s := range sweeps {
			if err := phase(s); err != nil {
				return fmt.Errorf("sweep over %s: %w", s.name, err)
			}
		}
		if i == 0 {
			r.Table("memory").Row(r.mode.named("all tables, full")).Add("in this process, MB", float64(liveHeap())/(1<<20))
		}
	}
	return nil
}

// scaleSweep is a sweep to be measured.
type scaleSweep struct {
	name, fixed string // of what the sizes are; what is the same for all of them
	took        time.Duration
	tables      []*scaleTable
	operations  []scaleKind
	collect     bool

	measured []*scaleOperation
}

// scaleTable is a table of one size.
type scaleTable struct {
	name           string
	size           int // which point of the sweep it is
	rows, versions int
	changes        int // rows that transactions overwrite before a collection
	notifications  int
	journal        journal
	lab            *scaleLab

	order         []int          // of rows, at random
	writes, locks int            // how far in it those are
	held          int            // how many rows, in that order, have a cell for locks of the dead
	written       map[int]string // what operations have written
}

// scaleChanges is how many rows are overwritten where their number is not what changes, if the
// smallest table has as many.
const scaleChanges = 1000

func (b *scaleBenchmark) sweeps(j journal) (out []*scaleSweep) {
	most := func(list []int) int { return slices.Max(append(list[:len(list):len(list)], scaleLeastRows)) }
	changes := scaleChanges
	if len(b.Rows) > 0 {
		changes = min(changes, b.Rows[0])
	}
	for _, s := range []struct {
		scaleSweep
		sizes []int
		table func(n int) scaleTable
	}{
		{scaleSweep{name: "rows", fixed: fmt.Sprintf("1 version, %d rows changed, no notifications", changes), collect: true,
			operations: []scaleKind{scaleSearch, scaleWait, scaleGet, scaleWrite, scaleScan, scaleIndex, scaleLock, scaleTableScan}},
			b.Rows, func(n int) scaleTable { return scaleTable{rows: n, versions: 1, changes: changes} }},
		{scaleSweep{name: "versions", fixed: fmt.Sprintf("%d rows, all of them changed, no notifications", b.VersionRows), collect: true,
			operations: []scaleKind{scaleSearch, scaleWait, scaleGet, scaleWrite, scaleScan, scaleLock, scaleTableScan}},
			b.Versions, func(n int) scaleTable { return scaleTable{rows: b.VersionRows, versions: n, changes: b.VersionRows} }},
		{scaleSweep{name: "changes", fixed: fmt.Sprintf("%d rows, 1 version, no notifications", most(b.Changes)), collect: true,
			operations: []scaleKind{scaleSearch, scaleWait, scaleGet, scaleWrite}},
			b.Changes, func(n int) scaleTable { return scaleTable{rows: most(b.Changes), versions: 1, changes: n} }},
		{scaleSweep{name: "notifications", fixed: fmt.Sprintf("%d rows, 1 version", most(b.Notifications)),
			operations: []scaleKind{scaleGet, scaleWrite, scalePage, scaleSearch}},
			b.Notifications, func(n int) scaleTable { return scaleTable{rows: most(b.Notifications), versions: 1, notifications: n} }},
	} {
		for _, n := range s.sizes {
			s.tables = append(s.tables, s.table(n).ready(s.name, n, j, b))
		}
		if len(s.sizes) > 0 {
			out = append(out, &s.scaleSweep)
		}
	}
	return out
}

// scaleLeastRows is how many rows a table has at least.
const scaleLeastRows = 100

// schema gives requests time: before the emulator answers a scan of a whole table it gathers and
// sorts the rows.
func (t *scaleTable) schema() *percolator.Schema {
	lifetime := min(2*time.Second+time.Duration(t.rows*t.versions)*50*time.Microsecond, 30*time.Second)
	return &percolator.Schema{
		Timing:         percolator.Timing{RequestLifetime: lifetime, MetaMaxAge: lifetime},
		DisableJournal: t.journal.off(),
		Tables: []percolator.Table{{Name: t.name, Observed: []string{scaleSeen},
			Indexes: []percolator.Index{{Name: scaleIndexName, Column: scaleKey}}}},
	}
}

// begin fills the tables.
func (s *scaleSweep) begin(ctx context.Context, b *scaleBenchmark, r *run, labs *environment) (err error) {
	started := time.Now()
	for _, t := range s.tables {
		if t.lab, err = newScaleLab(ctx, b, r.emulator, t); err != nil {
			return err
		}
		r.Emulator, labs.closers = t.lab.emulator, append(labs.closers, t.lab.close)
		if err = t.lab.fill(ctx, t); err != nil {
			return fmt.Errorf("filling a table of %d: %w", t.size, err)
		}
		r.step()
	}
	s.took = time.Since(started)
	return nil
}

// measure does every operation on each table in turn.
func (s *scaleSweep) measure(ctx context.Context, b *scaleBenchmark, r *run) error {
	for _, k := range s.operations {
		s.measured = append(s.measured, newScaleOperation(k, s.tables))
	}
	for range b.repeat {
		for i, t := range s.tables {
			for _, op := range s.measured {
				if err := op.repeat(ctx, t, op.points[i]); err != nil {
					return fmt.Errorf("%s at %d: %w", op.name, t.size, err)
				}
			}
			r.step()
		}
	}
	return nil
}

// finish collects, and then reads through all tables once more: nothing readable has been
// removed.
func (s *scaleSweep) finish(ctx context.Context, r *run) error {
	if s.collect {
		s.measured = append(s.measured, newScaleOperation(scaleCollect, s.tables))
	}
	filled, checked := int64(0), int64(0)
	for i, t := range s.tables {
		if s.collect {
			if err := t.lab.collect(ctx, t, s.measured[len(s.measured)-1].points[i]); err != nil {
				return fmt.Errorf("collection at %d: %w", t.size, err)
			}
		}
		if err := scaleTableScan.do(ctx, t.lab, t); err != nil {
			return fmt.Errorf("after everything, at %d: %w", t.size, err)
		}
		filled, checked = filled+t.lab.filled, checked+t.lab.checked
	}
	name := r.mode.named(s.name)
	r.Table("tables").Row(name).Add("fixed", s.fixed, "cells filled in", filled, "within, s", s.took.Seconds(), "answers checked", checked)
	chart := report.Chart{Name: "scale-" + s.name, Title: fmt.Sprintf("Cost by %s (%s)", s.name, s.fixed),
		X: report.Axis{Label: s.name, Log: true}, Y: report.Axis{Label: "cost, relative to the smallest", Log: true}}
	for _, op := range s.measured {
		chart.Lines = append(chart.Lines, op.into(r, s.name, name))
	}
	r.Draw(r.mode.chart(chart))
	return nil
}
