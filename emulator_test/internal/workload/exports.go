package workload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gopercolator/percolator/emulator_test/internal/history"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/observers/exportqueue"
	"github.com/gopercolator/percolator/percolator"
)

const exports = "exports"

// exportKeys are some of the keys of each partition: which a key belongs to is the same for ever.
var exportKeys = [][]string{{"a", "c", "e"}, {"b", "d"}}

// newExports returns the queue. It is so small that deliveries leave something over.
func newExports() *exportqueue.Queue {
	return must(exportqueue.New(exportqueue.Config{Table: exports, Name: "export", Partitions: len(exportKeys), MaxEntries: 5}))
}

func partitionName(n int) string { return fmt.Sprintf("partition %d", n) }

// partitionOf names the partition of a key.
func partitionOf(key string) string {
	for n, keys := range exportKeys {
		if slices.Contains(keys, key) {
			return partitionName(n)
		}
	}
	return "no partition"
}

// export adds entries to the queue, now and then beside a write that conflicts.
func (s *Session) export(ctx context.Context) {
	s.transact(ctx, options{kind: "export"}, func(ctx context.Context, a *attempt) error {
		if s.Rand.IntN(3) == 0 {
			if err := s.countUp(ctx, a); err != nil {
				return err
			}
		}
		if s.Rand.IntN(4) == 0 { // deliveries go on meanwhile, and must not leave it behind
			wait(ctx, time.Duration(s.Rand.Int64N(int64(2*time.Second))))
		}
		added := map[string]int{}
		for range 1 + s.Rand.IntN(2)*s.Rand.IntN(4) {
			keys := exportKeys[s.Rand.IntN(len(exportKeys))]
			key, v := keys[s.Rand.IntN(len(keys))], a.unique("")
			if err := s.exports.Add(a.tx, key, v); err != nil {
				return err
			}
			p := partitionOf(key)
			a.rec.Exports(p, added[p], key+string(v))
			added[p]++
		}
		return nil
	})
}

// Reception is what a receiver makes of a delivery.
type Reception uint8

// The receptions.
const (
	Received Reception = iota
	Refused
	Doubtful // received, and reported as failed
)

var errReceiver = errors.New("the receiver failed")

// observeExports registers the observers that deliver, for a worker with a client.
func (w *Workload) observeExports(r *observers.Registry, worker string, client *percolator.Client) {
	w.exports.Observe(r, client, func(ctx context.Context, batch []exportqueue.Entry) error {
		reception := Received
		if w.Receive != nil {
			reception = w.Receive(worker)
		}
		if reception == Refused {
			return errReceiver
		}
		wait(ctx, time.Duration(batch[0].StartTS*7919%10_000)*time.Microsecond)
		if err := ctx.Err(); err != nil {
			return err
		}
		w.receive(batch)
		if reception == Doubtful {
			return errReceiver
		}
		return nil
	})
}

// receive is the receiver.
func (w *Workload) receive(batch []exportqueue.Entry) {
	w.deliver(partitionOf(batch[0].Key), batch)
}

func (w *Workload) deliver(partition string, batch []exportqueue.Entry) {
	ds := make([]history.Delivery, len(batch))
	for i, e := range batch {
		ds[i] = history.Delivery{Start: e.StartTS, Commit: e.CommitTS, Seq: e.Seq, What: e.Key + string(e.Value)}
	}
	w.History.Delivers(partition, ds)
}

// checkExported: at rest nothing is left.
func (r Reader) checkExported(ctx context.Context) error { return r.checkDelivered(ctx, newExports()) }

func (r Reader) checkDelivered(ctx context.Context, q *exportqueue.Queue) error {
	left := 0
	for _, err := range q.Pending(ctx, r) {
		if err != nil {
			corrupt(r.rec, err)
			return err
		}
		left++
	}
	if left > 0 {
		r.rec.Broken("%d exports have not been delivered", left)
	}
	return nil
}
