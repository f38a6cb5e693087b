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

// read hands the items of the source to the workers, as long as there is room for them.
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

// take waits for an item and takes those behind it that are there, as many as fit in a transaction.
// It is false when there will be no more, or nothing more is to be begun.
//
// As nobody waits for a full batch, an item of a slow source goes at once; when the workers are the
// slower ones, the queue is full when one of them comes back.
func (l *load[T]) take() (b []entry[T], ok bool) {
	l.taking.Lock()
	defer l.taking.Unlock()
	if l.reading.Err() != nil {
		return nil, false
	}
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
	// The batch that holds the position back has been taken earlier, so it is not among those that
	// wait here.
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
