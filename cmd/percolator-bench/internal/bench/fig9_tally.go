package bench

import (
	"sync"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/tpce"
)

// fig9Kind is what was counted of one type of transaction.
type fig9Kind struct {
	Count     int64                  `json:"count"`
	Conflicts int64                  `json:"conflicts"`
	Latencies *hdrhistogram.Snapshot `json:"latencies"`
}

// fig9Tally counts the transactions that end between begin and end.
type fig9Tally struct {
	mu       sync.Mutex
	counting bool
	executed int64
	kinds    map[tpce.Kind]*fig9Count
}

type fig9Count struct {
	count, conflicts int64
	latencies        *hdrhistogram.Histogram
}

func newFig9Tally() *fig9Tally {
	t := &fig9Tally{kinds: map[tpce.Kind]*fig9Count{}}
	for _, k := range tpce.Kinds {
		t.kinds[k] = &fig9Count{latencies: newHistogram()}
	}
	return t
}

func (t *fig9Tally) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counting = true
}

func (t *fig9Tally) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counting = false
}

func (t *fig9Tally) done(d tpce.Done) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.counting {
		return
	}
	if d.Executed {
		t.executed++
	}
	k := t.kinds[d.Kind]
	k.count++
	k.conflicts += int64(d.Attempts - 1)
	_ = k.latencies.RecordValue(min(int64(d.Took), longest)) // what is longer counts as the longest
}

func (t *fig9Tally) export() (kinds map[tpce.Kind]*fig9Kind, executed int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	kinds = map[tpce.Kind]*fig9Kind{}
	for name, k := range t.kinds {
		kinds[name] = &fig9Kind{Count: k.count, Conflicts: k.conflicts, Latencies: k.latencies.Export()}
	}
	return kinds, t.executed
}
