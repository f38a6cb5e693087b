package bench

import (
	"context"
	"fmt"
	"time"
)

// OpsConfig says which pages are loaded into the web index, and how.
type OpsConfig struct {
	Emulator string // EmbeddedEmulator or GcloudEmulator
	Pages    int    // of the crawl
	Changed  int    // of them, the second time
	// Delay is added to each request to the store and to the oracle, as by a network. It decides how many reads meet and travel
	// together.
	Delay time.Duration
	// Concurrency is how many runs of observers are under way at once. Reads travel together if they meet, so this has to be many: the
	// paper's workers have thousands of threads. 0: 128.
	Concurrency int
	// Collapse is how long the observers behind the first wait for further reasons to run; see index.Collapse.
	Collapse time.Duration

	// Progress is told after each of the loads how many of how many are done. nil: nobody wants to know.
	Progress func(done, all int)
}

// OpsReport is how many requests to Bigtable the web index makes.
//
// Without batching a request reads one row: GetMulti sends one for each, and nobody waits for others. Without prefetch it reads
// one column: nothing is read ahead, and several columns of a row are several requests. So with neither, each cell that a
// transaction asks for is a request of its own, but for what it has read already: what the paper's library would do without the
// means of its section 2.5. Ranges that are scanned, the change that an observer reads together with its acknowledgment, and a
// worker's search for notifications are the same in all.
type OpsReport struct {
	Machine
	Emulator string  `json:"emulator"`
	Delay    float64 `json:"delay_ms"`
	Collapse float64 `json:"collapse_ms"`
	// Concurrency is how many runs of observers may be under way at once.
	Concurrency int `json:"concurrency"`

	Pages    int          `json:"pages"`
	Changed  int          `json:"changed"`
	Variants []OpsVariant `json:"variants"` // the one with neither first, the one with both last
	// Load and Rerun compare the two.
	Load  OpsRatio `json:"load_ratio"`
	Rerun OpsRatio `json:"rerun_ratio"`
}

// OpsRatio is the requests for a page without batching and prefetch by those with both: how many times fewer they became. How often
// observers run for a page depends on what joins while they wait, so the two have not quite the same number of runs.
type OpsRatio struct {
	ReadRows float64 `json:"read_rows"`         // all reads
	PerRun   float64 `json:"read_rows_per_run"` // all reads, for a run of an observer instead of a page
	Gets     float64 `json:"gets"`              // only reads by key
	All      float64 `json:"all"`               // all requests to Bigtable
}

// OpsVariant is the web index with some of the means that save requests.
type OpsVariant struct {
	Batching    bool     `json:"batching"`
	Prefetch    bool     `json:"prefetch"`
	Load        OpsPhase `json:"load"`        // all pages into an empty index, while a worker runs, until it is idle
	Rerun       OpsPhase `json:"rerun"`       // all pages again, of which some have changed
	Differences int      `json:"differences"` // between the index and what the pages say: must be 0
}

// OpsPhase is what was counted while pages were loaded, until the observers were idle.
type OpsPhase struct {
	Pages    int              `json:"pages"` // that were written
	Seconds  float64          `json:"seconds"`
	Requests map[string]int   `json:"requests"` // to Bigtable, by kind
	Oracle   int              `json:"oracle"`   // timestamps asked for
	Reads    map[string]int   `json:"reads"`    // ReadRows by what they are for: get, scan, search, own
	Origins  []OpsOrigin      `json:"origins"`  // of reads, most requests first
	RowsRead int              `json:"rows_read"`
	Runs     map[string]int64 `json:"runs"` // of observers, by name: those that committed
	Attempts int64            `json:"attempts"`
}

// OpsOrigin is a kind of read.
type OpsOrigin struct {
	Kind     string `json:"kind"`
	Table    string `json:"table"`
	Columns  string `json:"columns,omitempty"` // "": all
	Requests int    `json:"requests"`
	Rows     int    `json:"rows"`  // that they named; 0 of ranges
	Cells    int    `json:"cells"` // that they named; 0 of ranges
}

// PerPage divides by the pages that were written.
func (p OpsPhase) PerPage(n int) float64 { return float64(n) / float64(max(1, p.Pages)) }

// TotalRuns is the runs of all observers.
func (p OpsPhase) TotalRuns() (n int64) {
	for _, r := range p.Runs {
		n += r
	}
	return n
}

// TotalRequests is the requests to Bigtable of all kinds.
func (p OpsPhase) TotalRequests() (n int) {
	for _, r := range p.Requests {
		n += r
	}
	return n
}

// RowsPerGet is how many rows a read by key names.
func (p OpsPhase) RowsPerGet() float64 {
	rows := 0
	for _, o := range p.Origins {
		if o.Kind == readGet {
			rows += o.Rows
		}
	}
	return float64(rows) / float64(max(1, p.Reads[readGet]))
}

// Ops runs the benchmark; it may take five minutes for each load and a second for each page of it.
func Ops(ctx context.Context, cfg OpsConfig) (*OpsReport, error) {
	ctx, cancel := context.WithTimeout(ctx, 8*(5*time.Minute+time.Duration(cfg.Pages)*time.Second))
	defer cancel()
	if cfg.Concurrency == 0 {
		cfg.Concurrency = 128
	}
	pages, err := writeOpsCrawl(ctx, cfg.Pages, cfg.Changed)
	if err != nil {
		return nil, err
	}
	defer pages.remove()
	report := &OpsReport{Machine: ThisMachine(time.Now()), Pages: pages.pages, Changed: pages.changed, Concurrency: cfg.Concurrency,
		Delay: float64(cfg.Delay) / float64(time.Millisecond), Collapse: float64(cfg.Collapse) / float64(time.Millisecond)}
	done := 0
	step := func() {
		if done++; cfg.Progress != nil {
			cfg.Progress(done, 8)
		}
	}
	for _, v := range []OpsVariant{{}, {Prefetch: true}, {Batching: true}, {Batching: true, Prefetch: true}} {
		emulator, err := v.measure(ctx, cfg, pages, step)
		if err != nil {
			return nil, fmt.Errorf("batching %v, prefetch %v: %w", v.Batching, v.Prefetch, err)
		}
		report.Emulator = emulator
		report.Variants = append(report.Variants, v)
	}
	without, with := report.Variants[0], report.Variants[3]
	report.Load, report.Rerun = ratioOf(without.Load, with.Load), ratioOf(without.Rerun, with.Rerun)
	return report, nil
}

func ratioOf(without, with OpsPhase) OpsRatio {
	ratio := func(a, b int) float64 { return without.PerPage(a) / with.PerPage(max(1, b)) }
	reads := ratio(without.Requests[kindReadRows], with.Requests[kindReadRows])
	return OpsRatio{
		ReadRows: reads,
		PerRun:   reads / ratio(int(without.TotalRuns()), int(with.TotalRuns())),
		Gets:     ratio(without.Reads[readGet], with.Reads[readGet]),
		All:      ratio(without.TotalRequests(), with.TotalRequests()),
	}
}
