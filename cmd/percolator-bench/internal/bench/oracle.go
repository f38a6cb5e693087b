// Package bench measures. Its programs run in processes of their own, so that what a
// server costs and what its clients cost are not the same scheduler's queue, and print
// what they did.
package bench

import (
	"context"
	"fmt"
	"runtime"
	"time"
)

// OracleConfig says how the timestamp oracle is measured.
type OracleConfig struct {
	// Self is the command line that runs a part of the benchmark in another process;
	// "server" or "load" follow.
	Self []string

	// Processes is how many processes share the callers. Each has one processor when
	// there are as many as processors, as Go's scheduler hands no more timestamps to
	// waiting callers with two of them than with one.
	Processes int

	// Clients is how many clients of the oracle each process has, among which its callers
	// are divided. Each has one request on the way.
	Clients int

	// Callers is, for each closed-loop measurement, how many callers there are in all
	// processes.
	Callers []int

	// Duration is how long each measurement takes.
	Duration time.Duration

	// Offered is, in timestamps a second, the load of the measurement of latencies, by
	// OfferedCallers callers.
	Offered        int
	OfferedCallers int

	// Total is how many timestamps the measurement of memory takes; 0: none.
	Total int64

	// Repeat is how often each rate is measured.
	Repeat int

	// Progress is told after each measurement how many of how many are done.
	Progress func(done, all int)
}

// OracleReport is what was measured.
type OracleReport struct {
	CPUs      int    `json:"cpus"`
	GoVersion string `json:"go"`
	Processes int    `json:"processes"` // in which the callers were; the server had one of its own
	Date      string `json:"date"`

	Single  Single       `json:"single"`
	Rates   []Rate       `json:"rates"`
	Offered Latencies    `json:"offered"`
	Memory  []MemoryUsed `json:"memory,omitempty"`
	Writes  StoreWrites  `json:"store_writes"`
}

// Single compares the round trip of one caller with that of an empty gRPC call. Both
// were made in turns, in slices of some milliseconds.
type Single struct {
	Next  Summary `json:"next_us"`
	Empty Summary `json:"empty_us"`
	Ratio Summary `json:"ratio"` // of neighbouring slices
}

// Summary is the spread of a measurement that was repeated.
type Summary struct {
	Min    float64 `json:"min"`
	Median float64 `json:"median"`
	Max    float64 `json:"max"`
}

// Rate is how many timestamps were delivered to callers that each asked again as soon
// as they had one.
type Rate struct {
	Callers   int     `json:"callers"`
	PerSecond Summary `json:"per_second"`
}

// Latencies are those of callers that ask at set times, counted from when a caller was
// due, so that a caller that is late counts as waiting.
type Latencies struct {
	Callers   int     `json:"callers"`
	Offered   float64 `json:"offered_per_second"`
	Delivered float64 `json:"delivered_per_second"`
	P50       float64 `json:"p50_ms"`
	P99       float64 `json:"p99_ms"`
	P999      float64 `json:"p999_ms"`
	Max       float64 `json:"max_ms"`
}

// MemoryUsed is what lived on the heap after so many timestamps.
type MemoryUsed struct {
	Timestamps int64 `json:"timestamps"`
	Server     int64 `json:"server_heap_bytes"`
	Load       int64 `json:"load_heap_bytes"` // of all load processes
}

// StoreWrites is what the measurements cost the store.
type StoreWrites struct {
	Timestamps int64   `json:"timestamps"`
	Writes     int64   `json:"writes"`
	Seconds    float64 `json:"seconds"`
}

