package measure

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"
	"cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/report"
	"github.com/gopercolator/percolator/percolator"
)

func fig8Context(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// No two goroutines share a row, and one comes back to a row only when it has been to all of its
// own: a snapshot never answers from its cache, and a writer never meets what it has just written.
func TestFig8SharesOfRows(t *testing.T) {
	t.Parallel()
	const goroutines, rows = 3, 3*fig8SnapshotGets + 2
	table := newFig8Rows(rows, 8)
	visits := make([]int, rows)
	for g := range goroutines {
		w, same := newFig8Walker(table, g, goroutines), newFig8Walker(table, g, goroutines)
		var way []int
		for range len(w.own) {
			row := w.step()
			if other := same.step(); other != row {
				t.Fatalf("one side goes to row %d, the other to %d", row, other)
			}
			visits[row]++
			way = append(way, row)
		}
		if len(way) < fig8SnapshotGets || slices.IsSorted(way) || w.step() != way[0] {
			t.Errorf("goroutine %d: %d rows, %v", g, len(way), way)
		}
	}
	for row, n := range visits {
		if n != 1 {
			t.Errorf("row %d: %d visits", row, n)
		}
	}
}

// A write that is missing, older or another row's is found when it is read back.
func TestFig8Verifies(t *testing.T) {
	t.Parallel()
	table := newFig8Rows(3000, 20)
	stored := map[string][]byte{}
	for row, key := range table.keys {
		table.writes[row] = uint32(row % 3) // a third is not written
		stored[key] = table.fill(nil, row, table.writes[row])
	}
	var asked []string
	table.read = func(_ context.Context, keys []string) ([][]byte, error) {
		asked = keys
		values := make([][]byte, len(keys))
		for i, key := range keys {
			values[i] = stored[key]
		}
		return values, nil
	}
	n, err := table.verify(t.Context())
	if err != nil || n < fig8Batch/2 || n > fig8Batch || int(n) != len(asked) {
		t.Fatalf("%d values of %d, %v", n, len(asked), err)
	}
	row := slices.Index(table.keys, asked[len(asked)-1])
	for what, value := range map[string][]byte{
		"missing": nil, "older": table.fill(nil, row, table.writes[row]-1), "another row's": table.fill(nil, row-3, table.writes[row]),
		"short": stored[table.keys[row]][:19],
	} {
		stored[table.keys[row]] = value
		if _, err := table.verify(t.Context()); err == nil {
			t.Errorf("a value that is %s was taken for the right one", what)
		}
	}
	if most, err := table.eraseOld(t.Context()); most != 2 || err != nil || table.dirty() != 0 {
		t.Errorf("%d writes of a row, %v, %d after erasing", most, err, table.dirty())
	}
}

// Conflicts are counted and are no operations; another error ends the measurement, and so does a
// client that counts otherwise.
func TestFig8Counts(t *testing.T) {
	t.Parallel()
	cfg := &fig8Benchmark{Rows: 2, Slice: 20 * time.Millisecond, Duration: 20 * time.Millisecond} // enough for some conflicts on a busy machine
	table := newFig8Rows(2, 8)
	var mu sync.Mutex
	var calls, committed int64
	conflicting := func(context.Context, *fig8Walker) error {
		mu.Lock()
		defer mu.Unlock()
		if calls++; calls%4 == 0 {
			return percolator.ErrConflict
		}
		committed++
		return nil
	}
	run := func(op func(context.Context, *fig8Walker) error, lost int64) (*fig8Trial, error) {
		calls, committed = 0, 0
		trial := &fig8Trial{goroutines: 2, fig8Kind: fig8Kind{write: true, rowsPerOp: 1,
			ours: fig8Side{rows: table, op: op, stats: func() percolator.Stats {
				mu.Lock()
				defer mu.Unlock()
				return percolator.Stats{Transactions: committed - lost*calls,
					Requests: map[string]int64{"CheckAndMutateRow": 2 * committed, "Oracle": committed}}
			}},
			raw: fig8Side{rows: table, op: func(context.Context, *fig8Walker) error { return nil }},
		}}
		return trial, trial.repeat(t.Context(), cfg)
	}
	trial, err := run(conflicting, 0)
	if err != nil {
		t.Fatal(err)
	}
	m, costs := new(report.Row), new(report.Row)
	trial.into(m, costs)
	if m.Value("conflicts") == 0 || costs.Value("operations") < 2*m.Value("conflicts") || costs.Value("storage requests") != 2 ||
		costs.Value("Oracle") != 1 || m.Value("pairs") != 1 || m.Value("ours") <= 0 || m.Value("ratio") <= 0 || m.Value("ratio") != m.Value("overall") {
		t.Errorf("%+v, %+v", m, costs)
	}
	if _, err := run(conflicting, 1); err == nil || !strings.Contains(err.Error(), "commits") {
		t.Errorf("commits that the client has not counted: %v", err)
	}
	broken := errors.New("broken")
	if _, err := run(func(context.Context, *fig8Walker) error {
		return errors.Join(broken, percolator.ErrOutcomeUnknown, percolator.ErrConflict)
	}, 0); !errors.Is(err, broken) {
		t.Errorf("an operation with unknown outcome: %v", err)
	}
	if _, err := run(func(context.Context, *fig8Walker) error { return percolator.ErrConflict }, 0); err == nil {
		t.Error("nothing but conflicts gave a rate")
	}
}

func newFig8Lab(t *testing.T, rows int, watch ...option.ClientOption) *fig8Lab {
	t.Helper()
	l, err := startFig8(fig8Context(t), &fig8Benchmark{Rows: rows, Value: 100}, embeddedEmulator, watch...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// conditionals keeps the sizes of CheckAndMutateRow requests by table, in order.
type conditionals struct {
	mu    sync.Mutex
	sizes map[string][]int
}

func (c *conditionals) option() option.ClientOption {
	watch := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if r, ok := req.(*bigtablepb.CheckAndMutateRowRequest); ok {
			c.mu.Lock()
			name := r.TableName[strings.LastIndex(r.TableName, "/")+1:]
			c.sizes[name] = append(c.sizes[name], proto.Size(r))
			c.mu.Unlock()
		}
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	return option.WithGRPCDialOption(grpc.WithChainUnaryInterceptor(watch))
}

// The limit of a single-cell write sends what such a transaction sends and leaves behind what it
// leaves behind, or the comparison would mean nothing.
func TestFig8LimitIsLikeTheProtocol(t *testing.T) {
	t.Parallel()
	sent := &conditionals{sizes: map[string][]int{}}
	l := newFig8Lab(t, 4, sent.option())
	ctx := fig8Context(t)
	clear(sent.sizes) // of loading
	if err := writeRows(l.client, 1)(ctx, newFig8Walker(l.ours, 0, 1)); err != nil {
		t.Fatal(err)
	}
	if err := l.lockAndCommit(ctx, newFig8Walker(l.limit, 0, 1)); err != nil {
		t.Fatal(err)
	}
	ours, limit := sent.sizes[fig8Ours], sent.sizes[fig8Limit]
	if len(ours) != 2 || len(limit) != 2 {
		t.Fatalf("requests of %v and %v bytes", ours, limit)
	}
	for i := range ours {
		if limit[i] > ours[i] || 100*limit[i] < 95*ours[i] {
			t.Errorf("request %d has %d bytes, that of the limit %d", i+1, ours[i], limit[i])
		}
	}
	if a, b := cellsOf(t, ctx, l.ours.table), cellsOf(t, ctx, l.limit.table); !slices.Equal(a, b) {
		t.Errorf("a transaction leaves the cells\n%v, the limit\n%v", a, b)
	}
}

// cellsOf lists the families and sizes of all cells of a table, in order.
func cellsOf(t *testing.T, ctx context.Context, table *bigtable.Table) (cells []int) {
	t.Helper()
	err := table.ReadRows(ctx, bigtable.InfiniteRange(""), func(r bigtable.Row) bool {
		for _, family := range []string{"data", "lock", "write", "notify"} {
			cells = append(cells, -len(r[family]))
			for _, it := range r[family] {
				cells = append(cells, len(it.Value))
			}
		}
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return cells
}

// Old versions go, the newest stays, and a lock that was left behind is an error. So is a row that
// is not as the limit has left it.
func TestFig8ErasesOldVersions(t *testing.T) {
	t.Parallel()
	l := newFig8Lab(t, 4)
	ctx := fig8Context(t)
	loaded := cellsOf(t, ctx, l.limit.table)
	for _, rows := range []*fig8Rows{l.limit, l.ours} {
		w := newFig8Walker(rows, 0, 1)
		for range 9 {
			op := l.lockAndCommit
			if rows == l.ours {
				op = writeRows(l.client, 1)
			}
			if err := op(ctx, w); err != nil {
				t.Fatal(err)
			}
		}
		if grown := cellsOf(t, ctx, rows.table); len(grown) != len(loaded)+2*9 {
			t.Errorf("%d cells after nine writes, %d before", len(grown), len(loaded))
		}
		if most, err := rows.eraseOld(ctx); err != nil || most != 3 {
			t.Errorf("%d writes of a row, %v", most, err)
		}
		if left := cellsOf(t, ctx, rows.table); !slices.Equal(left, loaded) {
			t.Errorf("left of the rows: %v, they had been loaded as %v", left, loaded)
		}
		for row := range rows.keys {
			rows.erased[row]-- // look at all of them
		}
		if n, err := rows.verify(ctx); n != 4 || err != nil {
			t.Errorf("%d values verified, %v", n, err)
		}
	}
	mut := bigtable.NewMutation()
	mut.Set("lock", fig8Column, l.tick(), fig8Lock)
	if err := l.limit.table.Apply(ctx, l.limit.keys[2], mut); err != nil {
		t.Fatal(err)
	}
	if _, err := l.limit.eraseOld(ctx); err == nil || !strings.Contains(err.Error(), "lock") {
		t.Errorf("a lock was left: %v", err)
	}
	w := newFig8Walker(l.limit, 2, 4)
	if err := l.lockAndCommit(ctx, w); err == nil {
		t.Error("the limit wrote over a lock")
	}
}
