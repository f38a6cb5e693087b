package bench

import (
	"context"
	"fmt"
	"time"
)

// LatencyConfig says how the latency of transactions is measured.
type LatencyConfig struct {
	Emulator string // EmbeddedEmulator or GcloudEmulator

	// Delay is added to each request to the store and to each request for a timestamp. It should be long compared with what the
	// emulator needs, or the processor is measured and not how many requests follow each other.
	Delay time.Duration
	// Iterations is how many transactions of each kind a repetition has.
	Iterations int
	Repeat     int

	// Progress is told after each kind of transaction how many of how many are done. nil: nobody wants to know.
	Progress func(done, all int)
}

// LatencyReport is how long transactions take, in multiples of the time of one raw request under the same delay.
type LatencyReport struct {
	Machine
	Emulator     string               `json:"emulator"`
	Delay        float64              `json:"delay_ms"`
	Iterations   int                  `json:"iterations"`
	Repeat       int                  `json:"repeat"`
	RawRead      Summary              `json:"raw_read_row_ms"`   // of all repetitions' means
	RawMutate    Summary              `json:"raw_mutate_row_ms"` // likewise
	Transactions []TransactionLatency `json:"transactions"`
	Verified     int                  `json:"verified_cells"` // read back at the end, each with the value that was committed
}

// TransactionLatency is one kind of transaction, by one goroutine, from Begin until the last call of it has returned.
type TransactionLatency struct {
	Name string `json:"name"`
	// Multiple is in raw requests: the mean of a repetition by the mean of raw ReadRow and MutateRow that were sent between its
	// transactions.
	Multiple     Summary `json:"multiple"`
	Milliseconds Summary `json:"ms"`
	// Goal is the greatest multiple that is wanted; 0: none was set.
	Goal     float64  `json:"goal,omitempty"`
	Requests Requests `json:"requests"`
	// AtHand is, of a blind transaction, how often its start timestamp had been fetched in time, and nothing else had to be asked
	// for before the commit timestamp; as a share of all that were timed.
	AtHand *float64 `json:"start_timestamp_at_hand,omitempty"`
	// Ahead is how many timestamps each of them had fetched in the background, for others after it.
	Ahead *float64 `json:"timestamps_fetched_ahead,omitempty"`
}

// Requests is what one transaction sends, phase two included.
type Requests struct {
	Counted           int   `json:"counted"` // transactions
	ReadRows          Range `json:"ReadRows"`
	CheckAndMutateRow Range `json:"CheckAndMutateRow"`
	MutateRows        Range `json:"MutateRows"`
	Storage           Range `json:"storage"` // the three together
	Oracle            Range `json:"Oracle"`  // only those for which the transaction waited
	// StorageGoal is how many storage requests are wanted at most; 0: none was set.
	StorageGoal int `json:"storage_goal,omitempty"`
}

// Range is what was seen from the least to the most: twice the same if it does not vary.
type Range struct {
	Least int `json:"least"`
	Most  int `json:"most"`
}

// String is a number, or two.
func (r Range) String() string {
	if r.Least == r.Most {
		return fmt.Sprint(r.Least)
	}
	return fmt.Sprintf("%d-%d", r.Least, r.Most)
}

func rangeOf(counts []int) (r Range) {
	for i, n := range counts {
		if i == 0 || n < r.Least {
			r.Least = n
		}
		r.Most = max(r.Most, n)
	}
	return r
}

const (
	// latencyTurn is how many transactions follow each other before it is the raw requests' turn. A blind transaction takes a
	// timestamp that was fetched during those before it, so there have to be some.
	latencyTurn = 10
	// countedTransactions is of how many transactions of each kind the requests are counted.
	countedTransactions = 10
)

// Latency runs the benchmark. It gives up when it takes ten times as long as its requests one after the other.
func Latency(ctx context.Context, cfg LatencyConfig) (_ *LatencyReport, err error) {
	const requests = 60 // of all kinds of transactions, one each, with the raw requests beside them
	each := requests * (cfg.Delay + time.Millisecond)
	ctx, cancel := context.WithTimeout(ctx, patience+10*each*time.Duration(cfg.Repeat*cfg.Iterations+1+countedTransactions))
	defer cancel()
	f, err := startLatencyField(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer func() { err = firstOf(err, f.close()) }()
	report := &LatencyReport{
		Machine: ThisMachine(time.Now()), Emulator: f.emulator, Delay: float64(cfg.Delay) / float64(time.Millisecond),
		Iterations: cfg.Iterations, Repeat: cfg.Repeat,
	}
	works := f.works()
	done, all := 0, len(works)*(cfg.Repeat+1)
	step := func() {
		if done++; cfg.Progress != nil {
			cfg.Progress(done, all)
		}
	}
	for _, w := range works {
		requests, err := f.count(ctx, w)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", w.name, err)
		}
		requests.StorageGoal = w.storageGoal
		report.Transactions = append(report.Transactions, TransactionLatency{Name: w.name, Goal: w.goal, Requests: requests})
		step()
	}
	var raw rawTimes
	timed := make([]timedWork, len(works))
	for range cfg.Repeat {
		for i, w := range works {
			if err := f.time(ctx, cfg, w, &timed[i], &raw); err != nil {
				return nil, fmt.Errorf("%s: %w", w.name, err)
			}
			step()
		}
	}
	report.RawRead, report.RawMutate = summarize(raw.reads), summarize(raw.mutates)
	for i, w := range works {
		timed[i].fill(&report.Transactions[i], w, cfg.Repeat*cfg.Iterations)
	}
	report.Verified, err = f.verify(ctx, works)
	return report, err
}

// fill puts what was measured into the report.
func (t timedWork) fill(out *TransactionLatency, w *latencyWork, n int) {
	out.Multiple, out.Milliseconds = summarize(t.multiples), summarize(t.means)
	if w.blind {
		atHand, ahead := float64(t.atHand)/float64(n), float64(t.ahead)/float64(n)
		out.AtHand, out.Ahead = &atHand, &ahead
	}
}
