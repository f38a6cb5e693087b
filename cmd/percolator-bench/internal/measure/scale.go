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
// and the notifications in it, by one caller that does one operation after the other.
type scaleBenchmark struct {
	// The sizes of the three sweeps, ascending; none: that sweep is left out. Each size is a table of
	// its own, and all tables of a sweep stand in one store, so that sizes take turns.
	Rows, Versions, Notifications []int

	// versionRows is how many rows each table of the sweep over versions has. Those of the sweep over
	// notifications have as many as there are notifications in the largest.
	VersionRows int

	Value   int // bytes of a value
	Samples int // how often each operation is done in each repetition, on each table; a scan of a whole table once
	repeat  int
}

func (b *scaleBenchmark) check() error {
	err := errors.Join(sizes("rows", &b.Rows, scaleLeastRows), sizes("versions", &b.Versions, 1), sizes("notifications", &b.Notifications, 1))
	most := slices.Max(append([]int{0}, b.Versions...))
	return errors.Join(err,
		unless(len(b.Rows)+len(b.Versions)+len(b.Notifications) > 0, "--rows, --versions and --notifications leave nothing to measure"),
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

// run fills all tables first, and begins collections: they wait until nobody acts on what was there
// before, which passes while everything else is measured.
func (b *scaleBenchmark) run(ctx context.Context, r *run) (err error) {
	ctx, cancel := context.WithTimeout(ctx, scaleLimit)
	defer cancel()
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(scaleMemory))
	b.repeat = r.Repeat
	r.Title = fmt.Sprintf("one caller; values of %d bytes, %d times %d samples of each operation", b.Value, b.repeat, b.Samples)
	sweeps := b.sweeps()
	for _, s := range sweeps {
		r.all += len(s.tables) * (1 + b.repeat)
	}
	defer func() {
		for _, s := range sweeps {
			if s.lab != nil {
				s.lab.closeInto(&err)
			}
		}
	}()
	heap := int64(0)
	for _, phase := range []func(*scaleSweep) error{
		func(s *scaleSweep) error { return s.begin(ctx, b, r) },
		func(s *scaleSweep) error { return s.measure(ctx, b, r) },
		func(s *scaleSweep) error { return s.finish(ctx, r) },
	} {
		for _, s := range sweeps {
			if err := phase(s); err != nil {
				return fmt.Errorf("sweep over %s: %w", s.name, err)
			}
		}
		if heap == 0 {
			heap = liveHeap()
			r.Table("memory").Row("all tables, full").Add("in this process, MB", float64(heap)/(1<<20))
		}
	}
	r.Notes = append(r.Notes, "µs: median of the repetitions' medians, and p99 of all samples; "+
		"× smallest: median, least and greatest of the repetitions",
		"requests and rows read: of each operation, or of a pass through the whole table")
	return nil
}

// scaleSweep is a sweep to be measured.
type scaleSweep struct {
	name, fixed string // of what the sizes are; what is the same for all of them
	took        time.Duration
	tables      []*scaleTable
	operations  []scaleKind
	collect     bool

	lab        *scaleLab
	collecting *scaleCollection
	measured   []*scaleOperation
}

// scaleTable is a table of one size.
type scaleTable struct {
	name                          string
	size                          int // which point of the sweep it is
	rows, versions, notifications int

	order         []int          // of rows, at random
	writes, locks int            // how far in it those are
	held          int            // how many rows, in that order, have a cell for locks of the dead
	written       map[int]string // what operations have written
}

func (b *scaleBenchmark) sweeps() (out []*scaleSweep) {
	most := scaleLeastRows // rows of the tables with notifications
	for _, n := range b.Notifications {
		most = max(most, n)
	}
	for _, s := range []struct {
		scaleSweep
		sizes []int
		table func(n int) (rows, versions, notifications int)
	}{
		{scaleSweep{name: "rows", fixed: "1 version, no notifications", collect: true,
			operations: []scaleKind{scaleGet, scaleWrite, scaleScan, scaleIndex, scaleLock, scaleTableScan, scaleSearchRow}},
			b.Rows, func(n int) (int, int, int) { return n, 1, 0 }},
		{scaleSweep{name: "versions", fixed: fmt.Sprintf("%d rows, no notifications", b.VersionRows), collect: true,
			operations: []scaleKind{scaleGet, scaleWrite, scaleScan, scaleLock, scaleTableScan, scaleSearchRow}},
			b.Versions, func(n int) (int, int, int) { return b.VersionRows, n, 0 }},
		{scaleSweep{name: "notifications", fixed: fmt.Sprintf("%d rows, 1 version", most),
			operations: []scaleKind{scaleGet, scaleWrite, scalePage, scaleSearch}},
			b.Notifications, func(n int) (int, int, int) { return most, 1, n }},
	} {
		for _, n := range s.sizes {
			rows, versions, notifications := s.table(n)
			s.tables = append(s.tables, newScaleTable(s.name, n, rows, versions, notifications, b))
		}
		if len(s.sizes) > 0 {
			out = append(out, &s.scaleSweep)
		}
	}
	return out
}

// scaleLeastRows is how many rows a table has at least.
const scaleLeastRows = 100

// lifetime is what requests are given. A search reads through a whole table with one request, and
// collection waits as long as the requests of others may live.
func (s *scaleSweep) lifetime() time.Duration {
	cells := 0
	for _, t := range s.tables {
		cells = max(cells, t.rows*t.versions)
	}
	return min(2*time.Second+time.Duration(cells)*50*time.Microsecond, 30*time.Second)
}

// schema has all tables of the sweep.
func (s *scaleSweep) schema() *percolator.Schema {
	out := &percolator.Schema{Timing: percolator.Timing{RequestLifetime: s.lifetime(), MetaMaxAge: time.Second}}
	for _, t := range s.tables {
		out.Tables = append(out.Tables, percolator.Table{Name: t.name, Observed: []string{scaleSeen},
			Indexes: []percolator.Index{{Name: scaleIndexName, Column: scaleKey}}})
	}
	return out
}

// begin fills the tables and begins to collect.
func (s *scaleSweep) begin(ctx context.Context, b *scaleBenchmark, r *run) (err error) {
	if s.lab, err = newScaleLab(ctx, b, r.emulator, s.schema()); err != nil {
		return err
	}
	r.Emulator = s.lab.emulator
	begun := time.Now()
	for _, t := range s.tables {
		if err := s.lab.fill(ctx, t); err != nil {
			return fmt.Errorf("filling a table of %d: %w", t.size, err)
		}
		r.step()
	}
	s.took = time.Since(begun)
	if s.collect {
		s.collecting, err = s.lab.startCollection(ctx, s.tables)
	}
	return err
}

// measure does every operation on each table in turn.
func (s *scaleSweep) measure(ctx context.Context, b *scaleBenchmark, r *run) error {
	for _, k := range s.operations {
		s.measured = append(s.measured, newScaleOperation(k, s.tables))
	}
	for range b.repeat {
		for i, t := range s.tables {
			for _, op := range s.measured {
				if err := op.repeat(ctx, s.lab, t, op.points[i]); err != nil {
					return fmt.Errorf("%s at %d: %w", op.name, t.size, err)
				}
			}
			r.step()
		}
	}
	return nil
}

// finish collects, and then reads through all tables once more: nothing that anybody reads has been
// removed.
func (s *scaleSweep) finish(ctx context.Context, r *run) error {
	if s.collecting != nil {
		op, err := s.collecting.finish(ctx)
		if err != nil {
			return fmt.Errorf("collection: %w", err)
		}
		s.measured = append(s.measured, op)
	}
	for _, t := range s.tables {
		if err := scaleTableScan.do(ctx, s.lab, t); err != nil {
			return fmt.Errorf("after everything, at %d: %w", t.size, err)
		}
	}
	filled := r.Table("tables").Row(s.name)
	filled.Add("fixed", s.fixed, "cells filled in", s.lab.filled, "within, s", s.took.Seconds(), "answers checked", s.lab.checked)
	chart := report.Chart{Name: "scale-" + s.name, Title: fmt.Sprintf("Cost by %s (%s)", s.name, s.fixed),
		X: report.Axis{Label: s.name, Log: true}, Y: report.Axis{Label: "cost, relative to the smallest", Log: true}}
	for _, op := range s.measured {
		chart.Lines = append(chart.Lines, op.into(r, s.name))
	}
	r.Draw(chart)
	return nil
}
