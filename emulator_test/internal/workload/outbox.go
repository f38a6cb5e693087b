package workload

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/observers/exportqueue"
	"github.com/gopercolator/percolator/percolator"
)

// The outbox is an export queue of many partitions, of which a few are in use at a time: what is
// forgotten in one that nobody uses any more stays there. Its receiver is away for seconds to
// minutes now and then, in one partition or in all, so that backlogs arise, grow and end.
const (
	outbox           = "outbox"
	outboxPartitions = 16
	outboxInUse      = 2
	outboxTurn       = 128 // transactions after which others are in use
)

// outboxKeys is a key of each partition.
var outboxKeys = keysOf(outboxPartitions)

// keysOf finds a key of each partition, by the hash that the queue uses for good.
func keysOf(partitions int) []string {
	keys := make([]string, partitions)
	for n, found := 0, 0; found < partitions; n++ {
		key := fmt.Sprintf("k%d", n)
		h := fnv.New64a()
		h.Write([]byte(key))
		s := h.Sum64()
		if p := (s ^ s>>32) % uint64(partitions); keys[p] == "" {
			keys[p] = key
			found++
		}
	}
	return keys
}

func newOutbox() *exportqueue.Queue {
	return must(exportqueue.New(exportqueue.Config{Table: outbox, Name: "mail", Partitions: outboxPartitions, MaxEntries: 3}))
}

// Exports tells whether a table is that of an export queue.
func Exports(table string) bool { return table == exports || table == outbox }

// OutboxTable is its table.
func OutboxTable() percolator.Table { return newOutbox().Table() }

// OpenOutbox has the sessions use the outbox, in a schema that has its table. away tells of a
// partition whether its receiver is away. posted hears of slow transactions when they are
// acknowledged, and may end their process.
func (w *Workload) OpenOutbox(away func(worker string, partition int) bool, posted func(process string)) {
	w.outbox, w.away, w.posted = newOutbox(), away, posted
	w.picks = append(slices.Clone(w.picks), pick{4, func(s *Session, ctx context.Context) { s.Post(ctx, time.Duration(s.Rand.IntN(4)/3)*4*time.Second) }})
}

// Post adds to the outbox. It takes up to a time, so that what began later commits before it.
func (s *Session) Post(ctx context.Context, atMost time.Duration) {
	o := options{kind: "post"}
	if atMost > 0 {
		o.acknowledged = func() { s.posted(s.Name) }
	}
	s.transact(ctx, o, func(ctx context.Context, a *attempt) error {
		turn := int(s.ids.Load() / outboxTurn)
		p := (turn + s.Rand.IntN(outboxInUse)*5) % outboxPartitions
		for n := range 1 + s.Rand.IntN(3) {
			v := a.unique("")
			if err := s.outbox.Add(a.tx, outboxKeys[p], v); err != nil {
				return err
			}
			a.rec.Exports(outboxName(p), n, outboxKeys[p]+string(v))
		}
		if atMost > 0 {
			wait(ctx, time.Duration(s.Rand.Int64N(int64(atMost))))
		}
		return ctx.Err()
	})
}

func outboxName(partition int) string { return fmt.Sprintf("%s %d", outbox, partition) }

// observeOutbox registers the observers that deliver.
func (w *Workload) observeOutbox(r *observers.Registry, worker string, client *percolator.Client) {
	if w.outbox == nil {
		return
	}
	w.outbox.Observe(r, client, func(ctx context.Context, batch []exportqueue.Entry) error {
		p := slices.Index(outboxKeys, batch[0].Key)
		if w.away(worker, p) {
			return errReceiver
		}
		wait(ctx, time.Duration(batch[0].StartTS*7919%10_000)*time.Microsecond)
		if err := ctx.Err(); err != nil {
			return err
		}
		w.deliver(outboxName(p), batch)
		return nil
	})
}

// checkOutbox: at rest nothing is left.
func (r Reader) checkOutbox(ctx context.Context, w *Workload) error {
	if w.outbox == nil {
		return nil
	}
	return r.checkDelivered(ctx, w.outbox)
}
