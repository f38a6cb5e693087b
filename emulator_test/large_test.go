package emulator_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

// shape is a large transaction: so many rows of so many cells with values of so many bytes.
type shape struct{ rows, columns, bytes int }

func (s shape) cells() int { return s.rows * s.columns }

func (s shape) cell(i int) percolator.Cell {
	return percolator.Cell{Table: table, Row: fmt.Sprintf("row-%06d", i/s.columns), Column: fmt.Sprintf("c%05d", i%s.columns)}
}

// buffer sets all cells and returns the size of what was written: keys and values.
func (s shape) buffer(tx *percolator.Txn) (size int, err error) {
	value := bytes.Repeat([]byte{'v'}, s.bytes)
	for i := range s.cells() {
		c := s.cell(i)
		if err := tx.Set(c, value); err != nil {
			return 0, err
		}
		size += len(value) + len(c.Row) + len(c.Column)
	}
	return size, nil
}

// Environment of the process in which a large transaction runs by itself: only there does the heap
// tell what it costs.
const (
	largeShape    = "PERCOLATOR_TEST_LARGE"
	largeInstance = "PERCOLATOR_TEST_LARGE_INSTANCE"
)

// A large transaction commits, in many rows and in few, and what it holds stays below three times
// the size of its writes. The store is not in the process that is measured.
func TestLargeTransactions(t *testing.T) {
	fixture.Slow(t)
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	rows := fixture.Of(50_000, 10_000)
	for _, s := range []shape{{rows, 1, 1 << 10}, {10, 2000, 1 << 10}, {1000, 1, 10 << 10}} {
		env := percolatortest.New(t, schema, percolatortest.Address(storeAddr))
		child := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestLargeTransactionAlone$", "-test.v")
		child.Env = append(os.Environ(), "BIGTABLE_EMULATOR_HOST="+storeAddr, fmt.Sprintf("%s=%d %d %d", largeShape, s.rows, s.columns, s.bytes), largeInstance+"="+env.Instance)
		out, err := child.CombinedOutput()
		if err != nil {
			t.Fatalf("%+v: %v\n%s", s, err, out)
		}
		t.Logf("%+v: %s", s, figures(out))
		wantStored(t, ctx, env, s)
	}
}

// figures is the line of the child that begins with "heap".
func figures(out []byte) string {
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		if _, text, ok := strings.Cut(lines.Text(), "heap: "); ok {
			return text
		}
	}
	return "no figures"
}

// wantStored checks that every cell is there, committed, and that nothing else is.
func wantStored(t *testing.T, ctx context.Context, env *percolatortest.Env, s shape) {
	t.Helper()
	count := map[string]int{}
	if err := env.Store().Open(table).ReadRows(ctx, bigtable.InfiniteRange(""), func(r bigtable.Row) bool {
		for family, items := range r {
			count[family] += len(items)
		}
		return true
	}, bigtable.RowFilter(bigtable.StripValueFilter())); err != nil {
		t.Fatal(err)
	}
	if count["lock"] != 0 || count["write"] != s.cells() || count["data"] != s.cells() || count["notify"] != 0 {
		t.Errorf("%+v: stored %v", s, count)
	}
	at, err := env.Client.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{0, s.cells() / 2, s.cells() - 1} {
		if v, err := at.Get(ctx, s.cell(i)); err != nil || len(v) != s.bytes {
			t.Errorf("%s: %d bytes, %v", s.cell(i), len(v), err)
		}
	}
}

// TestLargeTransactionAlone is the other process of TestLargeTransactions; without its environment
// there is nothing to do.
func TestLargeTransactionAlone(t *testing.T) {
	var s shape
	if _, err := fmt.Sscan(os.Getenv(largeShape), &s.rows, &s.columns, &s.bytes); err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	oracle, err := tso.NewServer(tso.NewMemoryStore(), tso.ServerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	running, stop := context.WithCancel(ctx)
	over := make(chan error, 1)
	go func() { over <- oracle.Run(running) }()
	defer func() { stop(); <-over }()
	c, err := percolator.NewClient(ctx, percolator.Config{Project: "percolatortest", Instance: os.Getenv(largeInstance), Oracle: oracle}, emulator.Connect(storeAddr)...)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	tx, err := c.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	percent := 5
	if s.cells() > 20_000 {
		percent = 50 // collecting so many objects more often takes longer than the commit
	}
	heap := watchHeap(percent)
	size, err := s.buffer(tx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if err := c.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	peak := heap.peak()
	fmt.Printf("heap: at most %.2f times the %d bytes written\n", float64(peak)/float64(size), size)
	if peak >= 3*size {
		t.Errorf("%+v: the heap grew by %d bytes for %d written", s, peak, size)
	}
}

// heapWatch samples what is allocated, with so frequent collections that it is little more than
// what is in use.
type heapWatch struct {
	before int
	stop   chan struct{}
	max    chan int
}

// watchHeap has garbage collected whenever the heap has grown by so many percent.
func watchHeap(percent int) *heapWatch {
	debug.SetGCPercent(percent)
	runtime.GC()
	h := &heapWatch{before: heapBytes(), stop: make(chan struct{}), max: make(chan int)}
	go func() {
		most := 0
		for tick := time.NewTicker(time.Millisecond); ; {
			most = max(most, heapBytes())
			select {
			case <-tick.C:
			case <-h.stop:
				h.max <- most
				return
			}
		}
	}()
	return h
}

func (h *heapWatch) peak() int {
	close(h.stop)
	return <-h.max - h.before
}

func heapBytes() int {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return int(sample[0].Value.Uint64())
}

// A large transaction that conflicts on its last row leaves nothing behind.
func TestLargeTransactionThatConflicts(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	for _, s := range []shape{{5000, 1, 100}, {4, 500, 100}} {
		env := percolatortest.New(t, schema, percolatortest.Address(storeAddr))
		tx, err := env.Client.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.buffer(tx); err != nil {
			t.Fatal(err)
		}
		last := s.cell(s.cells() - 1)
		if _, err := env.NewClient().Update(ctx, func(_ context.Context, tx *percolator.Txn) error { return tx.Set(last, []byte("other")) }); err != nil {
			t.Fatal(err)
		}
		var conflict *percolator.ConflictError
		if _, err := tx.Commit(ctx); !errors.As(err, &conflict) || conflict.Cell != last {
			t.Errorf("%+v: %v, want a conflict on %s", s, err, last)
		}
		count := map[string]int{}
		var cells []string
		if err := env.Store().Open(table).ReadRows(ctx, bigtable.InfiniteRange(""), func(r bigtable.Row) bool {
			for family, items := range r {
				for _, it := range items {
					if count[family]++; len(cells) < 8 {
						cells = append(cells, r.Key()+"/"+it.Column)
					}
				}
			}
			return true
		}); err != nil {
			t.Fatal(err)
		}
		// The other transaction's data and record, and the rollback marker on the primary, which
		// keeps late duplicates away.
		if count["lock"] != 0 || count["data"] != 1 || count["write"] > 2 {
			t.Errorf("%+v: left behind %v, such as %q", s, count, cells)
		}
	}
}
