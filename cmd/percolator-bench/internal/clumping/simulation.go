// Package clumping measures what section 2.4 of the paper calls platooning, or bus clumping:
// scanners that end up at the same place of a table, because one that is in a busy region is slow
// and those behind it, which pass over what it has cleaned, are fast.
//
// It simulates workers in virtual time. Their scanners are those of package scanning, with the same
// pages, pauses, row locks, teleports and shares as in a worker; the table, the queue of a worker,
// and the time that requests and runs take are models. The course of a simulation depends on its
// [Config] alone.
package clumping

import (
	"context"
	"fmt"
	"time"
)

// Config is what is simulated. Times are virtual.
type Config struct {
	Workers     int // 1 to MaxScanners / Scanners
	Scanners    int // of each worker
	Concurrency int // runs at once on each worker
	Queue       int // cells that a worker has queued at most
	Page        int // rows that are read at once, at most
	Rows        int // of the table, dirty or not; 1,000 to 10,000,000
	Tablets     int // 1 to Rows

	Writes   float64       // rows a second that become dirty, anywhere in the table
	Run      time.Duration // of an observer
	Slow     float64       // share of the table in which runs take SlowBy times as long, as two regions
	SlowBy   float64
	Request  time.Duration // what a request takes at least; twice as long if another scanner reads in the tablet, and so on
	Tablet   time.Duration // to read through a tablet without dirty rows, likewise
	Duration time.Duration
	Every    time.Duration // between two looks at where the scanners are
	Seed     uint64
}

// MaxScanners is how many scanners all workers have together at most.
const MaxScanners = 64

// Default is a table under heavy load: about four fifths of the workers' time is needed for runs.
func Default() Config {
	return Config{
		Workers: 8, Scanners: 2, Concurrency: 8, Queue: 64, Page: 64, Rows: 1 << 16, Tablets: 64,
		Writes: 1600, Run: 20 * time.Millisecond, Slow: 1. / 16, SlowBy: 10,
		Request: 5 * time.Millisecond, Tablet: 50 * time.Millisecond,
		Duration: 5 * time.Minute, Every: time.Second, Seed: 1,
	}
}

func (c Config) check() error {
	switch {
	case c.Workers < 1 || c.Scanners < 1 || c.Workers > MaxScanners || c.Scanners > MaxScanners || c.Workers*c.Scanners > MaxScanners:
		return fmt.Errorf("clumping: %d workers with %d scanners each; 1 to %d scanners are possible", c.Workers, c.Scanners, MaxScanners)
	case c.Concurrency < 1 || c.Concurrency > 10_000 || c.Queue < 1 || c.Queue > 1e6 || c.Page < 1 || c.Page > 1e6:
		return fmt.Errorf("clumping: a concurrency of %d, a queue of %d, a page of %d: out of bounds", c.Concurrency, c.Queue, c.Page)
	case c.Rows < 1000 || c.Rows > 10_000_000 || c.Tablets < 1 || c.Tablets > c.Rows:
		return fmt.Errorf("clumping: %d rows in %d tablets; 1,000 to 10,000,000 rows are possible", c.Rows, c.Tablets)
	case !(c.Writes >= 0 && c.Writes <= 1e6) || !(c.Slow >= 0 && c.Slow <= 1) || !(c.SlowBy >= 1 && c.SlowBy <= 1e6):
		return fmt.Errorf("clumping: %g writes a second, %g of the table slow by %g: out of bounds", c.Writes, c.Slow, c.SlowBy)
	case c.Run <= 0 || c.Request <= 0 || c.Tablet < 0 || c.Every <= 0 || c.Duration < c.Every || c.Duration > 24*time.Hour || c.Duration/c.Every > 1e6:
		return fmt.Errorf("clumping: a run of %v, a request of %v, a tablet of %v, %v in steps of %v: out of bounds", c.Run, c.Request, c.Tablet, c.Duration, c.Every)
	}
	return nil
}

// Variant is a way to search.
type Variant struct {
	Name      string `json:"name"`
	Stay      bool   `json:"stay"`      // instead of teleporting, go on behind rows that another scanner has locked
	NoLocks   bool   `json:"no_locks"`  // between workers; scanners of one worker have them always
	Briefly   bool   `json:"briefly"`   // rows are locked until they are queued, not until they are done
	Partition bool   `json:"partition"` // the table is divided among the workers
}

// Variants are those to compare.
func Variants() []Variant {
	return []Variant{
		{Name: "no teleporting", Stay: true},
		{Name: "no teleporting, no row locks", Stay: true, NoLocks: true},
		{Name: "teleporting"},
		{Name: "teleporting, rows locked until queued", Briefly: true},
		{Name: "teleporting, no row locks", NoLocks: true},
		{Name: "static partition", Partition: true},
	}
}

// Sample is where the scanners are at one instant.
type Sample struct {
	Seconds float64 `json:"seconds"`
	// Mean and Least are the mean and the least distance of two scanners, as fractions of the table
	// (at most one half, as a pass goes around). Of scanners at random places the mean is one quarter.
	Mean  float64 `json:"mean_distance"`
	Least float64 `json:"least_distance"`
	Close float64 `json:"close"`      // share of the pairs that are less than a hundredth of the table apart
	Twice float64 `json:"read_twice"` // share of the rows read since the last sample that another scanner had read since they became dirty
	Dirty int     `json:"dirty"`      // rows
}

// Result is what came out of a variant.
type Result struct {
	Variant
	Samples []Sample `json:"samples"`

	// Means over the second half of the time, when the beginning is forgotten.
	Mean  float64 `json:"mean_distance"`
	Least float64 `json:"least_distance"`
	Close float64 `json:"close"`
	Twice float64 `json:"read_twice"`

	// Of the whole time.
	Written   int     `json:"written"` // rows that became dirty
	Reads     int     `json:"reads"`   // rows that scanners read, each time
	Runs      int     `json:"runs"`
	Wasted    float64 `json:"wasted"` // share of the runs that found the row clean, because another worker was faster
	Waited    float64 `json:"waited_seconds"`
	Teleports int64   `json:"teleports"`
	Dirty     int     `json:"dirty"` // rows at the end
}

// Run simulates a variant until it is over or ctx ends.
func Run(ctx context.Context, cfg Config, v Variant) (Result, error) {
	if err := cfg.check(); err != nil {
		return Result{}, err
	}
	s := newWorld(ctx, cfg, v)
	defer s.end()
	return s.run()
}
