package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/gopercolator/percolator/percolator"
)

// ScaleConfig says how the growth of costs is measured: with the rows of a table, the versions of its cells, and the notifications in it.
type ScaleConfig struct {
	Emulator string // EmbeddedEmulator or GcloudEmulator

	// Rows, Versions and Notifications are the sizes of the three sweeps, ascending; none: that sweep is left out. Each size is a table of
	// its own, and all tables of a sweep stand in one store, so that sizes take turns.
	Rows, Versions, Notifications []int

	// VersionRows is how many rows each table of the sweep over versions has. Those of the sweep over notifications have as many as there are
	// notifications in the largest.
	VersionRows int

	Value   int // bytes of a value
	Samples int // how often each operation is done in each repetition, on each table; a scan of a whole table once
	Repeat  int

	// Progress is told after each step how many of how many are done. nil: nobody wants to know.
	Progress func(done, all int)
}

// ScaleReport is what was measured, by one caller that does one operation after the other.
type ScaleReport struct {
	Machine
	Emulator string `json:"emulator"`
	Value    int    `json:"value_bytes"`
	Samples  int    `json:"samples"` // of each operation, in each repetition
	Repeat   int    `json:"repeat"`
	// HeapMB is what this process held, the embedded emulator in it, when all tables of all sweeps were full.
	HeapMB float64      `json:"heap_mb"`
	Sweeps []ScaleSweep `json:"sweeps"`
}

// ScaleSweep is one dimension: everything else is the same for all sizes.
type ScaleSweep struct {
	Name       string           `json:"name"`  // of what the sizes are: rows, versions or notifications
	Fixed      string           `json:"fixed"` // what is the same for all of them
	Sizes      []int            `json:"sizes"`
	Filled     int64            `json:"filled_cells"` // of Bigtable, in all tables
	FillS      float64          `json:"fill_s"`
	Checked    int64            `json:"checked"` // answers that were compared with what had been written
	Operations []ScaleOperation `json:"operations"`
}

// ScaleOperation is an operation at each of the sizes.
type ScaleOperation struct {
	Name   string       `json:"name"`
	What   string       `json:"what"` // in words
	Per    string       `json:"per"`  // what a cost is of: "operation", or "row" of the table
	Points []ScalePoint `json:"points"`
	// Exponent is the slope of the line that fits the logarithms of cost and size best: 0 when the cost does not depend on the size, 1
	// when it is in proportion. 0 with fewer than two sizes.
	Exponent float64 `json:"exponent"`
}

// ScalePoint is an operation at one size.
type ScalePoint struct {
	Size  int     `json:"size"`
	Count int     `json:"count"`  // samples: operations, passes through the table, or pages of one
	US    Summary `json:"us"`     // microseconds, of the medians of the repetitions
	P99   float64 `json:"p99_us"` // of all samples
	Ratio Summary `json:"ratio"`  // to the smallest size in the same repetition
	// Requests is by kind and RowsRead what requests to read returned: of each operation, or of each pass through the whole table.
	Requests map[string]float64 `json:"requests"`
	RowsRead float64            `json:"rows_read"`
	Removed  int64              `json:"versions_removed,omitempty"` // by collection
}

// scaleLimit bounds all of it.
const scaleLimit = 2 * time.Hour

// scaleMemory is what this process holds at most, as long as what lives is less: its tables live long, and without a limit the collector of
// garbage lets as much of that gather beside them.
const scaleMemory = 7 << 30

// Scale runs the benchmark. All tables are filled first, and collections begun: they wait until nobody acts on what was there before, which
// passes while everything else is measured.
func Scale(ctx context.Context, cfg ScaleConfig) (_ *ScaleReport, err error) {
	ctx, cancel := context.WithTimeout(ctx, scaleLimit)
	defer cancel()
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(scaleMemory))
	sweeps := cfg.sweeps()
	if len(sweeps) == 0 {
		return nil, errors.New("there is no size to measure")
	}
	done, all := 0, 0
	for _, s := range sweeps {
		all += len(s.tables)*(1+cfg.Repeat) + 1
	}
	step := func() {
		if done++; cfg.Progress != nil {
			cfg.Progress(done, all)
		}
	}
	defer func() {
		for _, s := range sweeps {
			err = firstOf(err, s.close())
		}
	}()
	report := &ScaleReport{Machine: ThisMachine(time.Now()), Value: cfg.Value, Samples: cfg.Samples, Repeat: cfg.Repeat}
	for _, phase := range []func(*scaleSweep) error{
		func(s *scaleSweep) error { return s.begin(ctx, cfg, step) },
		func(s *scaleSweep) error { return s.measure(ctx, cfg, step) },
		func(s *scaleSweep) error { return s.finish(ctx) },
	} {
		for _, s := range sweeps {
			if err := phase(s); err != nil {
				return nil, fmt.Errorf("sweep over %s: %w", s.out.Name, err)
			}
		}
		if report.HeapMB == 0 {
			report.HeapMB = heapMB()
		}
	}
	for _, s := range sweeps {
		report.Emulator = s.lab.ground.emulator
		report.Sweeps = append(report.Sweeps, s.out)
		step()
	}
	return report, nil
}

