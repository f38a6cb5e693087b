package backup

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"
)

// rangeProgress is the descriptors of a range, in order. One goroutine uses it at a time.
type rangeProgress struct{ list []descriptor }

func (f *rangeProgress) done() bool { return len(f.list) > 0 && f.list[len(f.list)-1].Done }

// next is the row key at which the range goes on.
func (f *rangeProgress) next(rr rowRange) []byte {
	if len(f.list) == 0 {
		return rr.Start
	}
	return f.list[len(f.list)-1].Next
}

// readProgress reads the descriptors of earlier attempts. Those of a range must continue each
// other; two backups that write to one store at the same time may break that.
func readProgress(ctx context.Context, s Store, p *storedPlan) ([]*rangeProgress, error) {
	found := make([]*rangeProgress, len(p.Ranges))
	for i := range found {
		found[i] = new(rangeProgress)
	}
	names, err := s.List(ctx, progressPrefix(p.ID))
	if err != nil {
		return nil, fmt.Errorf("backup: listing %s: %w", progressPrefix(p.ID), err)
	}
	for _, name := range names { // in order of range and number
		b, err := get(ctx, s, name, maxSmallObject)
		if err != nil {
			return nil, err
		}
		var d descriptor
		if err := json.Unmarshal(b, &d); err != nil || d.Range < 0 || d.Range >= len(found) {
			return nil, fmt.Errorf("backup: %s: %w: it cannot be decoded", name, ErrDamaged)
		}
		f := found[d.Range]
		if d.Seq != len(f.list) || f.done() || !bytes.Equal(d.From, f.next(p.Ranges[d.Range])) {
			return nil, fmt.Errorf("backup: %s: %w: it does not continue the one before; have two backups been writing here? Restart (--restart)", name, ErrDamaged)
		}
		f.list = append(f.list, d)
	}
	return found, nil
}

// tally counts what is done and reports it.
type tally struct {
	mu   sync.Mutex
	at   Progress
	show func(Progress)
}

// newTally starts a count at 0. show may be nil.
func newTally(all int, snapshot time.Time, show func(Progress)) *tally {
	if show == nil {
		show = func(Progress) {}
	}
	return &tally{at: Progress{All: all, SnapshotTime: snapshot}, show: show}
}

// tallyOf counts what earlier attempts at a backup have done.
func tallyOf(p *storedPlan, found []*rangeProgress, show func(Progress)) *tally {
	t := newTally(len(p.Ranges), p.SnapshotTime, show)
	for _, f := range found {
		for _, d := range f.list {
			t.count(d.Chunk, d.Done)
		}
	}
	return t
}

// count counts a chunk, unless it is nil, and one unit of Progress.All if that is done.
func (t *tally) count(c *Chunk, done bool) {
	if done {
		t.at.Done++
	}
	if c != nil {
		t.at.Chunks++
		t.at.Counts.Add(c.Counts)
	}
}

// add counts, and reports the result.
func (t *tally) add(c *Chunk, done bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.count(c, done)
	t.show(t.at)
}
