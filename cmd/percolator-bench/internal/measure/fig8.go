package measure

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/report"
)

// fig8Benchmark compares the library with raw requests to the same store, as in Figure 8 of the
// paper. Every goroutine has its own share of the rows, spread over the table, and goes round it in
// a random order: no two goroutines meet in a row, and none meets its own last writes.
type fig8Benchmark struct {
	Goroutines  []int    // for each of them everything is measured
	Only        []string // comparisons; none: all
	Rows, Value int      // of each table; bytes of a value

	// slice is how long one side is measured before it is the other's turn, duration how long one
	// repetition of a ratio takes, both sides together.
	Slice, Duration time.Duration
}

func (b *fig8Benchmark) check() error {
	most := slices.Max(b.Goroutines)
	return unless(b.Rows >= fig8SnapshotGets*most, "--rows %d are fewer than %d for each of %d --goroutines", b.Rows, fig8SnapshotGets, most)
}

func (b *fig8Benchmark) run(ctx context.Context, r *run) (err error) {
	lab, err := startFig8(ctx, b, r.emulator)
	if err != nil {
		return err
	}
	defer lab.closeInto(&err)
	r.Emulator = lab.emulator
	r.Title = fmt.Sprintf("operations of transactions against raw requests; %d rows, values of %d bytes, slices of %v, %d times %v of each",
		b.Rows, b.Value, b.Slice, r.Repeat, b.Duration)
	var trials []*fig8Trial
	for _, kind := range lab.kinds() {
		for _, goroutines := range b.Goroutines {
			if len(b.Only) == 0 || slices.Contains(b.Only, kind.name) {
				trials = append(trials, &fig8Trial{fig8Kind: kind, goroutines: goroutines})
			}
		}
	}
	r.all = r.Repeat * len(trials)
	for range r.Repeat {
		for _, t := range trials {
			runtime.GC() // before each repetition, never between slices
			if err := t.repeat(ctx, b); err != nil {
				return fmt.Errorf("%s with %d goroutines: %w", t.name, t.goroutines, err)
			}
			r.step()
		}
	}
	for _, t := range trials {
		t.into(r.Table("fig8").Row(fig8Row(t.name, t.goroutines)), r.Table("costs").Row(fig8Row(t.name, t.goroutines)))
	}
	b.draw(r, trials)
	whose := "the client's and the oracle's"
	if r.emulator == embeddedEmulator {
		whose += ", and the emulator's"
	}
	r.Notes = append(r.Notes, "ratio: median of neighbouring slices; overall: all operations by all time; by CPU: CPU time of raw by ours",
		"an operation of rows10 is ten rows on both sides",
		fmt.Sprintf("get: a snapshot, got from the oracle in this process, for each %d Gets; CPU and allocations are %s",
			fig8SnapshotGets, whose))
	return nil
}

// fig8Row is the row of a comparison in the report.
func fig8Row(name string, goroutines int) string { return fmt.Sprintf("%s, %d", name, goroutines) }

// into fills a row of the comparison and one of what it costs. ratio is ours by raw: of each
// repetition the median of the pairs of neighbouring slices; overall that of all operations by all
// time of a repetition, in which slices that were slow weigh as much as they took. by CPU is what
// the ratio tends to where processors are the limit and the emulator runs in this process; 0: not
// known.
func (t *fig8Trial) into(row, costs *report.Row) {
	row.Add("comparison", t.name, "against", t.raw.label, "goroutines", t.goroutines, "ours, 1/s", t.ours.perSecond,
		"raw, 1/s", t.raw.perSecond, "ratio", t.ratio, "overall", t.overall)
	if n := t.ours.cpu(); n > 0 {
		row.Add("by CPU", t.raw.cpu()/n)
	}
	row.Add("pairs", t.pairs, "conflicts", t.ours.all.conflicts)
	verified := t.ours.verified + t.raw.verified
	if !t.write { // each value was compared when it was read
		verified += t.ours.all.operations + t.raw.all.operations
	}
	row.Add("verified", verified)
	t.ours.cost(costs, "")
	t.raw.cost(costs, "raw ")
	storage := 0.
	for _, kind := range slices.Sorted(maps.Keys(t.ours.requests)) {
		n := float64(t.ours.requests[kind]) / float64(t.ours.all.operations)
		costs.Add(kind, n)
		if kind != "Oracle" {
			storage += n
		}
	}
	costs.Add("storage requests", storage, "writes of a row", t.ours.mostOfRow)
}

// cpu is the processor time of an operation in µs.
func (s *fig8Side) cpu() float64 {
	return float64(s.all.cpu.Nanoseconds()) / 1e3 / float64(s.all.operations)
}

func (s *fig8Side) cost(row *report.Row, whose string) {
	n := float64(s.all.operations)
	row.Add(whose+"operations", s.all.operations, whose+"CPU, µs", s.cpu(), whose+"allocations", float64(s.allocs)/n,
		whose+"KB", float64(s.bytes)/n/1024)
}

// draw draws ratios as bars and throughput as lines, by goroutines, reads and writes apart.
func (b *fig8Benchmark) draw(r *run, trials []*fig8Trial) {
	for _, c := range []struct {
		file, ratio, throughput string
		write                   bool
		paper                   float64
	}{
		{"fig8-reads", "Reads in transactions against raw ReadRow", "Reads", false, 0.94},
		{"fig8-writes", "Writes in transactions against raw requests", "Writes", true, 0.23},
	} {
		bars := report.Chart{Name: c.file + "-ratio", Title: c.ratio, X: report.Axis{Label: "goroutines"},
			Y: report.Axis{Label: "throughput, raw = 1"}, Marks: []report.Mark{{At: c.paper, Name: "paper", Horizontal: true}}}
		lines := report.Chart{Name: c.file + "-throughput", Title: c.throughput,
			X: report.Axis{Label: "goroutines", Log: true}, Y: report.Axis{Label: "rows a second"}}
		drawn := map[string]bool{} // each operation of ours is drawn once, and each raw one
		for i := 0; i < len(trials); i += len(b.Goroutines) {
			t := trials[i]
			if t.write != c.write {
				continue
			}
			of := func(row *report.Row) bool { return row.Figure("comparison").Text == t.name }
			ratios := r.Table("fig8").Line("", "goroutines", "ratio", of)
			bars.Bars = append(bars.Bars, report.Bars{Name: t.name, Values: ratios.Y})
			for _, side := range []struct{ name, operation, figure string }{
				{t.name, t.ours.label, "ours"}, {t.raw.label, t.raw.label, "raw"},
			} {
				line := r.Table("fig8").Line(side.name, "goroutines", side.figure, of)
				for j := range line.Y {
					line.Y[j] *= float64(t.rowsPerOp)
				}
				if !drawn[side.operation] {
					lines.Lines = append(lines.Lines, line)
				}
				drawn[side.operation] = true
			}
		}
		if len(bars.Bars) > 0 {
			for _, n := range b.Goroutines {
				bars.Categories = append(bars.Categories, strconv.Itoa(n))
			}
			r.Draw(bars)
			r.Draw(lines)
		}
	}
}
