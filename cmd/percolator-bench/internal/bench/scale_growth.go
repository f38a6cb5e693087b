package bench

import (
	"math"
	"slices"
	"time"
)

// operation turns samples into the costs at each size.
func (tr *scaleTrial) operation(tables []*scaleTable) ScaleOperation {
	op := ScaleOperation{Name: tr.kind.name, What: tr.kind.what, Per: "operation"}
	if tr.kind.perRow {
		op.Per = "row"
	}
	medians := make([][]float64, len(tables)) // of each repetition
	for i, t := range tables {
		of := 1.
		if tr.kind.perRow {
			of = float64(t.rows)
		}
		p := ScalePoint{Size: t.size}
		var all []float64
		for _, round := range tr.rounds[i] {
			us := microseconds(round, of)
			medians[i] = append(medians[i], us[len(us)/2])
			all = append(all, us...)
		}
		slices.Sort(all)
		p.Count, p.P99 = len(all), nearestRank(all, 0.99)
		p.Requests, p.RowsRead = tr.costs[i].each(p.Count), float64(tr.costs[i].rowsRead)/float64(p.Count)
		op.Points = append(op.Points, p)
	}
	op.grow(medians)
	return op
}

// grow compares the costs of the repetitions with those of the smallest size.
func (op *ScaleOperation) grow(medians [][]float64) {
	var sizes, costs []float64
	for i := range op.Points {
		p := &op.Points[i]
		p.Ratio = summarize(ratiosOf(medians[i], medians[0]))
		p.US = summarize(slices.Clone(medians[i]))
		sizes, costs = append(sizes, float64(p.Size)), append(costs, p.US.Median)
	}
	op.Exponent = exponentOf(sizes, costs)
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
