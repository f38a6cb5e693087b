package console

import "math"

// chart is a figure on a page.
type chart struct {
	ID, Title string
	Unit      string // how numbers are written: "rate", "time", "count"
	Lines     []line
	Hint      string // what it means, and what to do when it looks wrong
}

type line struct {
	Name   string
	Series int
	Tone   string // the class that gives it its colour
}

// charts are all of them, in the order of the overview.
var charts = []chart{
	{"transactions", "Transactions", "rate", []line{{"committed", committed, "a"}, {"conflicts", conflicts, "b"}, {"aborts", aborts, "c"}},
		"Conflicts are attempts that lost against another transaction and ran again."},
	{"latency", "Latency", "time", []line{{"commit, median", commitMedian, "a"}, {"commit, 99 %", commitTail, "b"}, {"get, median", readMedian, "c"}, {"get, 99 %", readTail, "d"}},
		"Of what ended between two polls, in the processes that report."},
	{"lockwaits", "Lock waits", "rate", []line{{"waits", lockWaits, "a"}, {"readers waiting", lockWaitTime, "b"}},
		"How often a read met a live lock, and how many were waiting at a time on average."},
	{"oracle", "Timestamps", "rate", []line{{"handed out", timestamps, "a"}},
		"What the oracle's servers have handed out."},
	{"backlog", "Notifications waiting", "count", []line{{"cells", waiting, "a"}},
		"Cells that some observer has yet to run for; parked ones do not count."},
	{"age", "Oldest notification", "time", []line{{"age", waitingAge, "a"}},
		"Grows while observers cannot keep up, or no worker takes the column."},
	{"runs", "Observer runs", "rate", []line{{"committed", runs, "a"}, {"failed", failures, "b"}},
		"A run that fails is repeated, and parked in the end."},
	{"requests", "Requests to Bigtable", "rate", []line{{"reads", reads, "a"}, {"conditional mutations", conditional, "b"}, {"bulk mutations", mutations, "c"}},
		"One request can be for many rows."},
	{"stuck", "Stuck", "count", []line{{"parked cells", parkedCells, "a"}, {"locks past their time to live", expiredLocks, "b"}},
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
