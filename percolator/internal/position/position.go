// Package position keeps where a run stands in a stored cell, so that whoever comes next continues
// there: a watcher, a deletion, a load, and with a lease a collector or a sweep.
//
// A position takes the place only of one that was read, or stored, before (J10):
//
//	no two of one cell are equal   each has a number, or a time, above all before it, so a delayed
//	                               request finds a value that it does not expect: it changes nothing
//	a lost answer is read          where the cell holds another value than expected, that may be the
//	                               one whose answer was lost
//	what another run has stored    is for the caller to judge; nobody overwrites it unseen
package position

import (
	"bytes"
	"context"
)

// Cell is where a position is stored.
type Cell interface {
	// Read returns what is there; nil: nothing.
	Read(ctx context.Context) ([]byte, error)
	// Replace puts next in the place of former (nil: nothing); false: something else is there. After
	// an error next may be there, or may be later.
	Replace(ctx context.Context, former, next []byte) (bool, error)
}

// Position is a cell with a value of one type, as far as one process knows it. It is for one
// goroutine.
type Position[T any] struct {
	Cell   Cell
	Encode func(T) []byte
	Decode func([]byte) (T, error)
	Stored []byte // what the cell holds; nil: nothing

	// For Save: Seq is the number of a value, and Try repeats what has failed for a while.
	Seq func(*T) *int64
	Try func(context.Context, func(context.Context) error) error

	last int64 // the greatest number that was seen or given
}

// Read returns what the cell holds; stored is nil if that is nothing.
func (p *Position[T]) Read(ctx context.Context) (at T, stored []byte, err error) {
	stored, err = p.Cell.Read(ctx)
	if err == nil && stored != nil {
		at, err = p.Decode(stored)
	}
	return at, stored, err
}

// Adopt takes for known what Read has returned.
func (p *Position[T]) Adopt(at T, stored []byte) {
	p.Stored, p.last = stored, max(p.last, *p.Seq(&at))
}

// Number gives a value the next number.
func (p *Position[T]) Number(next *T) {
	p.last++
	*p.Seq(next) = p.last
}

// Replace puts next in the place of Stored. Unless it did, also by an earlier attempt, it returns
// what is there instead.
func (p *Position[T]) Replace(ctx context.Context, next []byte) (replaced bool, now T, stored []byte, err error) {
	replaced, err = p.Cell.Replace(ctx, p.Stored, next)
	if err == nil && !replaced {
		now, stored, err = p.Read(ctx)
		replaced = err == nil && bytes.Equal(stored, next)
	}
	if replaced {
		p.Stored = next
	}
	return replaced, now, stored, err
}

// Save gives next a number and stores it. Where another value is there (nothing: there is false),
// judge says whether that leaves nothing to save, or refuses; else next takes its place.
func (p *Position[T]) Save(ctx context.Context, next T, judge func(now T, there bool) (saved bool, err error)) error {
	p.Number(&next)
	b := p.Encode(next)
	var refused error
	err := p.Try(ctx, func(ctx context.Context) error {
		for {
			replaced, now, stored, err := p.Replace(ctx, b)
			if err != nil || replaced {
				return err
			}
			var saved bool
			if saved, refused = judge(now, stored != nil); refused != nil {
				return nil
			}
			if p.Adopt(now, stored); saved {
				return nil
			}
			if *p.Seq(&next) <= *p.Seq(&now) {
				p.Number(&next)
				b = p.Encode(next)
			}
		}
	})
	if refused != nil {
		return refused
	}
	return err
}
