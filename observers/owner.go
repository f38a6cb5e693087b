package observers

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"sync"

	"github.com/gopercolator/percolator/internal/membership"
)

// OneWorker is for an observer whose runs for different cells of its column conflict, such as a
// fold: one worker runs all cells of the column, and the others leave them to it. Every worker
// derives from the list of live workers who that is, so it takes requests to percolator_meta every
// 1 to 10 s, and no agreement: while the list changes, two workers may run cells, and conflict as
// they would without the option. Cells that the owner does not run for longer than Config.Grace
// are anybody's. It concerns all observers of the column.
func OneWorker() Option { return func(o *options) { o.oneWorker = true } }

// owners decides which columns of observers with OneWorker are other workers'. Rendezvous hashing
// leaves each column where it is, unless its owner leaves or the new worker owns it.
type owners struct {
	columns []*column

	mu      sync.Mutex
	renewed func() // ends a question for hints, which names columns; nil: there is none
}

// ofOneWorker returns the columns of observers with OneWorker, by table and name.
func (c *coverage) ofOneWorker() (columns []*column) {
	for _, name := range c.sorted() {
		if col := c.taken[name]; col.oneWorker {
			columns = append(columns, col)
		}
	}
	return columns
}

// fingerprint identifies the set of columns; "" if there is none.
func (o *owners) fingerprint() string {
	if len(o.columns) == 0 {
		return ""
	}
	var names []Column
	for _, c := range o.columns {
		names = append(names, c.Column)
	}
	return fingerprintOf(names)
}

// assign learns who lives. Workers with equal sets of such columns divide these; nobody leaves a
// column to a worker of another set, or while it is not on the list itself.
func (o *owners) assign(self membership.WorkerInfo, live []membership.WorkerInfo) {
	var peers []string
	listed := false
	for _, w := range live {
		if w.Owns == self.Owns {
			peers = append(peers, w.Name)
			listed = listed || w.Name == self.Name
		}
	}
	moved := false
	for _, c := range o.columns {
		other := listed && ownerOf(c.Column, peers) != self.Name
		moved = c.elsewhere.Swap(other) != other || moved
	}
	if !moved {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.renewed != nil {
		o.renewed()
	}
}

// ownerOf returns the worker whose hash with the column is the greatest. There must be one.
func ownerOf(c Column, workers []string) (owner string) {
	var most uint64
	for _, name := range workers {
		sum := sha256.Sum256([]byte(name + "\x00" + c.Table + "\x00" + c.Name))
		if h := binary.BigEndian.Uint64(sum[:]); owner == "" || h > most {
			owner, most = name, h
		}
	}
	return owner
}

// untilMoved returns a context that ends when a column gets another owner.
func (o *owners) untilMoved(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.renewed = cancel
	return ctx, cancel
}
