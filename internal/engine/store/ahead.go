package store

import (
	"context"
	"slices"
	"sync"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/percolator/model"
)

// Budget is what passes that share it may use at once: PassRequests and PassBytes. Requests wait
// for each other in the order in which they come, so the many parts of one table do not starve the
// pass over another one.
type Budget struct {
	requests chan struct{} // one element for each in flight

	mu    sync.Mutex // also of what the passes have read ahead
	moved sync.Cond  // of any of that
	bytes int        // read ahead, or about to be
}

// NewBudget returns an unused budget.
func NewBudget() *Budget {
	b := &Budget{requests: make(chan struct{}, PassRequests)}
	b.moved.L = &b.mu
	return b
}

// ahead reads the parts of a range in parallel and hands out their pages in the order of the pass.
// Its fields from taken on are guarded by the budget's mutex.
type ahead struct {
	*Budget
	pass  *Pass
	size  PageSize
	parts []*part // likewise in its order
	end   context.CancelFunc
	done  sync.WaitGroup

	taken int // parts that are being read, or were
	head  int // the part that is handed out
}

// part is a range between two sampled keys, and what was read of it.
type part struct {
	rows  model.Range
	pages []Page
	over  bool
	err   error
}

// readAhead cuts what is left of the pass at the table's sampled keys. Without any, and when they
// cannot be had, the pass stays as it is until its next request is cut off.
func (p *Pass) readAhead(ctx context.Context) {
	keys, err := p.store.SampleKeys(ctx, p.table)
	parts := partsOf(p.rows.Ranges, p.rest, keys)
	if p.rows.Reverse {
		slices.Reverse(parts)
	}
	if err != nil || len(parts) < 2 {
		return
	}
	size := p.size
	if size.First = 0; size.Bytes == 0 || size.Bytes > partBytes {
		size.Bytes = partBytes
	}
	a := &ahead{Budget: p.Budget, pass: p, size: size, parts: parts}
	ctx, a.end = context.WithCancel(ctx)
	context.AfterFunc(ctx, a.wake)
	for range min(PassRequests, len(parts)) {
		a.done.Go(func() { a.work(ctx) })
	}
	p.ahead = a
}

// partsOf cuts a range at those of the sorted keys that lie inside, and leaves out parts without
// any of the rows.
func partsOf(rows catalog.Ranges, r model.Range, keys []string) (parts []*part) {
	add := func(r model.Range) {
		if len(rows.Meeting(r)) > 0 {
			parts = append(parts, &part{rows: r})
		}
	}
	for _, k := range slices.Compact(keys) {
		if k > r.Start && catalog.InRange(r, k) {
			add(model.Between(r.Start, k))
			r.Start = k
		}
	}
	add(r)
	return parts
}

// work reads one part after the other, in order: so one of them reads the head, unless it is done.
func (a *ahead) work(ctx context.Context) {
	for {
		a.mu.Lock()
		i := a.taken
		a.taken++
		a.mu.Unlock()
		if i >= len(a.parts) {
			return
		}
		for r, more := a.parts[i].rows, true; more; {
			if !a.reserve(ctx, i) {
				return
			}
			page, err := a.pass.read(ctx, r, a.size)
			a.put(i, page, err)
			r, more = page.Rest, err == nil && page.More
		}
	}
}

// reserve waits for room for one more page of part i. The head needs none while it has no page:
// everything else waits for it.
func (a *ahead) reserve(ctx context.Context, i int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for ctx.Err() == nil {
		if a.bytes+partBytes <= PassBytes || i == a.head && len(a.parts[i].pages) == 0 {
			a.bytes += partBytes
			return true
		}
		a.moved.Wait()
	}
	return false
}

// put stores a page for which room was reserved. One without rows only moves the end of the last.
func (a *ahead) put(i int, page Page, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.parts[i]
	a.bytes += page.bytes - partBytes
	if n := len(p.pages); n > 0 && len(page.Rows) == 0 && err == nil {
		p.pages[n-1].Rest = page.Rest
	} else if err == nil {
		p.pages = append(p.pages, page)
	}
	p.err, p.over = err, err != nil || !page.More
	a.moved.Broadcast()
}

// next hands out the next page.
func (a *ahead) next(ctx context.Context) (Page, error) {
	stop := context.AfterFunc(ctx, a.wake)
	defer stop()
	a.mu.Lock()
	defer a.mu.Unlock()
	for p := a.parts[a.head]; ; a.moved.Wait() {
		switch {
		case len(p.pages) > 0:
			return a.take(p), nil
		case p.err != nil:
			return Page{}, p.err
		case ctx.Err() != nil:
			return Page{}, a.pass.store.Err(ctx, a.pass.table, ctx.Err())
		}
	}
}

// take removes the first page of the head. With the last one of a part the head moves on.
func (a *ahead) take(p *part) Page {
	page := p.pages[0]
	p.pages[0], p.pages = Page{}, p.pages[1:] // the array may live as long as the pass
	a.bytes -= page.bytes
	page.More = true
	if len(p.pages) == 0 && p.over && p.err == nil {
		if page.More = a.head+1 < len(a.parts); page.More {
			a.head++
			page.Rest = a.parts[a.head].rows
		}
	}
	if a.pass.rows.Reverse {
		page.Rest.Start = a.pass.rest.Start
	} else {
		page.Rest.End = a.pass.rest.End
	}
	a.moved.Broadcast()
	return page
}

func (a *ahead) wake() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.moved.Broadcast()
}

// close ends all requests and gives back what was reserved for pages that are not taken.
func (a *ahead) close() {
	a.end()
	a.done.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range a.parts {
		for _, page := range p.pages {
			a.bytes -= page.bytes
		}
		p.pages = nil
	}
	a.moved.Broadcast()
}
