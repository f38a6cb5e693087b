package bench

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// GoalsConfig says how closely the goals of speed are looked at.
type GoalsConfig struct {
	Emulator string   // EmbeddedEmulator or GcloudEmulator
	Only     []string // of GoalParts; none: all
	Repeat   int      // repetitions of everything but the counts of the web index

	Duration   time.Duration // of a repetition of a comparison with raw requests; Fig8Config.Duration
	Slice      time.Duration // Fig8Config.Slice
	Rows       int           // Fig8Config.Rows
	Iterations int           // of each kind of transaction in a repetition; LatencyConfig.Iterations
	Delay      time.Duration // LatencyConfig.Delay and OpsConfig.Delay
	Pages      int           // OpsConfig.Pages
	Collapse   time.Duration // OpsConfig.Collapse

	// Progress is told how far the parts are. nil: nobody wants to know.
	Progress func(done, all int)
}

// GoalsReport is what was wanted beside what was measured, with the reports that it was taken from.
type GoalsReport struct {
	Machine
	Emulator string         `json:"emulator"`
	Goals    []Goal         `json:"goals"`
	Costs    []GoalCost     `json:"costs"`
	Fig8     []*Fig8Report  `json:"fig8"`
	Latency  *LatencyReport `json:"latency,omitempty"`
	Ops      *OpsReport     `json:"ops,omitempty"`
}

// Goal is one thing that is wanted.
type Goal struct {
	Name     string  `json:"name"`
	Peer     string  `json:"peer"` // what the paper or another system has; "": not known
	Wanted   float64 `json:"wanted"`
	AtLeast  bool    `json:"at_least"` // otherwise at most
	Measured Summary `json:"measured"`
	Met      bool    `json:"met"` // by the median
}

// GoalCost is what an operation costs the process that runs the benchmark.
type GoalCost struct {
	Name string   `json:"name"`
	Ours Fig8Cost `json:"ours"`
	Raw  Fig8Cost `json:"raw"`
}

// goalRatio is a goal for a comparison of Figure 8.
type goalRatio struct {
	text, peer string
	name       string // of the comparison
	goroutines int
	wanted     float64
}

var goalRatios = []goalRatio{
	{"Get against raw ReadRow of the cell, 64 goroutines, batching off", "0.94", "get-cell", 64, 0.95},
	{"… against ReadRow that names no column", "0.94", "get", 64, 0.95},
	{"Get against ReadRow that names no column, 64 goroutines, batching on", "", "get-batched", 64, 2},
	{"Get against ReadRow that names no column, 256 goroutines, batching on", "", "get-batched", 256, 3},
	{"Get against raw ReadRow of the cell, 1 goroutine", "", "get-cell-batched", 1, 0.90},
	{"… against ReadRow that names no column, 1 goroutine", "", "get-batched", 1, 0.90},
	{"single-cell write against raw MutateRow, 64 goroutines", "0.23", "write", 64, 0.33},
	{"single-cell write against two raw CheckAndMutateRow, 64 goroutines", "", "write-limit", 64, 0.85},
	{"10-row write against ten raw MutateRow, 64 goroutines", "", "rows10", 64, 0.50},
}

// goalPeers is what the multiples of a request time are compared with: TiKV's client, measured the same way.
var goalPeers = map[string]string{
	"begin, set, commit": "4.24", "begin, get, set 2 rows, commit": "5.33", "begin, set 10 rows, commit": "4.31",
}

// Goals measures everything for which a goal was set.
func Goals(ctx context.Context, cfg GoalsConfig) (*GoalsReport, error) {
	r := &GoalsReport{Machine: ThisMachine(time.Now()), Emulator: cfg.Emulator}
	type part struct {
		of, name string
		run      func(context.Context, GoalsConfig) error
	}
	var parts []part
	for _, g := range goalRatios {
		parts = append(parts, part{GoalRatios, g.text, func(ctx context.Context, cfg GoalsConfig) error { return r.ratio(ctx, cfg, g) }})
	}
	parts = append(parts, part{GoalLatency, "latency", r.latency}, part{GoalOps, "web index", r.ops})
	parts = slices.DeleteFunc(parts, func(p part) bool { return len(cfg.Only) > 0 && !slices.Contains(cfg.Only, p.of) })
	for i, p := range parts {
		if err := p.run(ctx, cfg); err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
		if cfg.Progress != nil {
			cfg.Progress(i+1, len(parts))
		}
	}
	return r, nil
}

// The parts of the goals.
const (
	GoalRatios  = "ratios"  // against raw requests, of Fig8
	GoalLatency = "latency" // multiples of a request time, and counts of requests, of Latency
	GoalOps     = "ops"     // counts of the web index's requests, of Ops
)

// GoalParts are all of them.
func GoalParts() []string { return []string{GoalRatios, GoalLatency, GoalOps} }

func (r *GoalsReport) add(g Goal) {
	g.Met = g.Measured.Median <= g.Wanted
	if g.AtLeast {
		g.Met = g.Measured.Median >= g.Wanted
	}
	r.Goals = append(r.Goals, g)
}

func (r *GoalsReport) ratio(ctx context.Context, cfg GoalsConfig, g goalRatio) error {
	report, err := Fig8(ctx, Fig8Config{Emulator: cfg.Emulator, Goroutines: []int{g.goroutines}, Only: []string{g.name},
		Rows: max(cfg.Rows, Fig8SnapshotGets*g.goroutines), Value: 100, Slice: cfg.Slice, Duration: cfg.Duration, Repeat: cfg.Repeat})
	if err != nil {
		return err
	}
	m := report.Measurements[0]
	r.Fig8 = append(r.Fig8, report)
	r.add(Goal{Name: g.text, Peer: g.peer, Wanted: g.wanted, AtLeast: true, Measured: m.Ratio})
	r.Costs = append(r.Costs, GoalCost{Name: g.text, Ours: m.OursCost, Raw: m.RawCost})
	return nil
}

func (r *GoalsReport) latency(ctx context.Context, cfg GoalsConfig) (err error) {
	r.Latency, err = Latency(ctx, LatencyConfig{Emulator: cfg.Emulator, Delay: cfg.Delay, Iterations: cfg.Iterations, Repeat: cfg.Repeat})
	if err != nil {
		return err
	}
	for _, t := range r.Latency.Transactions {
		if t.Goal > 0 {
			r.add(Goal{Name: t.Name + ", in request times", Peer: goalPeers[t.Name], Wanted: t.Goal, Measured: t.Multiple})
		}
		if n := t.Requests.Storage; t.Requests.StorageGoal > 0 {
			peer := ""
			if t.Name == "begin, set 10 rows, commit" {
				peer = "20"
			}
			// Of a count there is a least and a most; what is wanted holds for the most.
			r.add(Goal{Name: t.Name + ", storage requests", Peer: peer, Wanted: float64(t.Requests.StorageGoal),
				Measured: Summary{Min: float64(n.Least), Median: float64(n.Most), Max: float64(n.Most)}})
		}
	}
	return nil
}

func (r *GoalsReport) ops(ctx context.Context, cfg GoalsConfig) (err error) {
	r.Ops, err = Ops(ctx, OpsConfig{Emulator: cfg.Emulator, Pages: cfg.Pages, Changed: cfg.Pages / 10, Delay: cfg.Delay, Collapse: cfg.Collapse})
	if err != nil {
		return err
	}
	once := func(x float64) Summary { return Summary{x, x, x} }
	r.add(Goal{Name: "web index: reads without batching and prefetch by those with", Peer: "10", Wanted: 8, AtLeast: true, Measured: once(r.Ops.Load.ReadRows)})
	return nil
}
