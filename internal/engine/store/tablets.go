package store

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gopercolator/percolator/internal/ordered"
)

// Tablets knows where tables are cut into tablets, as far as the client has had a reason to ask:
// the answer costs a request, and a client whose requests are small and quick has no use for it.
// The bounds are advice. One that is out of date makes a request larger or smaller than it should
// be, and nothing else. Its methods may be called concurrently.
type Tablets struct {
	store  *Store
	mu     sync.RWMutex
	byName map[string]*tableBounds
}

// tableBounds is what is known of one table.
type tableBounds struct {
	asking chan struct{}             // holds one value during the request
	asked  atomic.Pointer[time.Time] // when the client last asked, if it did
	ends   atomic.Pointer[[]string]  // the key that follows each tablet but the last, ascending
	full   atomic.Int64              // requests that left rows behind since then
}

const (
	// boundsMaxAge is how long bounds count as known: tablets split and merge within minutes.
	boundsMaxAge = time.Minute
	// fullRequests is how many requests leave rows behind before the client asks for bounds: a
	// large transaction is no reason.
	fullRequests = 4
	// tabletsMost bounds how finely requests are cut. Of a larger table, neighbouring tablets count
	// as one: requests of one row each would cost more than they save.
	tabletsMost = 64
)

func (t *Tablets) of(table string) *tableBounds {
	t.mu.RLock()
	b := t.byName[table]
	t.mu.RUnlock()
	if b != nil {
		return b
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if b = t.byName[table]; b == nil {
		b = &tableBounds{asking: make(chan struct{}, 1)}
		t.byName[table] = b
	}
	return b
}

// end names the tablet of a row by the key that follows it; "" is the last tablet, and all of a
// table whose bounds are unknown.
func (b *tableBounds) end(row string) string {
	ends := b.ends.Load()
	if ends == nil {
		return ""
	}
	i, found := slices.BinarySearch(*ends, row)
	if found { // a tablet ends before the key that names its end
		i++
	}
	if i == len(*ends) {
		return ""
	}
	return (*ends)[i]
}

// due reports whether the bounds are unknown or out of date.
func (b *tableBounds) due() bool {
	asked := b.asked.Load()
	return asked == nil || time.Since(*asked) >= boundsMaxAge
}

// learn asks where the table is cut, unless that is known, and returns when it is. Without an
// answer nothing changes, and the next caller asks after boundsMaxAge.
func (t *Tablets) learn(table string, b *tableBounds) {
	b.asking <- struct{}{}
	defer func() { <-b.asking }()
	if !b.due() {
		return
	}
	ctx, cancel := context.WithTimeout(t.store.Background, slotTimeout) // others wait to be sent
	defer cancel()
	ends, err := t.store.SampleKeys(ctx, table)
	now := time.Now()
	b.asked.Store(&now)
	b.full.Store(0)
	if err == nil {
		ends = thinned(ends)
		b.ends.Store(&ends)
	}
}

// thinned is the bounds of at most tabletsMost runs of tablets, of about equal length. The keys
// ascend; an empty one stands for the end of the table.
func thinned(keys []string) []string {
	keys = slices.DeleteFunc(slices.Compact(keys), func(k string) bool { return k == "" })
	return ordered.Evenly(keys, tabletsMost-1)
}
