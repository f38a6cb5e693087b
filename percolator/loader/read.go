package loader

import (
	"fmt"

	"github.com/gopercolator/percolator/percolator"
)

// entry is an item with its index in the source.
type entry[T any] struct {
	Item[T]
	index int64
	room  int64 // of load.room that it holds
}

// read passes the items of the source to the workers, while there is room for them.
func (l *load[T]) read(from Position) error {
	index := from.Items
	for item, err := range l.job.Source(l.reading, from) {
		if l.reading.Err() != nil {
			return nil
		}
		if err != nil {
			if l.job.SourceFailed == nil {
				return fmt.Errorf("source: %w", err)
			}
			if err := l.job.SourceFailed(err); err != nil {
				return err
			}
			continue
		}
		if item.Bytes < 0 || len(item.Token) > MaxToken {
			return fmt.Errorf("source: %w: item %d has a negative size or a token of more than %d bytes", percolator.ErrInvalidArgument, index, MaxToken)
		}
		e := entry[T]{Item: item, index: index, room: min(item.Bytes, l.cfg.MaxInFlightBytes)}
		index++
		if l.room.Acquire(l.reading, e.room) != nil {
			return nil
		}
		l.counts.entered.Add(1)
		select {
		case l.queue <- e:
		case <-l.reading.Done():
			return nil
		}
	}
	return nil
}

// take waits for an item and adds those that wait behind it, as many as fit in a transaction. It
// returns false when there are no more, or the load is to stop.
//
// No worker waits for a full batch, so an item of a slow source goes at once. When the workers are
// slower, the queue is full when one of them returns.
func (l *load[T]) take() (b []entry[T], ok bool) {
	if l.taking.Acquire(l.reading, 1) != nil {
		return nil, false
	}
	defer l.taking.Release(1)
	select {
	case <-l.reading.Done():
		return nil, false
	case e, ok := <-l.queue:
		if !ok {
			return nil, false
		}
		b = append(b, e)
	}
	for bytes := b[0].Bytes; len(b) < l.cfg.ItemsPerTransaction && bytes < l.cfg.BytesPerTransaction; {
		e, ok := l.waiting()
		if !ok {
			break
		}
		b, bytes = append(b, e), bytes+e.Bytes
	}
	// A worker took the batch that holds the position back earlier, so it does not wait here.
	if l.ahead.Acquire(l.reading, int64(len(b))) != nil {
		return nil, false
	}
	return b, true
}

// waiting takes an item if one is there.
func (l *load[T]) waiting() (e entry[T], ok bool) {
	select {
	case e, ok = <-l.queue:
	default:
	}
	return e, ok
}
