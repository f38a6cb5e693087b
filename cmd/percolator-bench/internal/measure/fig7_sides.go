package measure

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"cloud.google.com/go/bigtable"
	"golang.org/x/sync/errgroup"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
)

// clusterFig7 is the observer: an elaboration of figure 2 of the paper. It looks the document's
// keys up, in one request, takes the first cluster that it finds or makes the document one, and
// enters the keys that were asked before and not found. Two documents that enter the same key
// conflict, and no entry ever changes; so the clusters are those of the order in which the
// observers commit.
func clusterFig7(ctx context.Context, tx *percolator.Txn, ch observers.Change) error {
	if ch.Deleted {
		return nil
	}
	d, err := decodeFig7[fig7Document](ch.Value)
	if err != nil {
		return err
	}
	cells := make([]percolator.Cell, fig7Kinds)
	for kind, key := range d.Keys {
		cells[kind] = fig7KeyCell(kind, key)
	}
	found, err := tx.GetMulti(ctx, cells...)
	if err != nil {
		return err
	}
	cluster := encodeFig7(d.Number)
	if i := slices.IndexFunc(found, func(v []byte) bool { return v != nil }); i >= 0 {
		cluster, cells = found[i], cells[:i]
	}
	err = tx.Set(percolator.Cell{Table: ch.Cell.Table, Row: ch.Cell.Row, Column: fig7Cluster}, cluster)
	for _, c := range cells {
		err = errors.Join(err, tx.Set(c, cluster))
	}
	return err
}

// fig7Quiet is for how long a client has to be quiet, before documents arrive, to be taken for
// idle.
const fig7Quiet = 50 * time.Millisecond

// fig7Together is how many documents one loader transaction takes, if so many are waiting.
const fig7Together = 4

// fig7Worker is a client of loaders and observers, and a worker.
type fig7Worker struct {
	client   *percolator.Client
	clock    *commitClock
	requests requestCounter
	worker   *observers.Worker
	stop     func() error // of the worker
}

// measureObservers loads the arrivals as transactions that notify, and waits for the observer of
// each.
func (s *fig7Store) measureObservers(ctx context.Context, a fig7Arrivals) (out fig7Delivery, err error) {
	ctx, cancel := context.WithTimeout(ctx, a.duration+fig7GracePeriod)
	defer cancel()
	w := &fig7Worker{clock: newCommitClock(), requests: requestCounter{own: true}}
	w.client = s.client(ctx, percolator.Config{}, w.clock.option(), w.requests.option())
	r := observers.NewRegistry()
	r.Observe("cluster", fig7Documents, fig7KeysCol, clusterFig7)
	if w.worker, w.stop = s.work(ctx, w.client, r, observers.Config{ScanInterval: s.scanInterval}); s.err != nil {
		return out, s.err
	}
	err = w.measure(ctx, s, a, &out)
	if err = errors.Join(err, w.stop()); err != nil {
		return out, fmt.Errorf("observers: %w", err)
	}
	return out, errors.Join(s.remove(ctx, fig7Documents, a.documentRows()), s.remove(ctx, fig7Indexes, s.keyRows(a)))
}

func (w *fig7Worker) measure(ctx context.Context, s *fig7Store, a fig7Arrivals, out *fig7Delivery) error {
	load := func(ctx context.Context, numbers []int) error {
		_, err := w.client.Update(ctx, func(_ context.Context, tx *percolator.Txn) (err error) {
			for _, n := range numbers {
				d := s.crawl.document(n)
				err = errors.Join(err, tx.Set(fig7DocumentCell(d.Number, fig7KeysCol), encodeFig7(d)))
			}
			return err
		}, percolator.Blind())
		return err
	}
	if err := load(ctx, []int{a.awake()}); err != nil {
		return err
	}
	if _, err := w.clock.await(ctx, fig7Row(uint32(a.awake())), fig7Cluster); err != nil {
		return fmt.Errorf("the first document of all was not clustered: %w", err)
	}
	// Wait until the first search of the worker's scanners is over.
	if err := w.requests.awaitQuiet(ctx, fig7Quiet); err != nil {
		return err
	}
	before := w.worker.Stats()
	w.requests.take()

	o := fig7Outcome{arrivals: a, started: time.Now()}
	var stop atomic.Bool
	var loading errgroup.Group
	loading.Go(func() error { return a.offer(ctx, o.started, &stop, fig7Together, load) })
	if err := sleepUntil(ctx, o.started.Add(a.duration)); err != nil {
		return err
	}
	o.look(w.clock)
	backlog, saturated := len(a.due)-o.inTime(), o.saturated()
	stop.Store(saturated)
	if err := loading.Wait(); err != nil {
		return err
	}
	for i := 0; i < len(a.due) && !saturated; i++ {
		if _, err := w.clock.await(ctx, fig7Row(uint32(a.number(i))), fig7Cluster); err != nil {
			return fmt.Errorf("document %d of %d was not clustered: %w", i+1, len(a.due), err)
		}
	}
	err := errors.Join(w.stop(), w.client.Flush(ctx))
	if err != nil {
		return err
	}
	o.look(w.clock)
	*out = o.delivery()
	out.backlog, out.saturated, out.requests = backlog, saturated, w.requests.take()
	after := w.worker.Stats()
	out.worker.Runs, out.worker.Conflicts = after.Runs-before.Runs, after.Conflicts-before.Conflicts
	out.found = after.Found - before.Found
	out.fig7Audit, err = w.verify(ctx, s, o)
	return err
}

