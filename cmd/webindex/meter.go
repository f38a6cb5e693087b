package main

import (
	"time"

	"github.com/gopercolator/percolator/cmd/webindex/load"
	"github.com/gopercolator/percolator/cmd/webindex/summary"
	"github.com/gopercolator/percolator/percolator"
)

// meter measures a piece of work: how long it took, and what the clients counted meanwhile.
type meter struct {
	clients []*percolator.Client
	before  percolator.Stats
	start   time.Time
}

func startMeter(clients ...*percolator.Client) *meter {
	return &meter{clients: clients, before: addStats(clients), start: time.Now()}
}

// stop completes a summary of the work.
func (m *meter) stop(s summary.Summary) *summary.Summary {
	s.Seconds = time.Since(m.start).Seconds()
	s.SetStats(m.before, addStats(m.clients))
	return &s
}

// addStats adds up what is in a summary of the statistics of several clients.
func addStats(clients []*percolator.Client) percolator.Stats {
	sum := percolator.Stats{Requests: map[string]int64{}}
	for _, c := range clients {
		s := c.Stats()
		sum.Transactions += s.Transactions
		sum.Conflicts += s.Conflicts
		sum.Notifications += s.Notifications
		for kind, n := range s.Requests {
			sum.Requests[kind] += n
		}
	}
	return sum
}

// loadedFrom begins the summary of an input.
func loadedFrom(src load.Source, c load.Counts) summary.Summary {
	return summary.Summary{Input: src.Name, Loaded: summary.Loaded{Pages: c.Pages(), Counts: c}}
}
