package history

import (
	"cmp"
	"maps"
	"slices"

	"github.com/gopercolator/percolator/tso"
)

// export is an entry that a transaction adds to a partition of an ordered queue.
type export struct {
	partition string
	seq       int
	what      string
}

// Exports records that the transaction adds an entry to a partition of an ordered queue, if it
// commits. seq numbers, from 0, what the transaction adds to the partition.
func (t *Txn) Exports(partition string, seq int, what string) {
	t.queue(func(q *queued) { q.exports = append(q.exports, export{partition, seq, what}) })
}

// Delivery is an entry as a receiver gets it.
type Delivery struct {
	Start, Commit tso.Timestamp // of the transaction that added it
	Seq           int
	What          string
}

// call is one call of a receiver.
type call struct {
	at        int64 // by the count of begins and ends
	partition string
	entries   []Delivery
}

// Delivers records a call of the receiver of a partition, which has the entries for good from here
// on.
func (h *Recording) Delivers(partition string, entries []Delivery) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls = append(h.calls, call{h.events.Add(1), partition, entries})
}

// position is that of an entry in its partition.
type position struct {
	partition string
	start     tso.Timestamp
	seq       int
}

func (p position) compare(q position) int {
	return cmp.Or(cmp.Compare(p.partition, q.partition), cmp.Compare(p.start, q.start), cmp.Compare(p.seq, q.seq))
}

// exported is an entry and its transaction.
type exported struct {
	export
	of        *Txn
	delivered bool
}

// checkDeliveries: what committed is delivered, and nothing else; a call gets entries in order; and
// if a transaction began after another had committed, its entries are first delivered no earlier
// than the other's.
func (c *Checker) checkDeliveries() {
	entries := map[position]*exported{}
	for _, t := range c.queued {
		for _, e := range t.queued.exports {
			entries[position{e.partition, t.start, e.seq}] = &exported{export: e, of: t}
		}
	}
	newest := map[string]*Txn{} // by partition: of those that were delivered
	for _, call := range c.h.calls {
		c.checkCall(call, entries, newest)
	}
	for _, at := range slices.SortedFunc(maps.Keys(entries), position.compare) {
		if e := entries[at]; e.of.committed && !e.delivered {
			c.report.add(anomalyUndelivered, "the receiver of %s did not get %q of %s", at.partition, e.what, e.of)
		}
	}
}

func (c *Checker) checkCall(call call, entries map[position]*exported, newest map[string]*Txn) {
	for i, d := range call.entries {
		at := position{call.partition, d.Start, d.Seq}
		if i > 0 {
			if b := call.entries[i-1]; (position{call.partition, b.Start, b.Seq}).compare(at) >= 0 {
				c.report.add(anomalyQueueOrder, "a call of %s has %q, number %d of %d, after number %d of %d", at.partition, d.What, d.Seq, d.Start, b.Seq, b.Start)
			}
		}
		e, last := entries[at], newest[at.partition]
		switch {
		case e == nil:
			c.report.add(anomalyDelivery, "the receiver of %s got %q, number %d of %d, which was never added to it", at.partition, d.What, d.Seq, d.Start)
			continue
		case !e.of.committed:
			c.report.add(anomalyDelivery, "the receiver of %s got %q of %s, which did not commit", at.partition, d.What, e.of)
			continue
		case d.What != e.what || d.Commit != e.of.at:
			c.report.add(anomalyDelivery, "the receiver of %s got %q, committed at %d, instead of %q of %s", at.partition, d.What, d.Commit, e.what, e.of)
		case !e.delivered && last != nil && e.of.at < last.start:
			c.report.add(anomalyQueueOrder, "the receiver of %s got %q of %s after entries of %s, which began later", at.partition, e.what, e.of, last)
		}
		if !e.delivered {
			e.delivered = true
			c.report.Delivered++
		}
		if last == nil || last.start < e.of.start {
			newest[at.partition] = e.of
		}
	}
}
