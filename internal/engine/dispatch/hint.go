package dispatch

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"slices"
	"sync"
	"time"

	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/engine/telemetry"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
	"github.com/gopercolator/percolator/tso/coordination"
)

// A worker hears at once of notifications that its own process writes ([Dispatcher.HandleNotify]).
// It would find those of other processes only when its scan comes by. To tell it earlier, a client
// whose process has no worker for a notification leaves a hint with the oracle, if the oracle
// passes hints on (coordination.Hints), and a worker in another process takes it
// ([Dispatcher.AwaitNotifications]).
//
// Correctness does not depend on hints, as it does not on the scan's finds: the worker that takes
// one reads the cell and its acknowledgment. A hint may come twice, late or never; the notify cell
// stays until the work is done.
const (
	hintsAtOnce  = 256             // in one request; coordination.Hints allows no more
	hintsBytes   = 48 << 10        // of row keys and timestamps, in one request; likewise
	hintBytes    = 8 << 10         // of one; likewise
	hintsWaiting = 16384           // to be sent; the scan finds what goes beyond
	waitingBytes = 4 << 20         // of them
	hintsRest    = 5 * time.Second // after a request that failed
	hintsRefused = time.Second     // before a topic that was refused is sent again
	hintsTimeout = 2 * time.Second // of one request
)

// hinter leaves hints. At most one request is in flight; hints that come meanwhile go with the
// next. So a busy writer sends few requests and an idle one does not wait.
type hinter struct {
	service coordination.Hints // nil: none
	count   *telemetry.Counters
	name    string // of the instance

	mu      sync.Mutex
	waiting []coordination.Hint
	bytes   int                  // of their data
	resting map[uint64]time.Time // refused topics, until when
	silent  time.Time            // until when to leave alone a service that did not answer
	taken   int64                // hints that leave has put into waiting
	over    int64                // of them, those that were sent or given up
	moved   chan struct{}        // closed when over grows
	sending bool
	closed  bool
	senders sync.WaitGroup
}

// NewHinter returns a hinter that does nothing if the oracle passes no hints on or DisableHints is
// set.
func NewHinter(cfg store.Settings, oracle tso.Oracle, count *telemetry.Counters) *hinter {
	h := &hinter{count: count, name: cfg.Project + "\x00" + cfg.Instance, resting: map[uint64]time.Time{}, moved: make(chan struct{})}
	if !cfg.DisableHints {
		h.service, _ = oracle.(coordination.Hints)
	}
	return h
}

// topic names a column to the service.
func (h *hinter) topic(table, column string) uint64 {
	f := fnv.New64a()
	_, _ = f.Write([]byte(h.name + "\x00" + table + "\x00" + column))
	return f.Sum64()
}

// workerTopic names a worker to the service. No table has an empty name.
func (h *hinter) workerTopic(name string) uint64 { return h.topic("", name) }

// leave sends a hint in the background; false: it cannot do so now.
func (h *hinter) leave(ctx context.Context, hint coordination.Hint) bool {
	if h.service == nil {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if now := time.Now(); h.closed || len(h.waiting) >= hintsWaiting || h.bytes+len(hint.Data) > waitingBytes || now.Before(h.silent) || now.Before(h.resting[hint.Topic]) {
		h.count.HintsLost.Add(1)
		return false
	}
	h.waiting = append(h.waiting, hint)
	h.taken++
	h.bytes += len(hint.Data)
	if !h.sending {
		h.sending = true
		h.senders.Add(1)
		go h.send(ctx)
	}
	return true
}

// send sends the waiting hints, one request at a time, until none wait.
func (h *hinter) send(ctx context.Context) {
	defer h.senders.Done()
	for {
		h.mu.Lock()
		batch := h.batch()
		if len(batch) == 0 {
			h.sending = false
			h.mu.Unlock()
			return
		}
		h.mu.Unlock()

		rctx, cancel := context.WithTimeout(ctx, hintsTimeout)
		refused, err := h.service.LeaveHints(rctx, batch)
		if err == nil {
			h.count.HintsLeft.Add(int64(len(batch)))
		} else {
			h.count.HintsLost.Add(int64(len(batch)))
		}
		cancel()
		h.rest(refused, err)
		h.move()
	}
}

// move tells Flush that hints are no longer waiting or in flight.
func (h *hinter) move() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over = h.taken - int64(len(h.waiting))
	close(h.moved)
	h.moved = make(chan struct{})
}

// Flush waits until every hint that was left so far is sent or given up, or ctx ends.
func (h *hinter) Flush(ctx context.Context) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for all := h.taken; h.over < all; {
		moved := h.moved
		h.mu.Unlock()
		select {
		case <-moved:
		case <-ctx.Done():
		}
		h.mu.Lock()
		if ctx.Err() != nil {
			return
		}
	}
}

// batch takes as many hints as fit into a request. The caller holds h.mu.
func (h *hinter) batch() []coordination.Hint {
	n, size := 0, 0
	for ; n < len(h.waiting) && n < hintsAtOnce; n++ {
		if size+len(h.waiting[n].Data) > hintsBytes {
			break
		}
		size += len(h.waiting[n].Data)
	}
	batch := h.waiting[:n:n]
	h.bytes -= size
	if h.waiting = h.waiting[n:]; len(h.waiting) == 0 {
		h.waiting = nil
	}
	return batch
}

