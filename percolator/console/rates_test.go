package console

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/health"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// counted is a report of a process that was written at a second and has committed so many
// transactions.
func counted(name string, started, second int, transactions int64) model.Report {
	start := tso.At(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	commits := model.LatencyCounts{Count: transactions}
	commits.Buckets[3] = transactions // up to 1 ms
	return model.Report{
		Name: name, Started: start.Add(time.Duration(started) * time.Second), Written: start.Add(time.Duration(second) * time.Second),
		Stats: percolator.Stats{
			Transactions: transactions, LockWaitTime: time.Duration(transactions) * time.Second, Latency: map[string]model.LatencyCounts{"commit": commits},
		},
	}
}

// Rates are those of the last two reports of each process, until it reports again or is gone.
func TestRatesAreOfTheLastTwoReports(t *testing.T) {
	t.Parallel()
	r := newRates()
	for i, step := range []struct {
		list []model.Report
		want float64
	}{
		{nil, math.NaN()},
		{[]model.Report{counted("a", 0, 10, 500)}, math.NaN()},                                 // what happened before is unknown
		{[]model.Report{counted("a", 0, 20, 700), counted("b", 0, 20, 10)}, 20},                // 200 in 10 s
		{[]model.Report{counted("a", 0, 20, 700), counted("b", 0, 20, 10)}, 20},                // nothing new is no standstill
		{[]model.Report{counted("a", 0, 30, 700), counted("b", 0, 25, 60)}, 10},                // a has stopped
		{[]model.Report{counted("b", 0, 25, 60)}, 10},                                          // and is gone
		{[]model.Report{counted("b", 26, 30, 5)}, math.NaN()},                                  // a new process of the same name
		{[]model.Report{counted("b", 26, 40, 25), counted("b", 26, 40, 25)}, 2},                // one name twice counts once
		{[]model.Report{counted("b", 26, 35, 0)}, 2},                                           // an older report says nothing
		{[]model.Report{counted("b", 26, 50, 25), counted("c", 1, 50, 1_000_000)}, float64(0)}, // c is new
	} {
		s := unknown(int64(i), time.Now())
		r.process(step.list)
		r.sample(&s)
		if got := s.Values[committed]; got != step.want && !(math.IsNaN(got) && math.IsNaN(step.want)) {
			t.Errorf("step %d: %v transactions a second, want %v", i, got, step.want)
		}
		if got := s.Values[lockWaitTime]; got != step.want && !(math.IsNaN(got) && math.IsNaN(step.want)) {
			t.Errorf("step %d: %v readers wait, want %v", i, got, step.want)
		}
		if got := s.Values[commitMedian]; (got > 0.0005 && got <= 0.001) != (step.want > 0) {
			t.Errorf("step %d: the median is %v s", i, got)
		}
	}
}

// What a worker has done since it began counts from its first report on. That of an instant is no
// rate.
func TestRatesOfWhatHasJustBegun(t *testing.T) {
	t.Parallel()
	r := newRates()
	report := counted("worker", 0, 10, 500)
	report.Client, report.Uptime, report.Worker.Runs = "client", 10*time.Second, 40
	instant := counted("b", 0, 10, 8)
	instant.Client, instant.Uptime = "b", 10*time.Millisecond
	s := unknown(1, time.Now())
	r.process([]model.Report{report, instant})
	r.sample(&s)
	if s.Values[runs] != 4 || s.Values[committed] != 50+8 {
		t.Errorf("%v runs and %v transactions a second", s.Values[runs], s.Values[committed])
	}
}

func TestOracleRate(t *testing.T) {
	t.Parallel()
	r := newRates()
	at := time.Now()
	for i, step := range []struct {
		list []oracleServer
		want float64
	}{
		{[]oracleServer{{Server: "x", Served: 100}, {Server: "y", Served: 7}}, math.NaN()},
		{[]oracleServer{{Server: "x", Served: 300}, {Server: "y", Served: 7}}, 100},
		{[]oracleServer{{Server: "x", OracleServer: health.OracleServer{Failed: percolator.ErrClosed}}, {Server: "y", Served: 27}}, 10},
		{[]oracleServer{{Server: "x2", Served: 5}, {Server: "y", Served: 27}}, 0}, // started again
	} {
		s := unknown(int64(i), at)
		r.oracle(step.list, at)
		r.sample(&s)
		if got := s.Values[timestamps]; got != step.want && !(math.IsNaN(got) && math.IsNaN(step.want)) {
			t.Errorf("step %d: %v timestamps a second, want %v", i, got, step.want)
		}
		at = at.Add(2 * time.Second)
	}
}

// Two workers of one client count it once, and so do this process's reading and its reports.
func TestClientsCountOnce(t *testing.T) {
	t.Parallel()
	of := func(client, name string, second int, transactions int64, runs int64) model.Report {
		r := counted(name, 0, second, transactions)
		r.Client, r.Worker.Runs = client, runs
		return r
	}
	reports := []model.Report{of("c", "one", 100, 50, 3), of("c", "two", 102, 60, 4), of("c", "c", 90, 10, 0), of("d", "d", 100, 7, 0)}
	list := clientsOf(reports)
	if len(list) != 2 || list[0].Stats.Transactions != 60 || list[0].Workers != 2 || list[0].Worker.Runs != 7 || list[1].Stats.Transactions != 7 || list[1].Workers != 0 {
		t.Errorf("%+v", list)
	}
	r, s := newRates(), unknown(1, time.Now())
	r.process(reports)
	r.process([]model.Report{of("c", "one", 110, 150, 13), of("c", "two", 112, 160, 24), of("d", "d", 110, 17, 0)})
	r.sample(&s)
	if s.Values[committed] != 10+1 || s.Values[runs] != 1+2 {
		t.Errorf("%v transactions and %v runs a second", s.Values[committed], s.Values[runs])
	}
	own := of("c", "c", 120, 170, 0)
	if list = clientsOf(withOwn(own, reports)); len(list) != 2 || list[0].Stats.Transactions != 170 || list[0].Workers != 2 {
		t.Errorf("with this process's reading %+v", list)
	}
}

// Rates go by the client's own clock: the times of reports are estimates.
func TestRatesByUptime(t *testing.T) {
	t.Parallel()
	r, s := newRates(), unknown(1, time.Now())
	for i, uptime := range []time.Duration{100 * time.Second, 110 * time.Second} {
		report := counted("c", 0, 100+i, int64(500*i)) // a second apart, as far as the oracle's time is known
		report.Client, report.Uptime = "c", uptime
		r.process([]model.Report{report})
	}
	r.sample(&s)
	if s.Values[committed] != 50 {
		t.Errorf("%v transactions a second, want 500 in 10 s", s.Values[committed])
	}
}

// What a client has counted that has just started is a rate of now; of an older one it may be from
// long ago.
func TestRateOfANewClient(t *testing.T) {
	t.Parallel()
	for age, want := range map[int]float64{5: 20, 3600: math.NaN()} {
		r, s := newRates(), unknown(1, time.Now())
		report := counted("new", 0, age, 100)
		report.Client, report.Uptime = "new", time.Duration(age)*time.Second
		r.process([]model.Report{report})
		r.sample(&s)
		if got := s.Values[committed]; got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
			t.Errorf("%d s old: %v transactions a second, want %v", age, got, want)
		}
	}
}

