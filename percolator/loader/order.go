package loader

import (
	"maps"
	"sync"

	"github.com/gopercolator/percolator/percolator/model"
)

// order turns transactions that end in any order into a position. The position passes an item only
// when all items before it are done.
type order struct {
	mu       sync.Mutex
	at       Position
	failed   int64              // items before at that were passed over, in all runs
	sums     model.ImportSums   // of the others, if it is an import
	finished map[int64]finished // by their first items: those that wait for an earlier one
	moved    chan struct{}      // holds a token when at has changed
}

// finished is a batch that has been dealt with.
type finished struct {
	items, failed int64
	token         []byte
	sums          model.ImportSums // of an import
}

func newOrder(at record) *order {
	o := &order{at: Position{Items: at.Items, Token: at.Token}, failed: at.Failed, sums: model.ImportSums{}, finished: map[int64]finished{}, moved: make(chan struct{}, 1)}
	o.sums.Add(at.Sums)
	return o
}

// finish records a batch and returns by how many items the position moves.
func (o *order) finish(first int64, f finished) (passed int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.finished[first] = f
	for {
		f, ok := o.finished[o.at.Items]
		if !ok {
			break
		}
		delete(o.finished, o.at.Items)
		o.at = Position{Items: o.at.Items + f.items, Token: f.token}
		o.failed += f.failed
		o.sums.Add(f.sums)
		passed += f.items
	}
	if passed > 0 {
		select {
		case o.moved <- struct{}{}:
		default:
		}
	}
	return passed
}

// position returns how far the load has come.
func (o *order) position() Position {
	r := o.record()
	return Position{Items: r.Items, Token: r.Token}
}

// record is what is to be stored of the position.
func (o *order) record() record {
	o.mu.Lock()
	defer o.mu.Unlock()
	return record{Items: o.at.Items, Token: o.at.Token, Failed: o.failed, Sums: maps.Clone(o.sums)}
}
