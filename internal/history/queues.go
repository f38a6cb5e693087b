package history

import (
	"cmp"
	"slices"

	"github.com/gopercolator/percolator/tso"
)

// Totals judges counters to which transactions contribute: in every snapshot a total is the sum of
// what had committed by then, each contribution once.
type Totals struct {
	contributions map[string][]contribution
	reads         map[string][]total
}

type contribution struct {
	start, commit tso.Timestamp // commit 0: unknown whether it did
	amount        int64
}

type total struct {
	snapshot tso.Timestamp
	sum      int64
}

// Add adds a contribution. A commit of 0 says that nobody knows whether it committed.
func (q *Totals) Add(key string, start, commit tso.Timestamp, amount int64) {
	if q.contributions == nil {
		q.contributions = map[string][]contribution{}
	}
	q.contributions[key] = append(q.contributions[key], contribution{start, commit, amount})
}

// AddRead adds a total that a snapshot has read.
func (q *Totals) AddRead(key string, snapshot tso.Timestamp, sum int64) {
	if q.reads == nil {
		q.reads = map[string][]total{}
	}
	q.reads[key] = append(q.reads[key], total{snapshot, sum})
}

// Check says which totals are wrong.
func (q *Totals) Check() []Anomaly {
	var f findings
	for _, key := range sortedKeys(q.reads) {
		known, unknown := slices.Clone(q.contributions[key]), []contribution(nil)
		known = slices.DeleteFunc(known, func(c contribution) bool {
			if c.commit == 0 {
				unknown = append(unknown, c)
			}
			return c.commit == 0
		})
		slices.SortFunc(known, func(a, b contribution) int { return cmp.Compare(a.commit, b.commit) })
		reads := slices.Clone(q.reads[key])
		slices.SortFunc(reads, func(a, b total) int { return cmp.Compare(a.snapshot, b.snapshot) })
		sum, n := int64(0), 0
		for _, r := range reads {
			for ; n < len(known) && known[n].commit <= r.snapshot; n++ {
				sum += known[n].amount
			}
			if !explainable(r.sum-sum, r.snapshot, unknown) {
				f.add(anomalyTotal, "%s is %d at %d; what had committed by then makes %d", key, r.sum, r.snapshot, sum)
			}
		}
	}
	return f.sorted()
}

// mostSums bounds the search for contributions of unknown outcome that explain a difference.
const mostSums = 1 << 16

// explainable tells whether some of the contributions of unknown outcome add up to a difference. Of
// very many it says that they do.
func explainable(difference int64, snapshot tso.Timestamp, unknown []contribution) bool {
	sums := map[int64]bool{0: true}
	for _, c := range unknown {
		if c.start >= snapshot {
			continue
		}
		more := map[int64]bool{}
		for s := range sums {
			more[s], more[s+c.amount] = true, true
		}
		if sums = more; len(sums) > mostSums {
			return true
		}
	}
	return sums[difference]
}

// Deliveries judges an ordered queue that hands over at least once. Entries lie in partitions. If a
// transaction began after another had committed, its entries are first delivered no earlier than
// the other's.
type Deliveries struct {
	entries map[EntryKey]queued
	calls   []call
}

// EntryKey names an entry: its partition, its transaction, and its place among those that the
// transaction added to that partition.
type EntryKey struct {
	Partition string
	Start     tso.Timestamp
	Seq       int
}

func (k EntryKey) compare(l EntryKey) int {
	return cmp.Or(cmp.Compare(k.Partition, l.Partition), cmp.Compare(k.Start, l.Start), cmp.Compare(k.Seq, l.Seq))
}

type queued struct {
	outcome Outcome
	commit  tso.Timestamp
}

type call struct {
	partition string
	entries   []EntryKey
}

// Add adds an entry and what became of its transaction; commit is 0 if that is unknown.
func (q *Deliveries) Add(k EntryKey, o Outcome, commit tso.Timestamp) {
	if q.entries == nil {
		q.entries = map[EntryKey]queued{}
	}
	q.entries[k] = queued{o, commit}
}

// AddCall adds a call of the receiver, in the order of calls.
func (q *Deliveries) AddCall(partition string, entries ...EntryKey) {
	q.calls = append(q.calls, call{partition, entries})
}

// Check says what is wrong with the calls, and at rest what was not delivered.
func (q *Deliveries) Check(atRest bool) []Anomaly {
	var f findings
	first := map[EntryKey]bool{}
	newest := map[string]EntryKey{} // by partition: of those delivered in earlier calls or earlier in the same one
	for i, call := range q.calls {
		for j, k := range call.entries {
			e, known := q.entries[k]
			switch {
			case k.Partition != call.partition:
				f.add(anomalyDelivery, "call %d of partition %s got %v", i, call.partition, k)
			case !known || e.outcome == Aborted:
				f.add(anomalyDelivery, "call %d got %v, which no transaction committed", i, k)
			case j > 0 && call.entries[j-1].compare(k) >= 0:
				f.add(anomalyQueueOrder, "call %d got %v after %v", i, k, call.entries[j-1])
			}
			if n, any := newest[k.Partition]; !first[k] && any && e.commit != 0 && e.commit < n.Start {
				f.add(anomalyQueueOrder, "%v was delivered before %v, which had committed at %d when it began", n, k, e.commit)
			}
			first[k] = true
			if n := newest[k.Partition]; n.Start < k.Start {
				newest[k.Partition] = k
			}
		}
	}
	for k, e := range q.entries {
		if atRest && e.outcome == Committed && !first[k] {
			f.add(anomalyUndelivered, "%v committed at %d and was not delivered", k, e.commit)
		}
	}
	return f.sorted()
}
