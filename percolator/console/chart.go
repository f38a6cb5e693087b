package console

import "math"

// chart is a figure on a page.
type chart struct {
	ID, Title string
	Unit      string // how numbers are written: "rate", "time", "count"
	Sum       string // what the lines are together; "": the first line stands for the chart
	Page      string // where to see more
	Runbook   string // the anchor of what to do when it looks wrong
	Lines     []line
	Hint      string // what it means
}

type line struct {
	Name   string
	Series int
	Tone   string // the class that gives it its colour
	Unit   string // "": the chart's
}

// charts are all of them, in the order of the overview.
var charts = []chart{
	{"transactions", "Transactions", "rate", "attempts", pageWorkers, "alert-percolator-conflict-rate",
		[]line{{"committed", committed, "a", ""}, {"conflicts", conflicts, "b", ""}, {"aborts", aborts, "c", ""}},
		"Conflicts are attempts that lost against another transaction and ran again."},
	{"latency", "Latency", "time", "", pageWorkers, "latency-rose",
		[]line{{"commit, median", commitMedian, "a", ""}, {"commit, 99 %", commitTail, "b", ""}, {"get, median", readMedian, "c", ""}, {"get, 99 %", readTail, "d", ""}},
		"Of what ended between two reports, in the clients that report."},
	{"lockwaits", "Lock waits", "rate", "", pageContention, "alert-percolator-lock-waits",
		[]line{{"waits", lockWaits, "a", ""}, {"readers waiting", lockWaitTime, "b", "count"}},
		"How often a read met a live lock, and how many were waiting at a time on average."},
	{"oracle", "Timestamps", "rate", "", pageOracle, "nothing-commits",
		[]line{{"handed out", timestamps, "a", ""}},
		"What the oracle's servers have handed out."},
	{"backlog", "Notifications waiting", "count", "", pageObservers, "alert-percolator-notification-backlog",
		[]line{{"cells", waiting, "a", ""}},
		"Cells that some observer has yet to run for; parked ones do not count."},
	{"age", "Oldest notification", "time", "", pageObservers, "observers-stand-still",
		[]line{{"age", waitingAge, "a", ""}},
		"Grows while observers cannot keep up, or no worker takes the column."},
	{"runs", "Observer runs", "rate", "runs that ended", pageObservers, "alert-percolator-observer-failing",
		[]line{{"committed", runs, "a", ""}, {"failed", failures, "b", ""}},
		"A run that fails is repeated, and parked in the end."},
	{"requests", "Requests to Bigtable", "rate", "requests", pageWorkers, "latency-rose",
		[]line{{"reads", reads, "a", ""}, {"conditional mutations", conditional, "b", ""}, {"bulk mutations", mutations, "c", ""}},
		"One request can be for many rows."},
	{"stuck", "Stuck", "count", "cells", pageLocks, "a-row-is-stuck",
		[]line{{"parked cells", parkedCells, "a", ""}, {"locks past their time to live", expiredLocks, "b", ""}},
		"Both should be 0 most of the time."},
}

// summary is a line in numbers, for those who cannot see the chart.
type summary struct {
	Now, Least, Most float64 // NaN: not known
}

func summarize(samples []sample, series int) summary {
	s := summary{math.NaN(), math.NaN(), math.NaN()}
	for _, at := range samples {
		v := at.Values[series]
		s.Now = v
		if math.IsNaN(v) {
			continue
		}
		if math.IsNaN(s.Least) || v < s.Least {
			s.Least = v
		}
		if math.IsNaN(s.Most) || v > s.Most {
			s.Most = v
		}
	}
	return s
}
