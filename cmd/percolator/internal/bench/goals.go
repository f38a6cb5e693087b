package bench

import (
	"context"
	"fmt"
	"time"
)

// GoalsConfig says how closely the goals of speed are looked at.
type GoalsConfig struct {
	Emulator string // EmbeddedEmulator or GcloudEmulator
	Repeat   int    // repetitions of everything but the counts of the web index

	Duration   time.Duration // of a repetition of a comparison with raw requests; Fig8Config.Duration
	Slice      time.Duration // Fig8Config.Slice
	Rows       int           // Fig8Config.Rows
	Iterations int           // of each kind of transaction in a repetition; LatencyConfig.Iterations
	Delay      time.Duration // LatencyConfig.Delay and OpsConfig.Delay
	Pages      int           // OpsConfig.Pages; 0: leave the web index out
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
	Latency  *LatencyReport `json:"latency"`
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
	parts := len(goalRatios) + 1
	if cfg.Pages > 0 {
		parts++
	}
	done := 0
	step := func() {
		if done++; cfg.Progress != nil {
			cfg.Progress(done, parts)
		}
	}
	for _, g := range goalRatios {
		if err := r.ratio(ctx, cfg, g); err != nil {
			return nil, fmt.Errorf("%s: %w", g.text, err)
		}
		step()
	}
	if err := r.latency(ctx, cfg); err != nil {
		return nil, fmt.Errorf("latency: %w", err)
	}
	step()
	if cfg.Pages > 0 {
		if err := r.ops(ctx, cfg); err != nil {
			return nil, fmt.Errorf("web index: %w", err)
		}
		step()
	}
	return r, nil
}

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
