// Package summary says what a command did: for people as a table, for programs as JSON.
package summary

import (
	"math"
	"time"

	"github.com/gopercolator/percolator/cmd/webindex/index"
	"github.com/gopercolator/percolator/cmd/webindex/load"
	"github.com/gopercolator/percolator/percolator"
)

// Summary is what was done for one input, or by one command. Every number was counted where the
// thing happens: by the loader, by the client that sent the requests, by the worker that ran the
// observers, and in the store afterwards. What this process did not do is 0, however much others
// did meanwhile; what was not looked at is absent.
type Summary struct {
	// Input is the crawl that was loaded; "" for a command that loads nothing.
	Input string `json:"input,omitempty"`

	Loaded
	*Stored
	Worked

	// Transactions committed with writes, attempts that ended in a conflict, and notifications
	// written by this process.
	Transactions  int64 `json:"transactions"`
	Conflicts     int64 `json:"conflicts"`
	Notifications int64 `json:"notifications"`
	// Requests are those of this process to Bigtable and the oracle.
	Requests Requests `json:"requests"`
	// Seconds is how long the work took; for an input, from the first page until no observer had
	// work left. Verification and the counting for this summary are not included.
	Seconds float64 `json:"seconds"`
	// Latency is from load to searchable.
	Latency Latency `json:"latencyMillis"`

	*Verified
	*Deleted
}

// Loaded is what became of an input.
type Loaded struct {
	// Pages were in the input and have a place in the store now, whatever their status and type.
	Pages int64 `json:"pages"`
	load.Counts
}

// Stored is what the store held when the work was done, in one snapshot.
type Stored = index.Totals

// Worked is what the workers did.
type Worked struct {
	ObserverRuns int64            `json:"observerRuns"` // that committed
	Observers    map[string]int64 `json:"observers"`    // the same, by observer
	Parked       int              `json:"parked"`       // cells given up after too many failures
}

// Verified is the result of a verification.
type Verified struct {
	Differences   int     `json:"differences"`
	VerifySeconds float64 `json:"verifySeconds"`
}

// Deleted is what a deletion did.
type Deleted struct {
	Deleted int `json:"deleted"` // pages
	Missing int `json:"missing"` // URLs that were not in the store
}

// Requests counts requests by kind, and all of them together for each page that this process
// loaded.
type Requests struct {
	ByKind  map[string]int64 `json:"byKind"`
	Total   int64            `json:"total"`
	PerPage float64          `json:"perPage"` // 0 if no page was loaded
}

// Latency is how long pages took to become searchable, in milliseconds: from the commit of the
// transaction that stored the page to the commit of the one that put it into the serving tables.
type Latency struct {
	P50   float64 `json:"p50"`
	P95   float64 `json:"p95"`
	Pages int     `json:"pages"` // that became searchable
}

// NewLatency takes the quantiles of sorted durations (by nearest rank).
func NewLatency(sorted []time.Duration) Latency {
	if len(sorted) == 0 {
		return Latency{}
	}
	quantile := func(q float64) float64 {
		at := int(math.Ceil(q*float64(len(sorted)))) - 1
		return math.Round(float64(sorted[max(at, 0)])/float64(time.Millisecond)*10) / 10
	}
	return Latency{P50: quantile(0.5), P95: quantile(0.95), Pages: len(sorted)}
}

// SetStats fills in what clients counted between two moments.
func (s *Summary) SetStats(before, after percolator.Stats) {
	s.Transactions = after.Transactions - before.Transactions
	s.Conflicts = after.Conflicts - before.Conflicts
	s.Notifications = after.Notifications - before.Notifications
	s.Requests = Requests{ByKind: map[string]int64{}}
	for kind, n := range after.Requests {
		n -= before.Requests[kind]
		s.Requests.ByKind[kind] = n
		s.Requests.Total += n
	}
	if pages := s.Pages - s.Earlier; pages > 0 {
		s.Requests.PerPage = math.Round(float64(s.Requests.Total)/float64(pages)*100) / 100
	}
}