// look notes what has been clustered by now.
func (o *fig7Outcome) look(clock *commitClock) {
	o.clustered = make([]time.Time, len(o.arrivals.due))
	for i := range o.clustered {
		o.clustered[i] = clock.committed(fig7Row(uint32(o.arrivals.number(i))), fig7Cluster)
	}
}

// verify compares documents and indexes with the same clustering in memory, in the order in which
// the observers have committed.
func (w *fig7Worker) verify(ctx context.Context, s *fig7Store, o fig7Outcome) (audit fig7Audit, err error) {
	err = w.client.View(ctx, func(ctx context.Context, snap *percolator.Snapshot) error {
		stored, err := scanFig7(ctx, snap)
		if err != nil {
			return err
		}
		slices.SortFunc(stored, func(a, b fig7Stored) int { return cmp.Compare(a.at, b.at) })
		audit = s.audit(stored, func(n int) bool {
			i := n - o.arrivals.number(0)
			return i < 0 || !o.clustered[i].IsZero()
		}, o.arrivals)
		entries := audit.clusters.entries()
		for e, err := range snap.Scan(ctx, fig7Indexes, percolator.All()) {
			if err != nil {
				return err
			}
			want, known := entries[e.Cell.Row]
			audit.check(known && bytes.Equal(want, e.Value))
			delete(entries, e.Cell.Row)
		}
		for range entries {
			audit.check(false)
		}
		return nil
	})
	return audit, err
}