// scaleSweep is a sweep to be measured.
type scaleSweep struct {
	out        ScaleSweep
	tables     []*scaleTable
	operations []scaleKind
	collect    bool

	lab        *scaleLab
	collecting *scaleCollection
	trials     []*scaleTrial
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

func (cfg ScaleConfig) sweeps() (out []*scaleSweep) {
	if len(cfg.Rows) > 0 {
		s := &scaleSweep{out: ScaleSweep{Name: "rows", Fixed: "1 version, no notifications"}, collect: true,
			operations: []scaleKind{scaleGet, scaleWrite, scaleScan, scaleIndex, scaleLock, scaleTableScan, scaleSearchRow}}
		for _, n := range cfg.Rows {
			s.tables = append(s.tables, newScaleTable("rows", n, n, 1, 0, cfg))
		}
		out = append(out, s)
	}
	if len(cfg.Versions) > 0 {
		s := &scaleSweep{out: ScaleSweep{Name: "versions", Fixed: fmt.Sprintf("%d rows, no notifications", cfg.VersionRows)}, collect: true,
			operations: []scaleKind{scaleGet, scaleWrite, scaleScan, scaleLock, scaleTableScan, scaleSearchRow}}
		for _, n := range cfg.Versions {
			s.tables = append(s.tables, newScaleTable("versions", n, cfg.VersionRows, n, 0, cfg))
		}
		out = append(out, s)
	}
	if n := len(cfg.Notifications); n > 0 {
		rows := max(cfg.Notifications[n-1], scaleLeastRows)
		s := &scaleSweep{out: ScaleSweep{Name: "notifications", Fixed: fmt.Sprintf("%d rows, 1 version", rows)},
			operations: []scaleKind{scaleGet, scaleWrite, scalePage, scaleSearch}}
		for _, n := range cfg.Notifications {
			s.tables = append(s.tables, newScaleTable("notifications", n, rows, 1, n, cfg))
		}
		out = append(out, s)
	}
	return out
}

// scaleLeastRows is how many rows a table has at least.
const scaleLeastRows = 100

// lifetime is what requests are given. A search reads through a whole table with one request, and collection waits as long as the requests of
// others may live.
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
func (s *scaleSweep) begin(ctx context.Context, cfg ScaleConfig, step func()) (err error) {
	if s.lab, err = newScaleLab(ctx, cfg, s.schema()); err != nil {
		return err
	}
	begun := time.Now()
	for _, t := range s.tables {
		s.out.Sizes = append(s.out.Sizes, t.size)
		if err := s.lab.fill(ctx, t); err != nil {
			return fmt.Errorf("filling a table of %d: %w", t.size, err)
		}
		step()
	}
	s.out.FillS, s.out.Filled = time.Since(begun).Seconds(), s.lab.filled
	if s.collect {
		s.collecting, err = s.lab.startCollection(ctx, s.tables)
	}
	return err
}

// measure does every operation on each table in turn.
func (s *scaleSweep) measure(ctx context.Context, cfg ScaleConfig, step func()) error {
	for _, k := range s.operations {
		s.trials = append(s.trials, newScaleTrial(k, len(s.tables)))
	}
	for range cfg.Repeat {
		for i, t := range s.tables {
			for _, tr := range s.trials {
				if err := tr.repeat(ctx, s.lab, t, i); err != nil {
					return fmt.Errorf("%s at %d: %w", tr.kind.name, t.size, err)
				}
			}
			step()
		}
	}
	for _, tr := range s.trials {
		s.out.Operations = append(s.out.Operations, tr.operation(s.tables))
	}
	return nil
}

// finish collects, and then reads through all tables once more: nothing that anybody reads has been removed.
func (s *scaleSweep) finish(ctx context.Context) error {
	if s.collecting != nil {
		op, err := s.collecting.finish(ctx)
		if err != nil {
			return fmt.Errorf("collection: %w", err)
		}
		s.out.Operations = append(s.out.Operations, op)
	}
	for _, t := range s.tables {
		if err := scaleTableScan.do(ctx, s.lab, t); err != nil {
			return fmt.Errorf("after everything, at %d: %w", t.size, err)
		}
	}
	s.out.Checked = s.lab.checked
	return nil
}

func (s *scaleSweep) close() error {
	if s.collecting != nil {
		s.collecting.stop()
	}
	if s.lab == nil {
		return nil
	}
	return s.lab.ground.close()
}

func heapMB() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / (1 << 20)
}
