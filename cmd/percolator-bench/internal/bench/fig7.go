package bench

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Fig7Config says how the clustering of crawled documents is measured (figure 7 of the paper).
type Fig7Config struct {
	Emulator  string        // EmbeddedEmulator or GcloudEmulator
	Documents int           // of the repository, already clustered when the crawl begins
	Rates     []float64     // documents that arrive a second, ascending
	Duration  time.Duration // how long documents arrive, at each rate and for each side
	Seed      uint64        // of keys and arrivals
	// ScanInterval is the pause between two searches of the worker for notifications; 0: adaptive. A search finds what direct
	// dispatch has lost. In a locality group of its own (section 2.4) it reads what is dirty; an emulator has none and passes
	// over all rows and all cells.
	ScanInterval time.Duration

	// Progress is told after each measurement how many of how many are done. nil: nobody wants to know.
	Progress func(done, all int)
}

// Fig7Report is what was measured. The latency of a document is from when it was to be loaded until its cluster was committed.
type Fig7Report struct {
	Machine
	Emulator  string          `json:"emulator"`
	Documents int             `json:"documents"`
	Keys      int             `json:"keys"` // of each kind, from which a document has one at random
	Cluster   float64         `json:"mean_cluster"`
	Duplicate float64         `json:"share_not_alone"` // of documents in a cluster of two or more
	Setup     float64         `json:"setup_seconds"`
	Duration  float64         `json:"duration_seconds"`
	Rates     []Fig7Rate      `json:"rates"`
	Saturated *Fig7Saturation `json:"saturated"` // nil: observers kept up with all rates
	Crossover *Fig7Crossover  `json:"crossover"` // nil: none in range
}

// Fig7Rate is one crawl rate: both sides were offered the same documents at the same moments.
type Fig7Rate struct {
	Rate      float64       `json:"per_second"`
	Percent   float64       `json:"percent_of_repository_per_hour"`
	Observers Fig7Observers `json:"observers"`
	Batch     Fig7Batch     `json:"batch"`
}

// Fig7Delivery is what both sides have.
type Fig7Delivery struct {
	Offered   int     `json:"offered"`              // documents
	Delivered float64 `json:"delivered_per_second"` // clustered while documents arrived
	Clustered int     `json:"clustered"`            // of those offered, in the end
	Latency   Spread  `json:"latency"`
	Mean      float64 `json:"mean_ms"`

	Requests map[string]int64 `json:"requests"`     // to Bigtable, by method
	Cluster  float64          `json:"mean_cluster"` // in the end
	// Checked is how many cells were compared with what the same clustering in memory gives, and Differences how many of them
	// differ: must be 0.
	Checked     int `json:"checked"`
	Differences int `json:"differences"`
}

// Fig7Observers is clustering by an observer of each document.
type Fig7Observers struct {
	Fig7Delivery
	// Saturated: when the last document had arrived, more than a tenth of all were still waiting. Nothing more was done for them;
	// they count in the latencies with the time that they had waited by then, so what is reported is a lower bound, and grows
	// with the duration.
	Saturated bool  `json:"saturated"`
	Backlog   int   `json:"backlog"` // documents not clustered when the last one had arrived
	Runs      int64 `json:"runs"`    // of the observer, that committed
	Conflicts int64 `json:"conflicts"`
	Found     int64 `json:"found_by_scan"` // notifications that direct dispatch had lost
}

// Fig7Batch is clustering by passes over the whole repository, one after the other.
type Fig7Batch struct {
	Fig7Delivery
	// Saturated: documents that arrived in the second half waited more than twice as long as those of the first, so they would
	// wait ever longer.
	Saturated bool `json:"saturated"`

	Passes int     `json:"passes"`
	Pass   Summary `json:"pass_ms"`
	Read   int     `json:"read_per_pass"` // documents, in the mean
}

// Fig7Saturation is the first rate that observers did not keep up with.
type Fig7Saturation struct {
	Rate      float64 `json:"per_second"`
	Delivered float64 `json:"delivered_per_second"` // what they managed there
	Percent   float64 `json:"delivered_percent_of_repository_per_hour"`
}

// fig7Patience bounds each step that no rate and no duration bounds: the end of a measurement, its verification, its removal.
const fig7Patience = 5 * time.Minute

// Fig7 fills a repository and lets documents arrive at one rate after the other, for observers and for batch passes in turns.
// What arrived is removed after each measurement, so that all of them begin with the same repository.
func Fig7(ctx context.Context, cfg Fig7Config) (_ *Fig7Report, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(2*len(cfg.Rates))*(cfg.Duration+fig7Patience)+time.Hour)
	defer cancel()
	begun := time.Now()
	s, err := startFig7(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.ground.close()) }()
	r := &Fig7Report{
		Machine: ThisMachine(begun), Emulator: s.ground.emulator, Documents: cfg.Documents, Keys: int(s.crawl.keys),
		Cluster: s.base.mean(), Duplicate: s.base.notAlone(), Setup: time.Since(begun).Seconds(), Duration: cfg.Duration.Seconds(),
	}
	done, next := 0, cfg.Documents
	step := func() {
		if done++; cfg.Progress != nil {
			cfg.Progress(done, 1+2*len(cfg.Rates))
		}
	}
	step()
	for i, rate := range cfg.Rates {
		at := Fig7Rate{Rate: rate, Percent: percentPerHour(rate, cfg.Documents)}
		a := s.crawl.arrivals(next, rate, cfg.Duration)
		next = a.end()
		sides := []func() error{
			func() (err error) { at.Observers, err = s.measureObservers(ctx, a); return err },
			func() (err error) { at.Batch, err = s.measureBatch(ctx, a); return err },
		}
		for j := range sides { // who begins alternates
			if err := sides[(i+j)%len(sides)](); err != nil {
				return nil, fmt.Errorf("%v documents a second: %w", rate, err)
			}
			step()
		}
		if n := at.Observers.Differences + at.Batch.Differences; n > 0 {
			return nil, fmt.Errorf("%v documents a second: %d cells are not what clustering in memory gives (observers %d, batch %d)", rate,
				n, at.Observers.Differences, at.Batch.Differences)
		}
		r.Rates = append(r.Rates, at)
		if o := at.Observers; o.Saturated && r.Saturated == nil {
			r.Saturated = &Fig7Saturation{Rate: rate, Delivered: o.Delivered, Percent: percentPerHour(o.Delivered, cfg.Documents)}
		}
	}
	r.Crossover = fig7Crossover(r.Rates, cfg.Documents)
	return r, nil
}

func percentPerHour(perSecond float64, documents int) float64 {
	return 100 * perSecond * time.Hour.Seconds() / float64(documents)
}