// scanFig7 reads all documents.
func scanFig7(ctx context.Context, r percolator.Reader) ([]fig7Stored, error) {
	var out []fig7Stored
	for e, err := range r.Scan(ctx, fig7Documents, percolator.All(), fig7KeysCol, fig7Cluster) {
		if err != nil {
			return nil, err
		}
		if len(out) == 0 || out[len(out)-1].row != e.Cell.Row {
			out = append(out, fig7Stored{row: e.Cell.Row})
		}
		st := &out[len(out)-1]
		switch e.Cell.Column {
		case fig7KeysCol:
			st.document, err = decodeFig7[fig7Document](e.Value)
		case fig7Cluster:
			st.clustered, st.at = true, e.CommitTS
			st.cluster, err = decodeFig7[uint32](e.Value)
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// fig7Batcher clusters by passes over the whole repository, with raw requests: a batch needs no
// transactions, as it has no rival writers. It is a fast one: it reads the repository once and not
// once for each kind of key, in a few ranges at once; it groups in memory; it writes only what
// changed; and it has no fixed costs, such as starting processes on many machines.
type fig7Batcher struct {
	table    *bigtable.Table
	requests requestCounter

	passes []float64 // how long each took, in milliseconds
	read   int       // documents, in all passes
}

// measureBatch loads the arrivals with raw writes, while one pass follows the other, and ends with
// the first pass that has them all.
func (s *fig7Store) measureBatch(ctx context.Context, a fig7Arrivals) (out fig7Delivery, err error) {
	ctx, cancel := context.WithTimeout(ctx, a.duration+fig7GracePeriod)
	defer cancel()
	b := &fig7Batcher{requests: requestCounter{own: true}}
	if b.table = s.raw(ctx, b.requests.option())(fig7Raw); s.err != nil {
		return out, s.err
	}
	if err := b.measure(ctx, s, a, &out); err != nil {
		return out, fmt.Errorf("batch: %w", err)
	}
	return out, s.remove(ctx, fig7Raw, a.documentRows())
}

func (b *fig7Batcher) measure(ctx context.Context, s *fig7Store, a fig7Arrivals, out *fig7Delivery) error {
	load := func(ctx context.Context, numbers []int) error {
		rows, mutations := make([]string, len(numbers)), make([]*bigtable.Mutation, len(numbers))
		for i, n := range numbers {
			d := s.crawl.document(n)
			rows[i], mutations[i] = fig7Row(d.Number), d.mutation()
		}
		return applyBulk(ctx, b.table, rows, mutations)
	}
	if err := load(ctx, []int{a.awake()}); err != nil {
		return err
	}
	if _, err := b.pass(ctx); err != nil {
		return err
	}
	b.passes, b.read = nil, 0
	b.requests.take()

	o := fig7Outcome{arrivals: a, started: time.Now(), clustered: make([]time.Time, len(a.due))}
	var stop, loaded atomic.Bool
	group, gctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		err := a.offer(gctx, o.started, &stop, bulkRows, load)
		loaded.Store(true)
		return err
	})
	group.Go(func() error {
		for last := false; !last; {
			last = loaded.Load() // when this pass began
			done, err := b.pass(gctx)
			if err != nil {
				return err
			}
			now := time.Now()
			for _, number := range done {
				if i := int(number) - a.number(0); i >= 0 && i < len(o.clustered) && o.clustered[i].IsZero() {
					o.clustered[i] = now
				}
			}
		}
		return nil
	})
	if err := group.Wait(); err != nil {
		return err
	}
	*out = o.delivery()
	out.requests, out.passes, out.read, out.saturated = b.requests.take(), b.passes, b.read/len(b.passes), o.behind()
	stored, err := b.scan(ctx, bigtable.Time(time.Now().Add(time.Hour)))
	if err == nil { // all documents, in the order of their numbers
		out.fig7Audit = s.audit(stored, func(int) bool { return true }, o.arrivals)
	}
	return err
}

// pass clusters every document that was written before it began, and returns those that had no
// cluster.
func (b *fig7Batcher) pass(ctx context.Context) (fresh []uint32, err error) {
	started := time.Now()
	stored, err := b.scan(ctx, bigtable.Time(started))
	if err != nil {
		return nil, err
	}
	clusters := newFig7Clusters()
	var rows []string
	var mutations []*bigtable.Mutation
	for _, st := range stored {
		if canonical, _ := clusters.add(st.document); !st.clustered || st.cluster != canonical {
			rows = append(rows, st.row)
			mutations = append(mutations, setCell(fig7RawFamily, fig7Cluster, fig7Now(), encodeFig7(canonical)))
			if !st.clustered {
				fresh = append(fresh, st.document.Number)
			}
		}
	}
	if err := applyBulk(ctx, b.table, rows, mutations); err != nil {
		return nil, err
	}
	b.passes = append(b.passes, milliseconds(time.Since(started)))
	b.read += len(stored)
	return fresh, nil
}

// scan reads all documents that were written before the moment, in the order of their numbers.
func (b *fig7Batcher) scan(ctx context.Context, before bigtable.Timestamp) ([]fig7Stored, error) {
	bounds := []string{"0", "4", "8", "c", "g"} // rows begin with a hexadecimal digit
	parts := make([][]fig7Stored, len(bounds)-1)
	group, ctx := errgroup.WithContext(ctx)
	for i := range parts {
		group.Go(func() (err error) {
			parts[i], err = b.scanRange(ctx, bigtable.NewRange(bounds[i], bounds[i+1]), before)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	stored := slices.Concat(parts...)
	slices.SortFunc(stored, func(a, b fig7Stored) int { return cmp.Compare(a.document.Number, b.document.Number) })
	return stored, nil
}

func (b *fig7Batcher) scanRange(ctx context.Context, rows bigtable.RowSet, before bigtable.Timestamp) ([]fig7Stored, error) {
	var out []fig7Stored
	var failed error
	err := b.table.ReadRows(ctx, rows, func(r bigtable.Row) bool {
		st := fig7Stored{row: r.Key()}
		young := false
		for _, item := range r[fig7RawFamily] {
			switch item.Column {
			case fig7RawFamily + ":" + fig7KeysCol:
				young = item.Timestamp >= before
				st.document, failed = decodeFig7[fig7Document](item.Value)
			case fig7RawFamily + ":" + fig7Cluster:
				st.clustered = true
				st.cluster, failed = decodeFig7[uint32](item.Value)
			}
			if failed != nil {
				return false
			}
		}
		if !young {
			out = append(out, st)
		}
		return true
	}, bigtable.RowFilter(bigtable.LatestNFilter(1)))
	return out, errors.Join(failed, err)
}
