package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/tpce"
)

// Fig9Config says how the brokerage is measured (section 3.3 and Figure 9 of the paper).
type Fig9Config struct {
	// Self is the command line that runs one measurement in a process of its own; "run" follows.
	Self []string

	Emulator string // EmbeddedEmulator or GcloudEmulator
	// Cores is for GOMAXPROCS, and Customers for the size of the firm. The numbers of cores are measured with the most customers, and the
	// numbers of customers with the most cores.
	Cores, Customers []int
	Commissions      []tpce.Commission // each of them in every measurement
	Terminals        int               // goroutines that are customers, and as many that are the market exchange
	FoldEvery        time.Duration     // how long queued commissions wait for more, at most
	Duration         time.Duration     // of one repetition, after a quarter of it that is not counted
	Repeat           int
	Seed             uint64 // of everything that is left to chance, but for how goroutines take turns

	// Progress is told after each repetition how many of how many are done. nil: nobody wants to know.
	Progress func(done, all int)
}

// Fig9Report is what was measured.
type Fig9Report struct {
	Machine
	Emulator string `json:"emulator"`
	// Together: the emulator runs in the process that is measured and shares its cores. Otherwise it has a process of its own, whose cores
	// are neither limited nor counted.
	Together  bool             `json:"emulator_shares_cores"`
	Terminals int              `json:"terminals"` // a closed loop: each begins its next transaction when the last one has ended
	Exchange  int              `json:"exchange"`  // goroutines that send trade-results, each after the other
	Mix       tpce.Mix         `json:"mix"`
	FoldMS    float64          `json:"fold_every_ms"`
	Duration  float64          `json:"duration_s"` // of one repetition
	Repeat    int              `json:"repeat"`
	Seed      uint64           `json:"seed"`
	Rows      []Fig9Row        `json:"rows"`
	Paper     []Fig9PaperPoint `json:"paper"`
}

// Fig9PaperPoint is what the paper says of its own measurement.
type Fig9PaperPoint struct {
	Source string  `json:"source"`
	TPS    float64 `json:"tps"`
	Cores  float64 `json:"cores"`
}

// fig9Paper is on another machine, another scale and the real Bigtable: it is told and compared with nothing.
var fig9Paper = []Fig9PaperPoint{{"section 3.3 of the paper: its benchmark based on TPC-E, commissions omitted", 11_200, 15_000}}

// Fig9Row is one setting. Every repetition had a process, a store and a firm of its own, and was audited at its end.
type Fig9Row struct {
	Cores      int             `json:"cores"` // GOMAXPROCS
	Customers  int             `json:"customers"`
	Queue      bool            `json:"queue"` // commissions go through the combine queue
	Commission tpce.Commission `json:"commission"`
	Size       tpce.Size       `json:"size"`

	TPS       Summary `json:"tps"`                     // trades executed a second
	All       Summary `json:"transactions_per_second"` // of all types, without folds
	CoresUsed Summary `json:"cores_used"`              // CPU time of the process by time; 0: not known on this system

	ConflictsPerCommit float64           `json:"conflicts_per_commit"` // of the types that write
	Transactions       []Fig9Transaction `json:"transactions"`
	Folds              Fig9Folds         `json:"folds"`
	// Requests is by kind, for each transaction of any type; folds and what notifications cost are in it. Storage is the sum without the
	// oracle's.
	Requests map[string]float64 `json:"requests_per_transaction"`
	Storage  float64            `json:"storage_requests_per_transaction"`

	Audits []tpce.Audit `json:"audits"` // one a repetition: everything that was done, counted or not
}

// Fig9Transaction is one type of transaction. Its latency is that of the closed loop, with all attempts.
type Fig9Transaction struct {
	Type               tpce.Kind `json:"type"`
	Count              int64     `json:"count"`
	Conflicts          int64     `json:"conflicts"`
	ConflictsPerCommit float64   `json:"conflicts_per_commit"`
	P50                float64   `json:"p50_ms"`
	P99                float64   `json:"p99_ms"`
	Max                float64   `json:"max_ms"`
}

// Fig9Folds is what the observers of the combine queue did.
type Fig9Folds struct {
	Runs      int64 `json:"runs"`
	Conflicts int64 `json:"conflicts"`
}

// fig9Setting is what one row is measured with.
type fig9Setting struct {
	cores, customers int
	commission       tpce.Commission
}

// settings are in the order of the report: first those of the cores, then those of the customers.
func (cfg Fig9Config) settings() (out []fig9Setting) {
	mostCores, mostCustomers := slices.Max(cfg.Cores), slices.Max(cfg.Customers)
	add := func(cores, customers int) {
		for _, c := range cfg.Commissions {
			if s := (fig9Setting{cores, customers, c}); !slices.Contains(out, s) {
				out = append(out, s)
			}
		}
	}
	for _, n := range slices.Sorted(slices.Values(cfg.Cores)) {
		add(n, mostCustomers)
	}
	for _, n := range slices.Sorted(slices.Values(cfg.Customers)) {
		add(mostCores, n)
	}
	return out
}

// Fig9 runs the benchmark. The settings take turns, so that whatever else the machine does falls on all of them. A measurement gives up
// a minute after its time.
func Fig9(ctx context.Context, cfg Fig9Config) (*Fig9Report, error) {
	report := &Fig9Report{
		Machine: ThisMachine(time.Now()), Terminals: cfg.Terminals, Exchange: cfg.Terminals, Mix: tpce.StandardMix,
		FoldMS: float64(cfg.FoldEvery) / float64(time.Millisecond), Duration: cfg.Duration.Seconds(), Repeat: cfg.Repeat, Seed: cfg.Seed,
		Together: cfg.Emulator == EmbeddedEmulator, Paper: fig9Paper,
	}
	settings := cfg.settings()
	results := make([][]*fig9Result, len(settings))
	done := 0
	for range cfg.Repeat {
		for i, s := range settings {
			r, err := cfg.measure(ctx, s)
			if err != nil {
				return nil, fmt.Errorf("%d customers on %d cores, commission %s: %w", s.customers, s.cores, s.commission, err)
			}
			report.Emulator = r.Emulator
			results[i] = append(results[i], r)
			if done++; cfg.Progress != nil {
				cfg.Progress(done, cfg.Repeat*len(settings))
			}
		}
	}
	for i, s := range settings {
		report.Rows = append(report.Rows, s.row(results[i]))
	}
	return report, nil
}

// measure runs one repetition in another process, which has so many cores and a heap of its own.
func (cfg Fig9Config) measure(ctx context.Context, s fig9Setting) (_ *fig9Result, err error) {
	c, err := startChild(ctx, slices.Clone(cfg.Self), []string{"GOMAXPROCS=" + strconv.Itoa(s.cores)}, "run")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	r := new(fig9Result)
	if err := c.tell(fig9Job{
		Emulator: cfg.Emulator, Customers: s.customers, Commission: s.commission, Terminals: cfg.Terminals,
		FoldEvery: cfg.FoldEvery, Duration: cfg.Duration, Seed: cfg.Seed,
	}); err != nil {
		return nil, err
	}
	if err := c.hear(r); err != nil {
		return nil, err
	}
	if r.Error != "" {
		return nil, errors.New(r.Error)
	}
	if r.Cores != s.cores {
		return nil, fmt.Errorf("a process with GOMAXPROCS %d had %d", s.cores, r.Cores)
	}
	return r, nil
}
