package measure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"cloud.google.com/go/bigtable"
	"golang.org/x/sync/errgroup"
)

// fig7Batcher clusters by passes over the whole repository, with raw requests: a batch needs no
// transactions, since nobody else writes what it writes. It is a fast one: it reads the repository
// once and not once for each kind of key, in a few ranges at once; it groups in memory; it writes
// only what changed; and it has no fixed costs, such as starting processes on many machines.
type fig7Batcher struct {
	table    *bigtable.Table
	requests requestCounter

	passes []float64 // how long each took, in milliseconds
	read   int       // documents, in all passes
}

// measureBatch loads the arrivals with raw writes, while one pass follows the other, and ends with
// the first pass that has them all.
func (s *fig7Store) measureBatch(ctx context.Context, a fig7Arrivals) (out fig7Batch, err error) {
	ctx, cancel := context.WithTimeout(ctx, a.duration+fig7GracePeriod)
	defer cancel()
	b := &fig7Batcher{}
	b.requests.own = true
	client, err := s.raw(ctx, b.requests.option())
	if err != nil {
		return out, err
	}
	b.table = client.Open(fig7Raw)
	if err := b.measure(ctx, s, a, &out); err != nil {
		return out, fmt.Errorf("batch: %w", err)
	}
	return out, s.remove(ctx, fig7Raw, a.documentRows())
}

func (b *fig7Batcher) measure(ctx context.Context, s *fig7Store, a fig7Arrivals, out *fig7Batch) error {
	load := func(ctx context.Context, numbers []int) error {
		rows, mutations := make([]string, len(numbers)), make([]*bigtable.Mutation, len(numbers))
		for i, n := range numbers {
			d := s.crawl.document(n)
			rows[i], mutations[i] = fig7Row(d.number), bigtable.NewMutation()
			mutations[i].Set(fig7RawFamily, fig7KeysCol, fig7Now(), d.encode())
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

	o := fig7Outcome{arrivals: a, begun: time.Now(), clustered: make([]time.Time, len(a.due))}
	var stop, loaded atomic.Bool
	group, gctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		err := a.offer(gctx, o.begun, &stop, bulkRows, load)
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
	out.fig7Delivery = o.delivery()
	out.requests = b.requests.take()
	out.passes, out.read = b.passes, b.read/len(b.passes)
	out.saturated = o.behind()
	return b.verify(ctx, s, o, &out.fig7Delivery)
}

// pass clusters every document that was written before it began, and returns those that had no
// cluster.
func (b *fig7Batcher) pass(ctx context.Context) (fresh []uint32, err error) {
	begun := time.Now()
	stored, err := b.scan(ctx, bigtable.Time(begun))
	if err != nil {
		return nil, err
	}
	documents := make([]fig7Document, len(stored))
	for i, st := range stored {
		documents[i] = st.document
	}
	var rows []string
	var mutations []*bigtable.Mutation
	for i, canonical := range fig7Rounds(documents) {
		if st := stored[i]; !st.clustered || st.cluster != canonical {
			m := bigtable.NewMutation()
			m.Set(fig7RawFamily, fig7Cluster, fig7Now(), encodeFig7Cluster(canonical))
			rows, mutations = append(rows, st.row), append(mutations, m)
			if !st.clustered {
				fresh = append(fresh, st.document.number)
			}
		}
	}
	if err := applyBulk(ctx, b.table, rows, mutations); err != nil {
		return nil, err
	}
	b.passes = append(b.passes, milliseconds(time.Since(begun)))
	b.read += len(stored)
	return fresh, nil
}

// scan reads all documents that were written before the moment, in the order of their numbers.
func (b *fig7Batcher) scan(ctx context.Context, before bigtable.Timestamp) ([]fig7Stored, error) {
	parts := make([][]fig7Stored, fig7Width)
	group, ctx := errgroup.WithContext(ctx)
	for i := range parts {
		group.Go(func() (err error) { // rows begin with a hexadecimal digit
			from, to := fmt.Sprintf("%x", i*16/fig7Width), fmt.Sprintf("%x", (i+1)*16/fig7Width)
			if i == fig7Width-1 {
				to = "g"
			}
			parts[i], err = b.scanRange(ctx, bigtable.NewRange(from, to), before)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	stored := slices.Concat(parts...)
	slices.SortFunc(stored, func(a, b fig7Stored) int { return cmp.Compare(a.document.number, b.document.number) })
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
				st.document, failed = decodeFig7Document(item.Value)
			case fig7RawFamily + ":" + fig7Cluster:
				st.clustered = true
				st.cluster, failed = decodeFig7Cluster(item.Value)
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

// verify compares all documents with the same clustering in memory, in the order of their numbers.
func (b *fig7Batcher) verify(ctx context.Context, s *fig7Store, o fig7Outcome, out *fig7Delivery) error {
	stored, err := b.scan(ctx, bigtable.Time(time.Now().Add(time.Hour)))
	if err != nil {
		return err
	}
	s.audit(stored, func(int) bool { return true }, o.arrivals).into(out)
	return nil
}
