package store

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/telemetry"
)

// tabletBackend notes the mutations that it gets, and holds those of a slow tablet. Rows begin with
// the name of their tablet.
type tabletBackend struct {
	Backend
	ends []string
	slow byte          // 0: none
	held chan struct{} // gets one for each request that is held
	free chan struct{} // closed when the tablet is quick again

	mu    sync.Mutex
	mixed int
	most  Load // of the largest request
}

func (b *tabletBackend) SampleKeys(context.Context, string) ([]string, error) { return b.ends, nil }

func (b *tabletBackend) MutateRows(ctx context.Context, _ string, rows []string, muts []*Mutation) ([]error, error) {
	b.mu.Lock()
	var load Load
	slow := false
	for i, row := range rows {
		load = load.Plus(muts[i].load(row))
		slow = slow || row[0] == b.slow
	}
	if rows[0][0] != rows[len(rows)-1][0] {
		b.mixed++
	}
	b.most = Load{max(b.most.Rows, load.Rows), max(b.most.Bytes, load.Bytes), max(b.most.Mutations, load.Mutations)}
	b.mu.Unlock()
	if !slow {
		return nil, nil
	}
	b.held <- struct{}{}
	select {
	case <-b.free:
		return nil, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func newTabletBackend(t *testing.T, ends ...string) (*tabletBackend, *BulkWriter) {
	backend := &tabletBackend{ends: ends, held: make(chan struct{}, 10_000), free: make(chan struct{})}
	s := New(t.Context(), backend, &telemetry.Counters{})
	w := NewBulkWriter(s.Background, s)
	t.Cleanup(func() { s.Stop(); w.Close() })
	return backend, w
}

// rowMutations are so many rows of each tablet, each with so many puts of size bytes.
func rowMutations(tablets string, rows, puts, size int) (muts []RowMutation) {
	for i := range rows {
		for _, name := range []byte(tablets) {
			mut := NewMutation(puts)
			for range puts {
				mut.Put(layout.DataFamily, "c", 1, make([]byte, size))
			}
			muts = append(muts, RowMutation{Table: "t", Row: fmt.Sprintf("%c%05d", name, i), Mut: mut, Deadline: time.Now().Add(time.Minute)})
		}
	}
	return muts
}

// Mutations of a tablet that is slow hold up nobody else's.
func TestSlowTabletHoldsUpNoOtherMutations(t *testing.T) {
	t.Parallel()
	backend, w := newTabletBackend(t, "b", "c", "d")
	backend.slow = 'b'
	w.store.Tablets.learn("t", w.store.Tablets.of("t"))
	slow := make(chan error, 1)
	go func() { slow <- w.Do(t.Context(), rowMutations("b", 600, 1, 1)) }()
	for range tabletInFlight {
		<-backend.held
	}
	if err := w.Do(t.Context(), rowMutations("acd", 600, 1, 1)); err != nil {
		t.Error(err)
	}
	if backend.mixed > 0 {
		t.Errorf("%d requests had rows of several tablets", backend.mixed)
	}
	select {
	case err := <-slow:
		t.Errorf("the slow tablet answered: %v", err)
	default:
	}
	close(backend.free)
	if err := <-slow; err != nil {
		t.Error(err)
	}
}

// A request has no more bytes and mutations than it should, and almost as many where more wait.
func TestBulkRequestsAreBound(t *testing.T) {
	t.Parallel()
	for name, muts := range map[string][]RowMutation{
		"bytes":     rowMutations("a", 200, 1, 100<<10),
		"mutations": rowMutations("a", 20, 3_000, 0),
	} {
		backend, w := newTabletBackend(t)
		if err := w.Do(t.Context(), muts); err != nil {
			t.Error(err)
		}
		if backend.most.Bytes > max(bulkMost.Bytes, muts[0].Mut.load("a").Bytes+100) || backend.most.Mutations > bulkMost.Mutations {
			t.Errorf("%s: a request had %+v, more than %+v", name, backend.most, bulkMost)
		}
		if name == "bytes" && backend.most.Bytes < bulkMost.Bytes*9/10 {
			t.Errorf("%s: the largest request had %+v", name, backend.most)
		}
	}
}

// A tablet that does not answer does not take up the queue: who writes elsewhere waits for nothing.
func TestSlowTabletLeavesRoomInTheQueue(t *testing.T) {
	t.Parallel()
	backend, w := newTabletBackend(t, "b", "c")
	backend.slow = 'a'
	w.store.Tablets.learn("t", w.store.Tablets.of("t"))
	ctx, cancel := context.WithCancel(t.Context())
	slow := make(chan struct{})
	go func() {
		defer close(slow)
		_ = w.Do(ctx, rowMutations("a", bulkQueue+1, 1, 1))
	}()
	for full := false; !full; {
		w.mu.Lock()
		full = w.tablets[tabletID{"t", "b"}] != nil && w.tablets[tabletID{"t", "b"}].users == tabletMost+1
		w.mu.Unlock()
		runtime.Gosched()
	}
	if err := w.Do(t.Context(), rowMutations("bc", 600, 1, 1)); err != nil {
		t.Error(err)
	}
	cancel()
	close(backend.free)
	<-slow
	if err := w.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.tablets) > 0 || len(w.Slots) > 0 {
		t.Errorf("%d tablets and %d rows are left in the queue", len(w.tablets), len(w.Slots))
	}
}