// rest notes which topics get no hints for a while: the refused ones, or all after an error.
func (h *hinter) rest(refused []uint64, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	if err != nil {
		h.count.HintsLost.Add(int64(len(h.waiting)))
		h.silent, h.waiting, h.bytes = now.Add(hintsRest), nil, 0
		return
	}
	for topic, until := range h.resting {
		if !now.Before(until) {
			delete(h.resting, topic)
		}
	}
	for _, topic := range refused {
		h.resting[topic] = now.Add(hintsRefused)
	}
}

// Close ends the sending. The caller has ended the context that it gave to leave.
func (h *hinter) Close() {
	h.mu.Lock()
	h.closed, h.waiting = true, nil
	h.mu.Unlock()
	h.senders.Wait()
	h.move()
}

// encodeHint encodes the timestamp of n and its row.
func encodeHint(n model.Notification) string {
	return string(binary.BigEndian.AppendUint64(nil, uint64(n.Timestamp))) + n.Cell.Row
}

// decodeHint returns ok false for bytes that no client has sent.
func decodeHint(column model.Cell, data string) (n model.Notification, ok bool) {
	if len(data) <= 8 {
		return n, false
	}
	n = model.Notification{Cell: column, Timestamp: tso.Timestamp(binary.BigEndian.Uint64([]byte(data[:8])))}
	n.Cell.Row = data[8:]
	return n, n.Timestamp > 0 && len(n.Cell.Row) <= model.MaxRowKeyBytes
}

// encodePassed encodes a notification with its column.
func encodePassed(n model.Notification) string {
	b := binary.AppendUvarint(nil, uint64(len(n.Cell.Table)))
	b = binary.AppendUvarint(append(b, n.Cell.Table...), uint64(len(n.Cell.Column)))
	return string(append(b, n.Cell.Column...)) + encodeHint(n)
}

func decodePassed(data string) (n model.Notification, ok bool) {
	var names [2]string
	for i := range names {
		size, k := binary.Uvarint([]byte(data[:min(len(data), binary.MaxVarintLen64)]))
		if k <= 0 || size > uint64(len(data)-k) {
			return n, false
		}
		names[i], data = data[k:k+int(size)], data[k+int(size):]
	}
	return decodeHint(model.Cell{Table: names[0], Column: names[1]}, data)
}

// AwaitNotifications returns notifications that clients of other processes have written and no
// listener there has taken up ([Dispatcher.HandleNotify]), or that their workers hand over
// ([Dispatcher.HandOver]) or pass on to this one ([Dispatcher.Pass]). It waits until there is one;
// none is no error. Each notification goes to one caller in one process, and is a hint: the work
// may already be done, and some notifications never arrive.
//
// errors.Is(err, tso.ErrUnsupported): the oracle passes no hints on, or Config.DisableHints is set.
// Other errors are transient, but for ErrClosed.
func (d *Dispatcher) AwaitNotifications(ctx context.Context, q Question) (heard Heard, err error) {
	if err := retry.CheckContext(ctx); err != nil {
		return heard, err
	}
	if d.Hints.service == nil {
		return heard, fmt.Errorf("percolator: awaiting notifications: %w", tso.ErrUnsupported)
	}
	topics, each := make([]uint64, 0, 2*len(q.Columns)+1), 1 // of a column
	for _, col := range q.Columns {
		topics = append(topics, d.Hints.topic(col.Table, col.Column))
		if q.HandOvers {
			topics, each = append(topics, d.Hints.handOverTopic(col.Table, col.Column)), 2
		}
	}
	if q.Worker != "" {
		topics = append(topics, d.Hints.workerTopic(q.Worker))
	}
	limited, cancel := context.WithTimeout(ctx, q.Wait+hintsTimeout)
	defer cancel()
	stop := context.AfterFunc(d.Store.Background, cancel)
	defer stop()
	taken, err := d.Hints.service.TakeHints(limited, topics, q.Most, q.Wait)
	switch {
	case d.Store.Closed.Load():
		return heard, fmt.Errorf("percolator: %w", model.ErrClosed)
	case err != nil:
		return heard, fmt.Errorf("percolator: awaiting notifications: %w", retry.WithContext(ctx, err))
	}
	d.Store.Count.HintsTaken.Add(int64(len(taken)))
	for _, h := range taken {
		at := slices.Index(topics, h.Topic)
		n, ok := model.Notification{}, false
		switch of := at / each; {
		case at < 0:
		case of == len(q.Columns):
			n, ok = decodePassed(h.Data)
		case at%each > 0:
			if s, ok := decodeHandOver(q.Columns[of], h.Data); ok {
				heard.HandedOver = append(heard.HandedOver, s)
			}
		default:
			n, ok = decodeHint(q.Columns[of], h.Data)
		}
		if ok {
			heard.Notified = append(heard.Notified, n)
		}
	}
	return heard, nil
}
