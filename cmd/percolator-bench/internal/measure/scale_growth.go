package measure

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/report"
)

// operation turns samples into the costs at each size.
func (tr *scaleTrial) operation(tables []*scaleTable) scaleOperation {
	op := scaleOperation{name: tr.kind.name, what: tr.kind.what, per: "operation"}
	if tr.kind.perRow {
		op.per = "row"
	}
	for i, t := range tables {
		of := 1.
		if tr.kind.perRow {
			of = float64(t.rows)
		}
		p := scalePoint{size: t.size, cost: tr.costs[i]}
		var all []float64
		for _, round := range tr.rounds[i] {
			us := microseconds(round, of)
			p.us = append(p.us, us[len(us)/2])
			all = append(all, us...)
		}
		slices.Sort(all)
		p.count, p.p99 = len(all), nearestRank(all, 0.99)
		op.points = append(op.points, p)
	}
	return op
}

// into adds an operation to the report of a sweep, and returns how it grows: how much more than at the smallest size it costs.
func (op scaleOperation) into(r *run, sweep string) report.Line {
	line := report.Line{Points: true}
	var sizes, costs []float64
	for _, p := range op.points {
		row := r.Table(sweep).Row(fmt.Sprintf("%s, %d", op.name, p.size))
		report.Add(row, sweep, "", p.size)
		row.Text("of a", op.per)
		report.Add(row, "n", "", p.count)
		row.Repeated("time", "µs", p.us)
		report.Add(row, "p99", "µs", p.p99)
		row.Repeated("× smallest", "", ratiosOf(p.us, op.points[0].us))
		for _, kind := range slices.Sorted(maps.Keys(p.cost.requests)) {
			report.Add(row, kind, "", float64(p.cost.requests[kind])/float64(p.count))
		}
		report.Add(row, "rows read", "", float64(p.cost.rows)/float64(p.count))
		if p.removed > 0 {
			report.Add(row, "versions removed", "", p.removed)
		}
		sizes, costs = append(sizes, float64(p.size)), append(costs, row.Value("time"))
		line.X, line.Y = append(line.X, float64(p.size)), append(line.Y, row.Value("× smallest"))
	}
	grown, exponent := r.Table("growth with "+sweep).Row(op.name), exponentOf(sizes, costs)
	grown.Text("cost of a", op.per)
	report.Add(grown, "grows as size to the power of", "", exponent)
	grown.Text("what", op.what)
	if line.Name = op.name; op.per != "operation" {
		line.Name += ", of a " + op.per
	}
	line.Name += fmt.Sprintf(" (size^%.2f)", exponent)
	return line
}

func ratiosOf(of, by []float64) []float64 {
	out := make([]float64, len(of))
	for i := range of {
		out[i] = of[i] / by[i]
	}
	return out
}

// exponentOf is b of the power law cost = a × size^b that fits best: the slope of the line through the logarithms. 0 without two sizes.
func exponentOf(sizes, costs []float64) float64 {
	if len(sizes) < 2 {
		return 0
	}
	var x, y, xx, xy float64 // sums
	for i := range sizes {
		lx, ly := math.Log(sizes[i]), math.Log(costs[i])
		x, y, xx, xy = x+lx, y+ly, xx+lx*lx, xy+lx*ly
	}
	n := float64(len(sizes))
	return (n*xy - x*y) / (n*xx - x*x)
}

// microseconds of samples, each divided by of, sorted.
func microseconds(samples []time.Duration, of float64) []float64 {
	out := make([]float64, len(samples))
	for i, d := range samples {
		out[i] = float64(d.Nanoseconds()) / 1e3 / of
	}
	slices.Sort(out)
	return out
}

func nearestRank(sorted []float64, share float64) float64 {
	return sorted[max(int(math.Ceil(share*float64(len(sorted)))), 1)-1]
}
