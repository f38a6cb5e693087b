package simulated

import (
	"cmp"
	"context"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/internal/engine/store"
)

// entry is a mutation of one row.
type entry struct {
	row     string
	changes []store.Change
	err     error
}

// MutateRows implements store.Backend.
func (c *Connection) MutateRows(ctx context.Context, table string, rows []string, muts []*store.Mutation) (errs []error, err error) {
	if len(rows) != len(muts) {
		return nil, status.Errorf(codes.Unknown, "mismatched rowKeys and mutation array lengths: %d, %d", len(rows), len(muts))
	}
	entries := make([]entry, len(rows))
	for i := range rows {
		entries[i] = entry{row: rows[i], changes: changesOf(muts[i])}
	}
	var first error
	answered := len(entries) == 0
	for left := entries; len(left) > 0; {
		n := nameable(left)
		if err := c.mutate(ctx, table, left[:n]); err == nil {
			answered = true
		} else {
			first = cmp.Or(first, err)
			for i := range left[:n] {
				left[i].err = cmp.Or(left[i].err, err)
			}
		}
		left = left[n:]
	}
	if !answered {
		return nil, first
	}
	for i := range entries {
		if entries[i].err != nil {
			if errs == nil {
				errs = make([]error, len(entries))
			}
			errs[i] = entries[i].err
		}
	}
	return errs, nil
}

// nameable is how many of the entries Google's client puts into one request.
func nameable(entries []entry) (n int) {
	sum := 0
	for n < len(entries) {
		if sum += len(entries[n].changes); n > 0 && sum > mutationsMost {
			break
		}
		n++
	}
	return n
}

// mutate sends entries, and again those that failed for a while.
func (c *Connection) mutate(ctx context.Context, table string, entries []entry) error {
	attempts := store.AttemptsOf(ctx)
	left := make([]*entry, len(entries))
	for i := range entries {
		left[i] = &entries[i]
	}
	return c.repeat(ctx, attempts, func() (hash, error) {
		r, err := c.send(ctx, opMutateRows, table, left[0].row)
		if err != nil {
			return r.hash, err
		}
		if err := checkEntries(left); err != nil {
			return r.hash, err
		}
		leave, err := r.table.admit(mutationsOf(left))
		if err != nil {
			return r.hash, err
		}
		err = r.mutate(ctx, left, attempts)
		if leave(); err != nil {
			return r.hash, err
		}
		left = slices.DeleteFunc(left, func(e *entry) bool { return e.err == nil || !repeatedCode(status.Code(e.err)) })
		if len(left) > 0 {
			return r.hash, status.Error(codes.DeadlineExceeded, "Synthetic error: partial failure of ApplyBulk")
		}
		return r.hash, nil
	})
}

func mutationsOf(entries []*entry) (n int) {
	for _, e := range entries {
		n += len(e.changes)
	}
	return n
}

// mutate is one attempt. The tablets apply their entries one after another.
func (r *request) mutate(ctx context.Context, entries []*entry, attempts *store.Attempts) error {
	for _, e := range entries {
		r.sends(true, e.row, e.changes)
	}
	f := r.fate(true)
	r.fated(entries[0].row, f)
	parts, gap := r.table.parts(entries), r.hash
	if f.later > 0 {
		for _, part := range parts {
			r.landLater(f, part)
			gap = gap.with(groupMark)
			f.later += gap.within(f.back)
		}
	}
	answered := r.answered(&f, len(entries))
	for i, part := range parts {
		due := time.Now().Add(f.out)
		if err := r.wait(ctx, f.out); err != nil {
			for _, part := range parts[i:] {
				if !f.lost {
					r.abandon(time.Until(due), part)
				}
			}
			return r.conn.receive(ctx, err)
		}
		if !f.lost && r.arrives() {
			part.reported = true
			_ = part.land(r)
		}
		gap = gap.with(groupMark)
		f.out = gap.within(f.back)
	}
	err := r.answer(ctx, f, nil)
	if ctx.Err() != nil {
		return err
	}
	for _, e := range entries[:answered] {
		if e.err == nil {
			attempts.Applied(e.row)
		}
	}
	return err
}

// answered is of how many entries the answer tells before it breaks off, if it does.
func (r *request) answered(f *fate, entries int) int {
	switch {
	case f.failed != nil || f.silent:
		return 0
	case r.conn.cluster.faults.strikes(StreamBroken, r.hash):
		h := r.hash.with(breakMark)
		f.failed = openError(h)
		return h.below(entries)
	}
	return entries
}

// part is the entries of one tablet.
type part struct {
	entries  []*entry
	reported bool // to a caller, who may be told wrong
}

func (p *part) land(r *request) error {
	away := r.table.reach(p.entries[0].row)
	r.conn.cluster.landed.Add(1)
	from := r.hash.with(orderMark).below(len(p.entries))
	for i := range p.entries {
		e := p.entries[(from+i)%len(p.entries)]
		if e.err = away; away == nil {
			e.err = p.apply(r, e)
		}
	}
	return nil
}

// apply applies one entry, and is what the answer says of it.
func (p *part) apply(r *request, e *entry) error {
	faults := &r.conn.cluster.faults
	if !p.reported || faults.rates.Load() == nil {
		return r.mutateRow(e)
	}
	h := r.conn.identify(opMutateEntry, r.table, e.row)
	if faults.strikes(EntryRefused, h) {
		return anyError(h)
	}
	err := r.mutateRow(e)
	if err == nil && faults.strikes(EntryUnreported, h) {
		return openError(h)
	}
	return err
}

func (r *request) mutateRow(e *entry) error {
	err := r.table.mutate(e.row, e.changes)
	r.landed(e.row, "lands:", e.changes, err)
	return err
}

func (p *part) frozen() effect {
	out := &part{entries: make([]*entry, len(p.entries))}
	for i, e := range p.entries {
		out.entries[i] = &entry{row: e.row, changes: frozen(e.changes)}
	}
	return out
}
