package simulated_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gopercolator/percolator/emulator_test/internal/simulated"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/tso"
)

// BenchmarkOperations is what requests cost in real time, on rows of a table in use; their virtual
// time costs a timer for each way.
func BenchmarkOperations(b *testing.B) {
	const rows = 10_000
	row := func(i int) string { return fmt.Sprintf("account-%06d", i%rows) }
	names := make([]string, rows)
	for i := range names {
		names[i] = row(i * 7919)
	}
	value, lock := []byte("a value of some length"), make([]byte, 60)
	prewrite := func(ts tso.Timestamp) *store.Mutation {
		m := store.NewMutation(2)
		m.Put(layout.DataFamily, "balance", ts, value)
		m.Put(layout.LockFamily, "balance", ts, lock)
		return m
	}
	commit := func(ts tso.Timestamp) *store.Mutation {
		m := store.NewMutation(2)
		m.Commit("balance", layout.KindPut, ts, ts+1, false, layout.Lifetime{})
		m.EraseBetween(layout.WriteFamily, "balance", 0, max(ts-5, 1)) // so that rows stay as small as collection keeps them
		m.EraseBetween(layout.DataFamily, "balance", 0, max(ts-5, 1))
		return m
	}
	for _, op := range []struct {
		name string
		do   func(ctx context.Context, s *simulated.Connection, i int) error
	}{
		{"ReadRow", func(ctx context.Context, s *simulated.Connection, i int) error {
			_, err := s.ReadRow(ctx, "t", names[i%rows], store.Newest([]string{"balance"}, 1<<40, 1))
			return err
		}},
		{"ReadRows10", func(ctx context.Context, s *simulated.Connection, i int) error {
			return s.ReadRows(ctx, "t", store.From(names[i%rows]), store.Newest(nil, 1<<40, 1), 10, nil, func(layout.Row) bool { return true })
		}},
		{"CheckAndMutate", func(ctx context.Context, s *simulated.Connection, i int) error {
			ts := tso.Timestamp(10 + 2*i)
			_, err := s.CheckAndMutate(ctx, "t", names[i%rows], store.Conflict([]string{"balance"}, ts, false), nil, prewrite(ts))
			return err
		}},
		{"MutateRows", func(ctx context.Context, s *simulated.Connection, i int) error {
			_, err := s.MutateRows(ctx, "t", names[i%rows:i%rows+1], []*store.Mutation{commit(tso.Timestamp(10 + 2*i))})
			return err
		}},
		{"SampleKeys", func(ctx context.Context, s *simulated.Connection, i int) error {
			_, err := s.SampleKeys(ctx, "t")
			return err
		}},
	} {
		b.Run(op.name, func(b *testing.B) {
			b.ReportAllocs()
			inBubble(b, func(t *testing.T) {
				conn := newCluster(t, simulated.Config{}).Connect("p")
				fill(t, conn, names, func(ts tso.Timestamp) *store.Mutation { return commit(ts) })
				const parallel = 16
				var running sync.WaitGroup
				for g := range parallel {
					running.Go(func() {
						for i := g; i < b.N; i += parallel {
							ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
							if err := op.do(ctx, conn, i); err != nil {
								t.Error(err)
							}
							cancel()
						}
					})
				}
				running.Wait()
			})
		})
	}
}

// fill gives rows some versions.
func fill(t *testing.T, s *simulated.Connection, names []string, mutation func(ts tso.Timestamp) *store.Mutation) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for ts := range tso.Timestamp(3) {
		muts := make([]*store.Mutation, len(names))
		for i := range muts {
			muts[i] = mutation(1 + 2*ts)
			muts[i].Put(layout.DataFamily, "balance", 1+2*ts, []byte("a value"))
		}
		if _, err := s.MutateRows(ctx, "t", names, muts); err != nil {
			t.Fatal(err)
		}
	}
}

// inBubble runs a part of a benchmark in virtual time.
func inBubble(b *testing.B, f func(t *testing.T)) {
	ok := testing.RunTests(func(string, string) (bool, error) { return true, nil },
		[]testing.InternalTest{{Name: b.Name(), F: func(t *testing.T) { synctest.Test(t, f) }}})
	if !ok {
		b.Fatal("failed")
	}
}
