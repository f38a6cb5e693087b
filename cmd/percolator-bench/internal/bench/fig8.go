package bench

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"
)

// Fig8Config says how the cost of transactions over raw Bigtable is measured (section 3.2 and Figure 8 of the paper).
type Fig8Config struct {
	Emulator   string   // EmbeddedEmulator or GcloudEmulator
	Goroutines []int    // for each of them everything is measured
	Only       []string // names of Fig8Names; none: all

	// Rows is how many rows each table has, Value how many bytes a value has (8 at least). Every goroutine has its own share of the rows,
	// spread over the table, and goes round it in a random order: no two goroutines meet in a row, and none meets its own last writes.
	Rows, Value int

	// Slice is how long one side is measured before it is the other's turn, Duration how long one repetition of a ratio takes, both
	// sides together; Repeat is how many repetitions there are.
	Slice, Duration time.Duration
	Repeat          int

	// Progress is told after each repetition how many of how many are done. nil: nobody wants to know.
	Progress func(done, all int)
}

// Fig8Report is what was measured.
type Fig8Report struct {
	Machine
	Emulator     string            `json:"emulator"`
	Together     bool              `json:"cpu_includes_emulator"` // it runs in this process: CPU time and allocations are its own as well
	Rows         int               `json:"rows"`
	Value        int               `json:"value_bytes"`
	SnapshotGets int               `json:"gets_of_a_snapshot"` // of the measurements named get
	SliceMS      float64           `json:"slice_ms"`
	DurationMS   float64           `json:"duration_ms"` // of one repetition, both sides
	Repeat       int               `json:"repeat"`
	Measurements []Fig8Measurement `json:"measurements"`
}

// Fig8Measurement compares one operation of ours with what it is measured by, at one number of goroutines. An operation of
// several rows is compared with one that writes as many, so the ratio is also that of rows a second.
type Fig8Measurement struct {
	Name       string `json:"name"`
	Ours       string `json:"ours"` // what one operation is, in words
	Raw        string `json:"raw"`
	Write      bool   `json:"write"`
	RowsPerOp  int    `json:"rows_per_operation"`
	Goroutines int    `json:"goroutines"`
	Batching   bool   `json:"batching"` // of reads

	OursPerSecond Summary `json:"ours_per_second"` // operations; of the repetitions
	RawPerSecond  Summary `json:"raw_per_second"`
	// Ratio is ours by raw: of each repetition the median of the pairs of neighbouring slices. Overall is that of all operations by all
	// time of a repetition, in which slices that were slow weigh as much as they took.
	Ratio   Summary `json:"ratio"`
	Overall Summary `json:"overall_ratio"`
	Pairs   int     `json:"pairs"` // of slices, in all repetitions
	// ByCPU is the processor time of a raw operation by that of ours: what Ratio tends to where processors are the limit and the emulator
	// runs in this process, and undisturbed by other programs. With another emulator it compares clients only. 0: not known.
	ByCPU float64 `json:"cpu_ratio"`

	// Requests is by kind, for each operation of ours; Storage is the sum without the oracle's.
	Requests map[string]float64 `json:"requests_per_operation"`
	Storage  float64            `json:"storage_requests_per_operation"`
	OursCost Fig8Cost           `json:"ours_cost"`
	RawCost  Fig8Cost           `json:"raw_cost"`

	Conflicts int64 `json:"conflicts"` // writes of ours that ended in a conflict; they are no operations
	Verified  int64 `json:"verified"`  // values that were read and were what they had to be, of both sides
	// WritesPerRow is how many versions a row of ours had been given before old ones were erased, on average of all rows, and MostWrites
	// the most that one had been given.
	WritesPerRow float64 `json:"writes_per_row"`
	MostWrites   int     `json:"most_writes_of_a_row"`
}

// Fig8Cost is what an operation costs this process. The oracle runs in it, and the embedded emulator does too.
type Fig8Cost struct {
	Operations int64   `json:"operations"`
	CPU        float64 `json:"cpu_us"` // user and system
	Allocs     float64 `json:"allocs"`
	Bytes      float64 `json:"bytes"`
}

// Fig8 runs the benchmark. Repetitions are the outermost loop, so that a phase in which the machine is slow spreads over all figures.
func Fig8(ctx context.Context, cfg Fig8Config) (report *Fig8Report, err error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	lab, err := startFig8(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer func() { err = firstOf(err, lab.ground.close()) }()
	report = &Fig8Report{
		Machine: ThisMachine(time.Now()), Emulator: lab.ground.emulator, Together: cfg.Emulator == EmbeddedEmulator,
		Rows: cfg.Rows, Value: cfg.Value, SnapshotGets: Fig8SnapshotGets, Repeat: cfg.Repeat,
		SliceMS: milliseconds(cfg.Slice), DurationMS: milliseconds(cfg.Duration),
	}
	var trials []*fig8Trial
	for _, kind := range lab.kinds() {
		for _, goroutines := range cfg.Goroutines {
			if len(cfg.Only) == 0 || slices.Contains(cfg.Only, kind.name) {
				trials = append(trials, &fig8Trial{fig8Kind: kind, goroutines: goroutines})
			}
		}
	}
	for n := range cfg.Repeat {
		for i, t := range trials {
			runtime.GC() // once before each repetition, which begins without what others left; never between slices
			if err := t.repeat(ctx, cfg); err != nil {
				return nil, fmt.Errorf("%s with %d goroutines: %w", t.name, t.goroutines, err)
			}
			if cfg.Progress != nil {
				cfg.Progress(n*len(trials)+i+1, cfg.Repeat*len(trials))
			}
		}
	}
	for _, t := range trials {
		report.Measurements = append(report.Measurements, t.measurement())
	}
	return report, nil
}

// check refuses shares of rows that are too small for the Gets of a snapshot, and what is not known.
func (cfg Fig8Config) check() error {
	for _, name := range cfg.Only {
		if names := Fig8Names(); !slices.Contains(names, name) {
			return fmt.Errorf("%q is none of %q", name, names)
		}
	}
	if len(cfg.Goroutines) == 0 || slices.Min(cfg.Goroutines) < 1 {
		return fmt.Errorf("nothing can be measured with %d goroutines", cfg.Goroutines)
	}
	if most := slices.Max(cfg.Goroutines); cfg.Rows < Fig8SnapshotGets*most {
		return fmt.Errorf("%d rows are fewer than %d for each of %d goroutines", cfg.Rows, Fig8SnapshotGets, most)
	}
	return nil
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