// What a worker counts becomes the report of this process without losing anything that is shown.
func TestOwnWorker(t *testing.T) {
	t.Parallel()
	o := observers.ObserverStats{Runs: 1, Attempts: 2, Conflicts: 3, Errors: 4, Panics: 5, Overdue: 9}
	r := observers.Stats{
		ObserverStats: o, Queued: 6, Running: 7, Backlog: 8 * time.Millisecond, Observers: map[string]observers.ObserverStats{"x": o},
	}.Report()
	if r.Runs != 1 || r.Attempts != 2 || r.Conflicts != 3 || r.Errors != 4 || r.Panics != 5 || r.Overdue != 9 || r.Queued != 6 || r.Running != 7 || r.BacklogMillis != 8 ||
		r.Observers["x"] != r.ObserverReport {
		t.Errorf("%+v", r)
	}
}

// A sample is JSON, whatever is not known.
func TestSampleAsJSON(t *testing.T) {
	t.Parallel()
	s := unknown(1, time.UnixMilli(1234))
	s.Values[committed], s.Values[aborts] = 12.345678, math.Inf(1)
	var got []*float64
	if err := json.Unmarshal(s.appendJSON(nil), &got); err != nil || len(got) != seriesCount+1 {
		t.Fatalf("%d values, %v", len(got), err)
	}
	if *got[0] != 1234 || *got[1+committed] != 12.346 || got[1+conflicts] != nil || got[1+aborts] != nil {
		t.Errorf("%s", s.appendJSON(nil))
	}
}

func TestHistoryIsBounded(t *testing.T) {
	t.Parallel()
	h := history{most: 10}
	var kept []sample
	for i := range 1000 {
		h.add(sample{Seq: int64(i)})
		if i == 50 {
			kept = h.last()
		}
	}
	if n := len(h.last()); n != 10 || h.last()[9].Seq != 999 || h.last()[0].Seq != 990 || cap(h.samples) > 40 {
		t.Errorf("%d samples, room for %d", n, cap(h.samples))
	}
	for i, s := range kept {
		if s.Seq != int64(41+i) {
			t.Fatalf("what was handed out has changed: %v", kept)
		}
	}
}
