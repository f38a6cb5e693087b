package emulator

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"
	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"cloud.google.com/go/bigtable/bttest"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// eventually waits for a condition that another goroutine brings about.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for !cond() {
		if time.Now().After(deadline) {
			t.Errorf("still not: %s", what)
			return
		}
		time.Sleep(100 * time.Microsecond)
	}
}

// duringRead runs f in the middle of the emulator's reading of a row: the emulator logs a filter
// that it does not know, once for each cell, after it has made its copy of the row.
func duringRead(t *testing.T, addr, table string, f func()) (columns []string) {
	t.Helper()
	var once sync.Once
	defer log.SetOutput(log.Writer())
	log.SetOutput(writerFunc(func(p []byte) (int, error) {
		if bytes.Contains(p, []byte("RowFilter_Sink")) {
			once.Do(f)
		}
		return len(p), nil
	}))
	stream, err := btpb.NewBigtableClient(dial(t, addr)).ReadRows(testContext(t), &btpb.ReadRowsRequest{
		TableName: fullName(table),
		Rows:      &btpb.RowSet{RowKeys: [][]byte{[]byte("r")}},
		Filter:    &btpb.RowFilter{Filter: &btpb.RowFilter_Sink{Sink: true}},
	})
	if err != nil {
		t.Fatal(err)
	}
	m, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range m.Chunks {
		columns = append(columns, string(c.Qualifier.GetValue()))
	}
	return columns
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func setColumns(t *testing.T, tbl *bigtable.Table, row string, columns ...string) {
	t.Helper()
	m := bigtable.NewMutation()
	for _, c := range columns {
		m.Set("f", c, 1000, []byte("v"))
	}
	if err := tbl.Apply(testContext(t), row, m); err != nil {
		t.Fatal(err)
	}
}

func erase(ctx context.Context, tbl *bigtable.Table, row, column string) error {
	m := bigtable.NewMutation()
	m.DeleteCellsInColumn("f", column)
	return tbl.Apply(ctx, row, m)
}

// The reason for the lock: in the bare emulator, erasing one column in the middle of a read repeats
// another. (When this fails the emulator was repaired, and the lock can go.)
func TestBareEmulatorMisreadsUnchangedColumns(t *testing.T) {
	s, err := bttest.NewServer("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	createTable(t, Connect(s.Addr), "t", "f")
	tbl := openClient(t, Connect(s.Addr)).Open("t")
	setColumns(t, tbl, "r", "a", "b", "c")
	got := duringRead(t, s.Addr, "t", func() {
		if err := erase(testContext(t), tbl, "r", "a"); err != nil {
			t.Error(err)
		}
	})
	if want := []string{"b", "c", "c"}; !slices.Equal(got, want) {
		t.Errorf("the bare emulator read %q, want the defect %q", got, want)
	}
}

func TestGuardedReadSeesUnchangedColumnsOnce(t *testing.T) {
	s := start(t)
	createTable(t, s.ClientOptions(), "t", "f")
	tbl := openClient(t, s.ClientOptions()).Open("t")
	setColumns(t, tbl, "r", "a", "b", "c")
	ctx := testContext(t)
	var eg errgroup.Group
	got := duringRead(t, s.Addr(), "t", func() {
		eg.Go(func() error { return erase(ctx, tbl, "r", "a") })
		eventually(t, "the mutation is at the table's lock", func() bool { return s.guard.tables.users(fullName("t")) == 2 })
	})
	if want := []string{"a", "b", "c"}; !slices.Equal(got, want) {
		t.Errorf("read %q, want %q", got, want)
	}
	if err := eg.Wait(); err != nil {
		t.Fatal(err)
	}
	// The server lets go of the table after the client has its answer.
	eventually(t, "nothing holds the table", func() bool { return s.guard.tables.users(fullName("t")) == 0 })
}

// Heavy toggling of other columns of the same row and family: every read sees the unchanged one
// exactly once.
func TestTogglingNeverDisturbsUnchangedColumn(t *testing.T) {
	t.Parallel()
	s := start(t)
	createTable(t, s.ClientOptions(), "t", "f")
	tbl := openClient(t, s.ClientOptions()).Open("t")
	setColumns(t, tbl, "r", "unchanged")
	ctx, stop := context.WithCancel(testContext(t))
	var togglers, readers errgroup.Group
	for i := range 4 {
		togglers.Go(func() error {
			column := fmt.Sprintf("a%d", i) // sorts before the unchanged one
			for ctx.Err() == nil {
				m := bigtable.NewMutation()
				m.Set("f", column, 1000, nil)
				if err := tbl.Apply(testContext(t), "r", m); err != nil {
					return err
				}
				if err := erase(testContext(t), tbl, "r", column); err != nil {
					return err
				}
			}
			return nil
		})
	}
	var anomalies atomic.Int64
	for range 4 {
		readers.Go(func() error {
			for range 150 {
				row, err := tbl.ReadRow(testContext(t), "r")
				if err != nil {
					return err
				}
				n := 0
				for _, it := range row["f"] {
					if it.Column == "f:unchanged" {
						n++
					}
				}
				if n != 1 {
					anomalies.Add(1)
				}
			}
			return nil
		})
	}
	if err := readers.Wait(); err != nil {
		t.Error(err)
	}
	stop()
	if err := togglers.Wait(); err != nil {
		t.Error(err)
	}
	if n := anomalies.Load(); n != 0 {
		t.Errorf("%d of 600 reads missed or repeated the unchanged column", n)
	}
}

// While a page is read, mutations of its table wait; other reads and other tables do not.
func TestReadsAndMutationsOfATableExclude(t *testing.T) {
	t.Parallel()
	reading, finish := make(chan struct{}), make(chan struct{})
	var stopped atomic.Bool
	s := start(t, func(st *settings) {
		st.holding = func(*btpb.ReadRowsRequest) {
			if stopped.CompareAndSwap(false, true) {
				close(reading)
				<-finish
			}
		}
	})
	for _, name := range []string{"t", "other"} {
		createTable(t, s.ClientOptions(), name, "f")
	}
	c := openClient(t, s.ClientOptions())
	tbl := c.Open("t")
	ctx := testContext(t)

	var eg errgroup.Group
	eg.Go(func() error {
		_, err := tbl.ReadRow(ctx, "r")
		return err
	})
	<-reading

	held, done := s.guard.tables.use(fullName("t"))
	defer done()
	if held.TryLock() {
		t.Error("the table can be mutated while a row is read")
		held.Unlock()
	}
	if _, err := tbl.ReadRow(ctx, "r"); err != nil {
		t.Errorf("a second read: %v", err)
	}
	setColumns(t, c.Open("other"), "r", "a")

	var applied atomic.Bool
	for _, mutate := range []func() error{
		func() error { return tbl.Apply(ctx, "r", put("a")) },
		func() error {
			return tbl.Apply(ctx, "r", bigtable.NewCondMutation(bigtable.PassAllFilter(), put("b"), put("b")))
		},
		func() error { _, err := tbl.ApplyBulk(ctx, []string{"r"}, []*bigtable.Mutation{put("c")}); return err },
		func() error {
			rmw := bigtable.NewReadModifyWrite()
			rmw.AppendValue("f", "d", []byte("v"))
			_, err := tbl.ApplyReadModifyWrite(ctx, "r", rmw)
			return err
		},
	} {
		eg.Go(func() error {
			defer applied.Store(true)
			return mutate()
		})
	}
	// The read, this test and four mutations.
	eventually(t, "all mutations are at the lock", func() bool { return s.guard.tables.users(fullName("t")) == 6 })
	if applied.Load() {
		t.Error("a mutation was answered while a row was read")
	}
	close(finish)
	if err := eg.Wait(); err != nil {
		t.Fatal(err)
	}
	row, err := tbl.ReadRow(ctx, "r")
	if err != nil || len(row["f"]) != 4 {
		t.Errorf("read %v, %v, want what the four mutations wrote", row, err)
	}
}

func put(column string) *bigtable.Mutation {
	m := bigtable.NewMutation()
	m.Set("f", column, 1000, []byte("v"))
	return m
}

// A mutation whose caller left while it waited is not applied.
func TestMutationOfGoneCallerIsNotApplied(t *testing.T) {
	t.Parallel()
	g := &guard{rules: defaultRules()}
	tb, done := g.tables.use("t")
	defer done()
	tb.families.Store(&map[string]bool{"f": true})
	tb.Lock()
	ctx, cancel := context.WithCancel(t.Context())
	errs := make(chan error)
	go func() {
		mutation := &btpb.MutateRowRequest{TableName: "t", RowKey: []byte("r"), Mutations: []*btpb.Mutation{setCell("f", "q", 1000, nil)}}
		_, err := g.unary(ctx, mutation, &grpc.UnaryServerInfo{FullMethod: btpb.Bigtable_MutateRow_FullMethodName},
			func(context.Context, any) (any, error) { t.Error("applied"); return nil, nil })
		errs <- err
	}()
	eventually(t, "the mutation waits", func() bool { return g.tables.users("t") == 2 })
	cancel()
	tb.Unlock()
	if err := <-errs; status.Code(err) != codes.Canceled {
		t.Errorf("error %v, want Canceled", err)
	}
}

// The consumer of a scan that is larger than any network buffer writes to the scanned table before
// it reads on.
func TestScanConsumerMayWriteToTheTable(t *testing.T) {
	t.Parallel()
	s := start(t)
	createTable(t, s.ClientOptions(), "t", "f")
	tbl := openClient(t, s.ClientOptions()).Open("t")
	const rows = 3000
	fill(t, tbl, rows, make([]byte, 2000))
	ctx := testContext(t)
	n := 0
	var failed error
	err := tbl.ReadRows(ctx, bigtable.PrefixRange("row-"), func(r bigtable.Row) bool {
		if n%100 == 0 {
			failed = tbl.Apply(ctx, "copy-"+r.Key(), put("c"))
		}
		n++
		return failed == nil
	})
	if err != nil || failed != nil || n != rows {
		t.Fatalf("scanned %d rows of %d: %v, %v", n, rows, err, failed)
	}
}

// users returns how many requests hold or await the named table.
func (ts *tables) users(name string) int {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t := ts.byName[name]; t != nil {
		return t.users
	}
	return 0
}
