package percolator_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/tso"
)

// clockOracle is the cheapest oracle there is, so that the benchmarks show the client and the
// store.
type clockOracle struct{ last atomic.Int64 }

func (o *clockOracle) Next(context.Context) (tso.Timestamp, error) {
	for {
		last := o.last.Load()
		next := max(last+1, int64(tso.At(time.Now())))
		if o.last.CompareAndSwap(last, next) {
			return tso.Timestamp(next), nil
		}
	}
}

func benchClient(b *testing.B, cfg percolator.Config) *percolator.Client {
	b.Helper()
	return benchClientOf(b, cfg, &percolator.Schema{Tables: []percolator.Table{{Name: "t"}}})
}

func benchClientOf(b *testing.B, cfg percolator.Config, schema *percolator.Schema, opts ...emulator.Option) *percolator.Client {
	b.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	em, err := emulator.Start(opts...)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { em.Close() })
	if err := percolator.CreateSchema(ctx, "p", "i", schema, em.ClientOptions()...); err != nil {
		b.Fatal(err)
	}
	cfg.Project, cfg.Instance, cfg.Oracle = "p", "i", &clockOracle{}
	c, err := percolator.NewClient(ctx, cfg, em.ClientOptions()...)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	return c
}

// parallel runs f from 64 goroutines; i counts calls.
func parallel(b *testing.B, f func(i int64) error) {
	var n atomic.Int64
	b.SetParallelism(32)
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := f(n.Add(1)); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

func BenchmarkSetOneCell(b *testing.B) {
	c := benchClient(b, percolator.Config{})
	parallel(b, func(i int64) error {
		_, err := c.Update(b.Context(), func(_ context.Context, tx *percolator.Txn) error {
			return tx.Set(percolator.Cell{Table: "t", Row: fmt.Sprintf("row%08d", i), Column: "c"}, []byte("value"))
		})
		return err
	})
}

func BenchmarkSetTenRows(b *testing.B) {
	c := benchClient(b, percolator.Config{})
	parallel(b, func(i int64) error {
		_, err := c.Update(b.Context(), func(_ context.Context, tx *percolator.Txn) error {
			for j := range 10 {
				if err := tx.Set(percolator.Cell{Table: "t", Row: fmt.Sprintf("row%08d-%d", i, j), Column: "c"}, []byte("value")); err != nil {
					return err
				}
			}
			return nil
		})
		return err
	})
}

func BenchmarkGet(b *testing.B) {
	for _, batching := range []bool{true, false} {
		b.Run(fmt.Sprintf("batching=%v", batching), func(b *testing.B) {
			c := benchClient(b, percolator.Config{DisableBatching: !batching})
			for i := range 20 {
				if _, err := c.Update(b.Context(), func(_ context.Context, tx *percolator.Txn) error {
					for j := range 50 {
						if err := tx.Set(percolator.Cell{Table: "t", Row: fmt.Sprintf("row%08d", i*50+j), Column: "c"}, []byte("value")); err != nil {
							return err
						}
					}
					return nil
				}); err != nil {
					b.Fatal(err)
				}
			}
			if err := c.Flush(b.Context()); err != nil {
				b.Fatal(err)
			}
			parallel(b, func(i int64) error {
				tx, err := c.Begin(b.Context())
				if err != nil {
					return err
				}
				_, err = tx.Get(b.Context(), percolator.Cell{Table: "t", Row: fmt.Sprintf("row%08d", i*7919%1000), Column: "c"})
				return err
			})
		})
	}
}