// Oracle runs the benchmark.
func Oracle(ctx context.Context, cfg OracleConfig) (report *OracleReport, err error) {
	report = &OracleReport{
		CPUs: runtime.NumCPU(), GoVersion: runtime.Version(), Processes: cfg.Processes,
		Date: time.Now().UTC().Format(time.DateOnly),
	}
	server, err := startServer(ctx, cfg.Self)
	if err != nil {
		return nil, err
	}
	defer func() { err = firstOf(err, server.stop()) }()
	begun := time.Now()

	loads, err := startLoads(ctx, cfg, server.addresses)
	if err != nil {
		return nil, err
	}
	defer func() { err = firstOf(err, loads.stop()) }()

	all, done := 2+len(cfg.Callers)*cfg.Repeat, 0
	if cfg.Total > 0 {
		all += memorySteps
	}
	step := func() {
		if done++; cfg.Progress != nil {
			cfg.Progress(done, all)
		}
	}
	if report.Single, err = measureSingle(ctx, server.addresses, cfg.Duration); err != nil {
		return nil, err
	}
	step()
	if report.Rates, err = loads.measureRates(cfg, step); err != nil {
		return nil, err
	}
	if report.Offered, err = loads.measureOffered(cfg); err != nil {
		return nil, err
	}
	step()
	if cfg.Total > 0 {
		if report.Memory, err = loads.measureMemory(cfg, server, step); err != nil {
			return nil, err
		}
	}
	stats, err := server.stats()
	if err != nil {
		return nil, err
	}
	report.Writes = StoreWrites{Timestamps: stats.Served, Writes: stats.Writes, Seconds: time.Since(begun).Seconds()}
	return report, nil
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// measureRates lets the callers ask as fast as they can.
func (l *loads) measureRates(cfg OracleConfig, step func()) ([]Rate, error) {
	rates := make([]Rate, 0, len(cfg.Callers))
	for _, callers := range cfg.Callers {
		var samples []float64
		for range cfg.Repeat {
			results, err := l.run(job{Callers: callers, Duration: cfg.Duration})
			if err != nil {
				return nil, fmt.Errorf("%d callers: %w", callers, err)
			}
			sum := 0.0
			for _, r := range results {
				sum += float64(r.Count) / r.Seconds
			}
			samples = append(samples, sum)
			step()
		}
		rates = append(rates, Rate{Callers: callers, PerSecond: summarize(samples)})
	}
	return rates, nil
}

// measureOffered lets each caller ask at its own times.
func (l *loads) measureOffered(cfg OracleConfig) (Latencies, error) {
	results, err := l.run(job{Callers: cfg.OfferedCallers, Duration: cfg.Duration, Rate: float64(cfg.Offered)})
	if err != nil {
		return Latencies{}, fmt.Errorf("%d timestamps a second: %w", cfg.Offered, err)
	}
	merged := newHistogram()
	out := Latencies{Callers: cfg.OfferedCallers, Offered: float64(cfg.Offered)}
	for _, r := range results {
		out.Delivered += float64(r.Count) / r.Seconds
		merged.Merge(importHistogram(r.Latencies))
	}
	ms := func(quantile float64) float64 { return float64(merged.ValueAtQuantile(quantile)) / 1e6 }
	out.P50, out.P99, out.P999, out.Max = ms(50), ms(99), ms(99.9), float64(merged.Max())/1e6
	return out, nil
}

// memorySteps is how often the heap is looked at while the timestamps are taken.
const memorySteps = 10

// measureMemory takes cfg.Total timestamps and looks at what lives on the heaps.
func (l *loads) measureMemory(cfg OracleConfig, server *child, step func()) ([]MemoryUsed, error) {
	var used []MemoryUsed
	var total int64
	for i := range memorySteps {
		var heap int64
		results, err := l.run(job{Callers: 1024, Total: cfg.Total*int64(i+1)/memorySteps - total})
		if err != nil {
			return nil, err
		}
		for _, r := range results {
			total += r.Count
			heap += r.Heap
		}
		stats, err := server.stats()
		if err != nil {
			return nil, err
		}
		used = append(used, MemoryUsed{Timestamps: total, Server: stats.Heap, Load: heap})
		step()
	}
	return used, nil
}
