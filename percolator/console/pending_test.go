package console

import (
	"fmt"
	"testing"
	"time"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// A backlog is counted row by row, far beyond what a page lists.
func TestBacklogIsCounted(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	const rows = 450
	var cells []percolator.Cell
	for i := range rows {
		cells = append(cells, document(fmt.Sprintf("row-%05d", i), "contents"))
	}
	c.set("value", cells...)
	found, err := newClientSource(c.client, Config{}).pending(testContext(t))
	if err != nil || found.Waiting != rows || found.Columns[0].Waiting != rows || len(found.More) != 0 {
		t.Errorf("%d waiting in %+v, more in %v: %v", found.Waiting, found.Columns, found.More, err)
	}
}

// What is kept of a backlog is bounded, what is counted is not.
func TestPendingIsBounded(t *testing.T) {
	t.Parallel()
	tally := newTally(testSchema)
	at := tso.At(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	const rows = MaxListed + 500
	for i := range rows {
		cell := document(fmt.Sprint(i), "contents")
		tally.add(model.Pending{
			Table: "documents", Row: cell.Row, Locks: []model.Lock{{Cell: cell, Placed: at, TTL: time.Second}}, Corrupt: []percolator.Cell{cell},
			Notified: []model.Notification{{Cell: cell, Timestamp: at}},
			States:   []model.ObserverState{{Cell: cell, Observer: "o", Through: at}},
		})
	}
	p := tally.pending()
	if p.AllParked.Cells != rows || len(p.Parked) != MaxListed || len(p.Corrupt) != MaxListed || p.Corrupted != rows || p.Locks != rows {
		t.Errorf("%d parked, %d listed, %d corrupt, %d locks", p.AllParked.Cells, len(p.Parked), len(p.Corrupt), p.Locks)
	}
	if n, oldest := p.standing(at.Time().Add(time.Minute), 1); n != rows || oldest != time.Minute {
		t.Errorf("%d locks are late, the oldest %v", n, oldest)
	}
}
