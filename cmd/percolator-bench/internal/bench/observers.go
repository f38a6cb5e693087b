package bench

import (
	"context"
	"fmt"
	"time"
)

// ObserversConfig says how the reaction of observers is measured.
type ObserversConfig struct {
	// Self is the command line that runs a part of the benchmark in another process; "store", "writer" or "worker" follow.
	Self []string

	// Duration is how long writes are offered, and a quarter of it how long each saturated rate is measured.
	Duration time.Duration
	// Writers is, for each saturated rate, how many writers there are, each of which waits for the observer of its write.
	Writers []int
	// Hops is how long the chain is.
	Hops int
	// Chains is how many chains are begun each second, at random moments.
	Chains float64

	// Clean and Dirty are how many rows of the shared table carry no notification, and how many of them get one in each
	// round, at random moments of Duration. 0 clean rows: nothing is measured across processes.
	Clean, Dirty int
	Rounds       int
	Workers      int           // processes
	Idle         time.Duration // before each round, so that the workers have slowed down
	ScanInterval time.Duration // of those workers; 0: as they like
	ScanOnly     bool          // those workers hear nothing from the writer

	// Progress is told after each measurement how many of how many are done. nil: nobody wants to know.
	Progress func(done, all int)
}

// ObserversReport is what was measured. Latencies are from when the commit of an observed write was durable to when the
// commit of its observer was, both as their clients were told by the store.
type ObserversReport struct {
	Machine
	InProcess InProcess  `json:"in_process"`
	Chain     []Chain    `json:"chain"`
	Processes *Processes `json:"processes,omitempty"`
}

// InProcess is one worker in the process of the writers and of the emulator.
type InProcess struct {
	Saturated []SaturatedRate `json:"saturated"`
	Offered   float64         `json:"offered_per_second"`   // half of the greatest
	Delivered float64         `json:"delivered_per_second"` // commits of writes, while they were offered
	Latency   Spread          `json:"latency"`
	// Timestamps is the same by the oracle's clock: the difference of the two commit timestamps.
	Timestamps Spread `json:"latency_by_timestamps"`
}

// SaturatedRate is how many writes and runs a second writers reach that write again as soon as the observer has committed.
type SaturatedRate struct {
	Writers   int     `json:"writers"`
	PerSecond float64 `json:"per_second"`
}

// Chain is the latency of each hop of a chain of observers in one worker.
type Chain struct {
	Dispatch bool     `json:"direct_dispatch"` // else the scan has to find each hop
	Hops     []Spread `json:"hops"`
	Whole    Spread   `json:"whole"`
}

// Processes is writer and workers in processes of their own, with the store in another.
type Processes struct {
	Clean   int      `json:"clean_rows"`
	Dirty   int      `json:"dirty_rows"` // of each round
	Workers int      `json:"workers"`
	Pass    float64  `json:"pass_ms"` // how long it takes to look at every row once
	Latency Spread   `json:"latency"` // of all rounds
	Rounds  []Spread `json:"rounds"`
	Hinted  int64    `json:"hinted"` // dirty rows that workers heard of from the writer, through the oracle
	Found   int64    `json:"found"`  // those that their scans found first
	Lost    int      `json:"lost"`   // dirty rows that no worker ran for: must be 0
}

// patience bounds what is waited for after the last write of a measurement.
const patience = time.Minute

// Observers runs the benchmark.
func Observers(ctx context.Context, cfg ObserversConfig) (*ObserversReport, error) {
	report := &ObserversReport{Machine: ThisMachine(time.Now())}
	all, done := len(cfg.Writers)+1+2, 0
	if cfg.Clean > 0 {
		all += 1 + cfg.Rounds
	}
	step := func() {
		if done++; cfg.Progress != nil {
			cfg.Progress(done, all)
		}
	}
	var err error
	if report.InProcess, err = measureInProcess(ctx, cfg, step); err != nil {
		return nil, fmt.Errorf("in one process: %w", err)
	}
	for _, dispatch := range []bool{true, false} {
		c, err := measureChain(ctx, cfg, dispatch)
		if err != nil {
			return nil, fmt.Errorf("chain: %w", err)
		}
		report.Chain = append(report.Chain, c)
		step()
	}
	if cfg.Clean > 0 {
		if report.Processes, err = measureProcesses(ctx, cfg, step); err != nil {
			return nil, fmt.Errorf("across processes: %w", err)
		}
	}
	return report, nil
}
