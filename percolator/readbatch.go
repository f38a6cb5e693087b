package percolator

import (
	"context"
	"strings"
	"sync"

	"github.com/gopercolator/percolator/tso"
)

// Requests for the same table and columns that arrive while others are in flight travel together as one ReadRows (section 2.5
// of the paper, without its artificial delay: when nothing is in flight a request goes out at once).
//
// A batch has one filter and many snapshots, so it asks for the newest batchWindow versions without an upper bound. A cell
// never holds two locks (I2), so the newest lock decides; a request that finds only records above its snapshot, or only
// records that change nothing, reads on alone (viewDeeper).
const (
	batchInFlight = 2
	batchWindow   = 2
)

type readBatcher struct {
	c  *Client
	mu sync.Mutex
	// queues by table and columns; an entry lives only while requests are in flight
	queues map[string]*readQueue
}

type readQueue struct {
	table    string
	columns  []string
	waiting  []*batchedRead
	inFlight int
}

type batchedRead struct {
	row    string
	ts     tso.Timestamp
	answer chan batchAnswer
}

type batchAnswer struct {
	rv     rowVersions
	window int
	err    error
}

func newReadBatcher(c *Client) *readBatcher {
	return &readBatcher{c: c, queues: map[string]*readQueue{}}
}

// read reads columns of one row at ts. The context of the batch is not the caller's: a caller that gives up costs the
// others nothing.
func (b *readBatcher) read(ctx context.Context, ts tso.Timestamp, table string, columns []string, row string) (rowVersions, int, error) {
	key := table + "\x00" + strings.Join(columns, "\x00")
	b.mu.Lock()
	q := b.queues[key]
	if q == nil {
		q = &readQueue{table: table, columns: columns}
		b.queues[key] = q
	}
	if q.inFlight == 0 {
		q.inFlight++
		b.mu.Unlock()
		return b.alone(ctx, key, q, ts, row)
	}
	r := &batchedRead{row, ts, make(chan batchAnswer, 1)}
	q.waiting = append(q.waiting, r)
	if q.inFlight < batchInFlight {
		q.inFlight++
		go b.drain(key, q)
	}
	b.mu.Unlock()
	select {
	case a := <-r.answer:
		return a.rv, a.window, a.err
	case <-ctx.Done():
		return nil, 0, withContext(ctx, ctx.Err())
	}
}

// alone sends the only request there is, on the caller's goroutine; whatever gathered meanwhile is sent afterwards.
func (b *readBatcher) alone(ctx context.Context, key string, q *readQueue, ts tso.Timestamp, row string) (rowVersions, int, error) {
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if len(q.waiting) > 0 {
			go b.drain(key, q)
			return
		}
		b.release(key, q)
	}()
	rv, err := b.c.readVersions(ctx, q.table, row, snapshotFilter(q.columns, ts, 1))
	return rv, 1, err
}

// drain sends batches until nobody waits.
func (b *readBatcher) drain(key string, q *readQueue) {
	for {
		b.mu.Lock()
		if len(q.waiting) == 0 {
			b.release(key, q)
			b.mu.Unlock()
			return
		}
		n := min(len(q.waiting), readRowsLimit)
		batch := q.waiting[:n:n]
		q.waiting = q.waiting[n:]
		b.mu.Unlock()
		b.send(q, batch)
	}
}

// release gives a place in flight back; b.mu is held.
func (b *readBatcher) release(key string, q *readQueue) {
	if q.inFlight--; q.inFlight == 0 {
		delete(b.queues, key)
	}
}

func (b *readBatcher) send(q *readQueue, batch []*batchedRead) {
	ts, window := batch[0].ts, 1
	rows := make([]string, 0, len(batch))
	seen := make(map[string]bool, len(batch))
	for _, r := range batch {
		if r.ts != ts {
			ts, window = 0, batchWindow
			break
		}
	}
	for _, r := range batch {
		if !seen[r.row] {
			seen[r.row] = true
			rows = append(rows, r.row)
		}
	}
	ctx, cancel := context.WithTimeout(b.c.background, b.c.store.timing.RequestLifetime)
	defer cancel()
	found, err := b.c.readManyVersions(ctx, q.table, rows, snapshotFilter(q.columns, ts, window))
	for _, r := range batch {
		r.answer <- batchAnswer{found[r.row], window, err}
	}
}
