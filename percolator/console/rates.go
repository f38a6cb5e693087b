package console

import (
	"fmt"
	"math"
	"time"

	"github.com/gopercolator/percolator/percolator/admin"
)

// rates turns cumulative counters of processes and servers, which come at different times, into
// what happens per second now. A process reports every few seconds: what it did between its last
// two reports counts until the next one.
type rates struct {
	processes map[string]*pace
	servers   map[string]*served
}

func newRates() *rates { return &rates{map[string]*pace{}, map[string]*served{}} }

// pace is what a process did between two readings of its counters.
type pace struct {
	last    admin.Report
	between float64 // seconds; 0: there is only one reading
	done    work
}

// work is what happened between two readings.
type work struct {
	committed, conflicts, aborts, lockWaits, runs, failures, reads, conditional, mutations int64
	waited                                                                                 time.Duration
	commit, get                                                                            admin.LatencyCounts
}

func workOf(r admin.Report) work {
	return work{
		committed: r.Stats.Transactions, conflicts: r.Stats.Conflicts, aborts: r.Stats.Aborts,
		lockWaits: r.Stats.LockWaits, waited: r.Stats.LockWaitTime,
		runs: r.Worker.Runs, failures: r.Worker.Errors + r.Worker.Panics,
		reads: r.Stats.Requests["ReadRows"], conditional: r.Stats.Requests["CheckAndMutateRow"], mutations: r.Stats.Requests["MutateRows"],
		commit: r.Stats.Latency["commit"], get: r.Stats.Latency["get"].Add(r.Stats.Latency["get_multi"]),
	}
}

func (w work) minus(o work) work {
	return work{
		w.committed - o.committed, w.conflicts - o.conflicts, w.aborts - o.aborts, w.lockWaits - o.lockWaits, w.runs - o.runs, w.failures - o.failures,
		w.reads - o.reads, w.conditional - o.conditional, w.mutations - o.mutations, w.waited - o.waited, w.commit.Sub(o.commit), w.get.Sub(o.get),
	}
}

// process takes in the counters of all live processes. Those that are not there any more count no
// longer.
func (r *rates) process(list []admin.Report) {
	live := map[string]*pace{}
	for _, report := range list {
		id := fmt.Sprint(report.Name, " ", int64(report.Started))
		p := r.processes[id]
		if p == nil {
			p = &pace{last: report}
		} else if seconds := report.Written.Sub(p.last.Written).Seconds(); seconds > 0 {
			p.done, p.between, p.last = workOf(report).minus(workOf(p.last)), seconds, report
		}
		live[id] = p
	}
	r.processes = live
}

// served is how many timestamps a server of the oracle has handed out.
type served struct {
	count int64
	at    time.Time
	rate  float64 // NaN: there is only one reading
}

func (r *rates) oracle(list []oracleServer, at time.Time) {
	live := map[string]*served{}
	for _, s := range list {
		if s.Failed != nil {
			continue
		}
		was := r.servers[s.Server]
		switch {
		case was == nil:
			was = &served{s.Served, at, math.NaN()}
		case at.After(was.at):
			was = &served{s.Served, at, float64(s.Served-was.count) / at.Sub(was.at).Seconds()}
		}
		live[s.Server] = was
	}
	r.servers = live
}

// sample is the present rates of everything together.
func (r *rates) sample(s *sample) {
	var commit, get admin.LatencyCounts
	known := false
	var sums [seriesCount]float64
	for _, p := range r.processes {
		if p.between == 0 {
			continue
		}
		known = true
		commit, get = commit.Add(p.done.commit), get.Add(p.done.get)
		for series, n := range map[int]float64{
			committed: float64(p.done.committed), conflicts: float64(p.done.conflicts), aborts: float64(p.done.aborts),
			lockWaits: float64(p.done.lockWaits), lockWaitTime: p.done.waited.Seconds(),
			runs: float64(p.done.runs), failures: float64(p.done.failures),
			reads: float64(p.done.reads), conditional: float64(p.done.conditional), mutations: float64(p.done.mutations),
		} {
			sums[series] += n / p.between
		}
	}
	if known {
		for _, series := range []int{committed, conflicts, aborts, lockWaits, lockWaitTime, runs, failures, reads, conditional, mutations} {
			s.Values[series] = sums[series]
		}
	}
	quantiles(s, commit, commitMedian, commitTail)
	quantiles(s, get, readMedian, readTail)
	for _, server := range r.servers {
		if !math.IsNaN(server.rate) {
			s.Values[timestamps] = server.rate + zeroIfUnknown(s.Values[timestamps])
		}
	}
}

func quantiles(s *sample, l admin.LatencyCounts, median, tail int) {
	if l.Count > 0 {
		s.Values[median], s.Values[tail] = l.Quantile(0.5).Seconds(), l.Quantile(0.99).Seconds()
	}
}

func zeroIfUnknown(v float64) float64 {
	if math.IsNaN(v) {
		return 0
	}
	return v
}
