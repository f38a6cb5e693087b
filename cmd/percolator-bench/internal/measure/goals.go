package measure

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/report"
)

// goalsBenchmark measures everything for which there is a goal, by the other benchmarks.
type goalsBenchmark struct {
	// Only names the parts: ratios against raw requests, of fig8; latency in multiples of a request
	// time and counts of requests, of latency; ops, counts of the web index's requests. None: all.
	Only                             []string
	Duration, Slice, Delay, Collapse time.Duration
	Rows, Iterations, Pages          int
}

func (b *goalsBenchmark) check() error {
	return unless(b.Duration >= 2*b.Slice, "--duration %v does not hold two --slice %v", b.Duration, b.Slice)
}

// goalRatio is a goal for a comparison of Figure 8.
type goalRatio struct {
	text, peer string
	name       string // of the comparison
	goroutines int
	wanted     float64
}

func ratioGoals() []goalRatio {
	return []goalRatio{
		{"Get against raw ReadRow of the cell, 64 goroutines, batching off", "0.94", "get-cell", 64, 0.95},
		{"… against ReadRow that names no column", "0.94", "get", 64, 0.95},
		{"Get against ReadRow that names no column, 64 goroutines, batching on", "", "get-batched", 64, 2},
		{"Get against ReadRow that names no column, 256 goroutines, batching on", "", "get-batched", 256, 3},
		{"Get in a View of its own against ReadRow that names no column, 256 goroutines", "", "get-view", 256, 3},
		{"GetMulti of 64 rows against ReadRows of 64, 1 goroutine", "", "multi", 1, 0.90},
		{"Get against raw ReadRow of the cell, 1 goroutine", "", "get-cell-batched", 1, 0.90},
		{"… against ReadRow that names no column, 1 goroutine", "", "get-batched", 1, 0.90},
		{"single-cell write against raw MutateRow, 64 goroutines", "0.23", "write", 64, 0.38},
		{"single-cell write against two raw CheckAndMutateRow, 64 goroutines", "", "write-limit", 64, 0.85},
		{"10-row write against ten raw MutateRow, 64 goroutines", "", "rows10", 64, 0.50},
		{"10-row blind write against ten raw MutateRow, 64 goroutines", "", "rows10-blind", 64, 0.60},
	}
}

func (b *goalsBenchmark) run(ctx context.Context, r *run) error {
	r.Title, r.Emulator = "goals", r.emulator
	type part struct {
		of, name string
		run      func() error
	}
	var parts []part
	for _, g := range ratioGoals() {
		parts = append(parts, part{"ratios", g.text, func() error { return b.ratio(ctx, r, g) }})
	}
	parts = append(parts, part{"latency", "latency", func() error { return b.latencies(ctx, r) }},
		part{"ops", "web index", func() error { return b.counts(ctx, r) }})
	parts = slices.DeleteFunc(parts, func(p part) bool { return len(b.Only) > 0 && !slices.Contains(b.Only, p.of) })
	r.all = len(parts)
	for _, p := range parts {
		if err := p.run(); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		r.step()
	}
	goals := r.Table("goals")
	met := 0
	chart := report.Chart{Name: "goals", Title: "Goals, in the order of the table", Y: report.Axis{Label: "measured by goal; more is better"},
		Marks: []report.Mark{{At: 1, Horizontal: true, Name: "goal"}}, Bars: []report.Bars{{}}}
	for i, row := range goals.Rows {
		g, exceeded := row.Figures[0].Goal, row.Figures[0].Value/row.Figures[0].Goal.Wanted
		if !g.AtLeast {
			exceeded = 1 / exceeded
		}
		if g.Met {
			met++
		}
		chart.Categories, chart.Bars[0].Values = append(chart.Categories, fmt.Sprint(i+1)), append(chart.Bars[0].Values, exceeded)
	}
	r.Draw(chart)
	r.Notes = append(r.Notes, fmt.Sprintf("%d of %d goals are met", met, len(goals.Rows)))
	return nil
}

// goal adds a figure with its goal.
func (r *run) goal(name string, f report.Figure, g report.Goal) {
	row := r.Table("goals").Row(name)
	f.Name, f.Unit = "measured", ""
	row.Figures = append(row.Figures, f)
	row.Want(g)
}

func (b *goalsBenchmark) ratio(ctx context.Context, r *run, g goalRatio) error {
	out, err := r.part(ctx, "fig8", &fig8Benchmark{
		Goroutines: []int{g.goroutines}, Only: []string{g.name}, Rows: max(b.Rows, fig8SnapshotGets*g.goroutines), Value: 100,
		Slice: b.Slice, Duration: b.Duration,
	})
	if err != nil {
		return err
	}
	row := fig8Row(g.name, g.goroutines)
	r.goal(g.text, out.Table("fig8").Row(row).Figure("ratio"), report.Goal{Wanted: g.wanted, AtLeast: true, Peer: g.peer})
	costs := r.Table("an operation costs this process").Row(g.text)
	for _, name := range []string{"CPU", "raw CPU", "allocations", "raw allocations", "KB", "raw KB"} {
		costs.Figures = append(costs.Figures, out.Table("costs").Row(row).Figure(name))
	}
	return nil
}

// part runs another benchmark as a part of this one.
func (r *run) part(ctx context.Context, name string, b benchmark) (*run, error) {
	out := newRun(name)
	out.emulator, out.Repeat = r.emulator, r.Repeat
	return out, errors.Join(b.run(ctx, out), out.failed)
}

func (b *goalsBenchmark) latencies(ctx context.Context, r *run) error {
	out, err := r.part(ctx, "latency", &latencyBenchmark{Delay: b.Delay, Iterations: b.Iterations})
	if err != nil {
		return err
	}
	for _, row := range out.Table("request times").Rows {
		if f := row.Figure("multiple"); f.Goal != nil {
			r.goal(row.Name+", in request times", f, *f.Goal)
		}
		if f := out.Table("requests").Row(row.Name).Figure("storage"); f.Goal != nil {
			r.goal(row.Name+", storage requests", f, *f.Goal)
		}
	}
	return nil
}

func (b *goalsBenchmark) counts(ctx context.Context, r *run) error {
	out, err := r.part(ctx, "ops", &opsBenchmark{
		Pages: b.Pages, Changed: b.Pages / 10, Delay: b.Delay, Concurrency: 128, Collapse: b.Collapse,
	})
	if err != nil {
		return err
	}
	reads := out.Table("neither by both").Row(opsPhases[0]).Figure(kindReadRows)
	r.goal("web index: reads without batching and prefetch by those with", reads, report.Goal{Wanted: 8, AtLeast: true, Peer: "10"})
	r.Tables = append(r.Tables, out.Table(opsPhases[0]))
	return nil
}
