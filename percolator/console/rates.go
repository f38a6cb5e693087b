package console

import (
	"fmt"
	"math"
	"time"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// rates turns cumulative counters of processes and servers, which arrive at different times, into
// rates per second. A process reports every few seconds: what it did between its last two reports
// counts until the next one.
type rates struct {
	processes map[string]*pace
	servers   map[string]*served
}

func newRates() *rates { return &rates{map[string]*pace{}, map[string]*served{}} }

// pace is what a client or a worker did between two readings of its counters.
type pace struct {
	at      tso.Timestamp
	uptime  time.Duration // of the client; 0: not known
	last    counters
	between float64 // seconds; 0: there is only one reading
	done    counters
}

// cumulative are the series that come from the counters of processes.
var cumulative = []int{committed, conflicts, aborts, lockWaits, lockWaitTime, runs, failures, reads, conditional, mutations}

// counters are what a process has counted.
type counters struct {
	series      [seriesCount]float64
	commit, get model.LatencyCounts
}

func clientCounters(st percolator.Stats) counters {
	return counters{
		series: [seriesCount]float64{
			committed: float64(st.Transactions), conflicts: float64(st.Conflicts), aborts: float64(st.Aborts),
			lockWaits: float64(st.LockWaits), lockWaitTime: st.LockWaitTime.Seconds(), reads: float64(st.Requests["ReadRows"]),
			conditional: float64(st.Requests["CheckAndMutateRow"]), mutations: float64(st.Requests["MutateRows"]),
		},
		commit: st.Latency["commit"], get: st.Latency["get"].Add(st.Latency["get_multi"]),
	}
}

func workerCounters(w model.WorkerReport) counters {
	return counters{series: [seriesCount]float64{runs: float64(w.Runs), failures: float64(w.Errors + w.Panics)}}
}

func (c counters) minus(o counters) counters {
	for i := range c.series {
		c.series[i] -= o.series[i]
	}
	c.commit, c.get = c.commit.Sub(o.commit), c.get.Sub(o.get)
	return c
}

// justBegun is the age up to which what a client has counted since it began is a rate of now; what
// it did within leastPace is no rate.
const (
	justBegun = 30 * time.Second
	leastPace = time.Second
)

// process reads the counters of all live clients and workers, and forgets the others.
func (r *rates) process(list []model.Report) {
	live := map[string]*pace{}
	for _, c := range clientsOf(list) {
		r.read(live, "client "+clientID(c.Report), c.Report, clientCounters(c.Stats))
	}
	for _, report := range list {
		if report.HasWorker() {
			r.read(live, fmt.Sprint("worker ", report.Name, " ", int64(report.Started)), report, workerCounters(report.Worker))
		}
	}
	r.processes = live
}

// read takes a reading of a client or a worker over. When it was read, the client's own clock knows
// best: the oracle's time is an estimate, as good as the oracle is quick.
func (r *rates) read(live map[string]*pace, id string, report model.Report, now counters) {
	p := r.processes[id]
	if p == nil {
		p = &pace{at: report.Written, uptime: report.Uptime, last: now}
		if report.Uptime > 0 && report.Uptime <= justBegun {
			p.done, p.between = now, max(report.Uptime, leastPace).Seconds()
		}
	} else {
		between := report.Written.Sub(p.at)
		if report.Uptime > 0 && p.uptime > 0 {
			between = report.Uptime - p.uptime
		}
		if between > 0 {
			*p = pace{at: report.Written, uptime: report.Uptime, last: now, between: between.Seconds(), done: now.minus(p.last)}
		}
	}
	live[id] = p
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
	var commit, get model.LatencyCounts
	for _, p := range r.processes {
		if p.between == 0 {
			continue
		}
		commit, get = commit.Add(p.done.commit), get.Add(p.done.get)
		for _, series := range cumulative {
			s.add(series, p.done.series[series]/p.between)
		}
	}
	quantiles(s, commit, commitMedian, commitTail)
	quantiles(s, get, readMedian, readTail)
	for _, server := range r.servers {
		if !math.IsNaN(server.rate) {
			s.add(timestamps, server.rate)
		}
	}
}

func quantiles(s *sample, l model.LatencyCounts, median, tail int) {
	if l.Count > 0 {
		s.Values[median], s.Values[tail] = l.Quantile(0.5).Seconds(), l.Quantile(0.99).Seconds()
	}
}
