package dispatch

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"sync"
	"time"

	"github.com/gopercolator/percolator/internal/model"
	"github.com/gopercolator/percolator/internal/telemetry"
	"github.com/gopercolator/percolator/tso"
)

// A worker hears at once of notifications that its own process writes ([Client.OnNotify]). Those of
// other processes it would find when its scan comes by. To be told earlier, a client whose process
// has nobody for a notification leaves a hint with the oracle, if that passes hints on (tso.Hints),
// and a worker somewhere takes it ([Client.AwaitNotifications]).
//
// A hint is worth nothing to correctness, like the scan's own finds: the worker that takes it reads
// the cell and its acknowledgment. It may come twice, late or never; the notify cell stays until
// the work is done.
const (
	hintsAtOnce  = 256              // in one request: what tso.Hints allows
	hintsBytes   = 48 << 10         // of row keys and timestamps, in one request: likewise
	hintsWaiting = 4096             // that wait to be sent; what is beyond is left to the scan
	hintsRest    = 5 * time.Second  // after a request that failed
	hintsRefused = time.Second      // before a topic that was refused is sent again
	hintsTimeout = 2 * time.Second  // with one request
	hintsWait    = 20 * time.Second // for hints, in one request
)

// hinter leaves hints. One request is under way at most; what comes meanwhile goes with the next,
// so that a busy writer sends few requests and an idle one does not wait.
type hinter struct {
	service tso.Hints // nil: none
	count   *telemetry.Counters
	name    string // of the instance

	mu      sync.Mutex
	waiting []tso.Hint
	resting map[uint64]time.Time // topics that were refused, until when
	silent  time.Time            // the service did not answer: until when it is left alone
	sending bool
	closed  bool
	senders sync.WaitGroup
}

// NewHinter returns one that does nothing if there is no service, or no hints are wanted.
func NewHinter(cfg model.Settings, oracle tso.Oracle, count *telemetry.Counters) *hinter {
	h := &hinter{count: count, name: cfg.Project + "\x00" + cfg.Instance, resting: map[uint64]time.Time{}}
	if !cfg.DisableHints {
		h.service, _ = oracle.(tso.Hints)
	}
	return h
}

// topic names a column to the service.
func (h *hinter) topic(table, column string) uint64 {
	f := fnv.New64a()
	_, _ = f.Write([]byte(h.name + "\x00" + table + "\x00" + column))
	return f.Sum64()
}

// leave sends a hint at n in the background.
func (h *hinter) leave(ctx context.Context, n model.Notification) {
	if h.service == nil {
		return
	}
	hint := tso.Hint{Topic: h.topic(n.Cell.Table, n.Cell.Column), Data: encodeHint(n)}
	h.mu.Lock()
	defer h.mu.Unlock()
	if now := time.Now(); h.closed || len(h.waiting) >= hintsWaiting || now.Before(h.silent) || now.Before(h.resting[hint.Topic]) {
		h.count.HintsLost.Add(1)
		return
	}
	h.waiting = append(h.waiting, hint)
	if !h.sending {
		h.sending = true
		h.senders.Add(1)
		go h.send(ctx)
	}
}

// send sends what waits, a request at a time, until nothing does.
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
	}
}

// batch takes as many as fit into a request. The caller holds mu.
func (h *hinter) batch() []tso.Hint {
	n, size := 0, 0
	for ; n < len(h.waiting) && n < hintsAtOnce; n++ {
		if size += len(h.waiting[n].Data); size > hintsBytes {
			break
		}
	}
	batch := h.waiting[:n:n]
	if h.waiting = h.waiting[n:]; len(h.waiting) == 0 {
		h.waiting = nil
	}
	return batch
}

// rest notes for what nothing is sent for a while.
func (h *hinter) rest(refused []uint64, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	if err != nil {
		h.count.HintsLost.Add(int64(len(h.waiting)))
		h.silent, h.waiting = now.Add(hintsRest), nil
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

// Close ends the sending. The context of leave has ended.
func (h *hinter) Close() {
	h.mu.Lock()
	h.closed, h.waiting = true, nil
	h.mu.Unlock()
	h.senders.Wait()
}

// encodeHint is the timestamp of n and its row.
func encodeHint(n model.Notification) string {
	return string(binary.BigEndian.AppendUint64(nil, uint64(n.Timestamp))) + n.Cell.Row
}

// decodeHint returns false for what no client has sent.
func decodeHint(data string) (row string, ts tso.Timestamp, ok bool) {
	if len(data) <= 8 {
		return "", 0, false
	}
	ts = tso.Timestamp(binary.BigEndian.Uint64([]byte(data[:8])))
	return data[8:], ts, ts > 0 && len(data)-8 <= model.MaxRowKeyBytes
}

// AwaitNotifications returns notifications of the given columns (Cell.Row does not matter) that
// clients of other processes have written and nobody there has taken up ([Client.HandleNotify]),
// most of them at most (1 to 256). It waits until there is one, or some 20 s have passed: none is
// no error. Each notification is given to one caller, of whatever process, and is a hint: it may
// have been dealt with, and not all are heard of. errors.Is(err, tso.ErrUnsupported): the oracle
// passes on no hints, or Config.DisableHints is set; other errors may go away.
func (d *Dispatcher) AwaitNotifications(ctx context.Context, most int, columns ...model.Cell) ([]model.Notification, error) {
	if err := model.CheckContext(ctx); err != nil {
		return nil, err
	}
	if d.Hints.service == nil {
		return nil, fmt.Errorf("percolator: awaiting notifications: %w", tso.ErrUnsupported)
	}
	topics, of := make([]uint64, len(columns)), map[uint64]model.Cell{}
	for i, col := range columns {
		topics[i] = d.Hints.topic(col.Table, col.Column)
		of[topics[i]] = col
	}
	limited, cancel := context.WithTimeout(ctx, hintsWait+hintsTimeout)
	defer cancel()
	stop := context.AfterFunc(d.Store.Background, cancel)
	defer stop()
	hints, err := d.Hints.service.TakeHints(limited, topics, most, hintsWait)
	switch {
	case d.Store.Closed.Load():
		return nil, fmt.Errorf("percolator: %w", model.ErrClosed)
	case err != nil:
		return nil, fmt.Errorf("percolator: awaiting notifications: %w", model.WithContext(ctx, err))
	}
	var out []model.Notification
	for _, h := range hints {
		col, known := of[h.Topic]
		if row, ts, ok := decodeHint(h.Data); ok && known {
			out = append(out, model.Notification{Cell: model.Cell{Table: col.Table, Row: row, Column: col.Column}, Timestamp: ts})
		}
	}
	d.Store.Count.HintsTaken.Add(int64(len(out)))
	return out, nil
}
