package percolator

import (
	"context"
	"errors"
	"slices"
	"testing"

	"cloud.google.com/go/bigtable"
	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"

	"github.com/gopercolator/percolator/percolator/emulator"
)

// Everything that is buffered counts towards MaxTxnBytes. What has no room is refused by itself, and the transaction commits what it has.
func TestTransactionBytesAreLimited(t *testing.T) {
	t.Parallel()
	ctx, c := newBareClient(t)
	tx, err := c.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := tx.Set(cell("a", "c"), []byte("12345")); err != nil {
		t.Fatal(err)
	}
	before := c.Stats().Requests["ReadRows"]
	tx.bytes = MaxTxnBytes - 9
	for what, err := range map[string]error{
		"Set":            tx.Set(cell("r", "c"), make([]byte, 8)),
		"Insert":         tx.Insert(cell("r", "c"), make([]byte, 8)),
		"Delete":         tx.Delete(cell("a long row", "c")),
		"GetForUpdate":   second(tx.GetForUpdate(ctx, cell("a long row", "c"))),
		"Set once more":  tx.Set(cell("a", "c"), make([]byte, 15)),
		"a typed Set":    Bytes("t", "c").Set(tx, "r", make([]byte, 8)),
		"a typed Delete": Bytes("t", "c").Delete(tx, "a long row"),
	} {
		if !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if n := c.Stats().Requests["ReadRows"] - before; n != 0 || len(tx.order) != 1 || tx.bytes != MaxTxnBytes-9 {
		t.Errorf("after the refusals: %d requests, %d writes, %d bytes left", n, len(tx.order), MaxTxnBytes-tx.bytes)
	}
	for what, err := range map[string]error{
		"the bytes that are left": tx.Set(cell("b", "c"), make([]byte, 7)),
		"less than there was":     tx.Set(cell("a", "c"), []byte("1234")),
	} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	s, err := c.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	values, err := s.GetMulti(ctx, cell("a", "c"), cell("b", "c"), cell("r", "c"), cell("a long row", "c"))
	if err != nil || string(values[0]) != "1234" || len(values[1]) != 7 || values[2] != nil || values[3] != nil {
		t.Errorf("committed %q, %v", values, err)
	}
}

func second[T any](_ T, err error) error { return err }

// Weak notifications are limited by their number.
func TestWeakNotificationsAreLimited(t *testing.T) {
	t.Parallel()
	ctx, c := newBareClient(t)
	tx, err := c.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	row := make([]byte, 4)
	for i := range maxWeak {
		row[0], row[1], row[2], row[3] = 'r', byte(i>>16), byte(i>>8), byte(i)
		if err := tx.Notify(cell(string(row), "poke")); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Notify(cell("one more", "poke")); !errors.Is(err, ErrTooLarge) {
		t.Errorf("one more: %v", err)
	}
	if err := tx.Notify(cell(string(row), "poke")); err != nil {
		t.Errorf("one of them again: %v", err)
	}
	if err := tx.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
}

// However a row is cut, every cell is in exactly one request, and none is larger than Bigtable takes.
func TestChunksOfLargeRows(t *testing.T) {
	t.Parallel()
	big := make([]byte, 3<<20)
	for name, rw := range map[string]*rowWrites{
		"as many columns as may be": rowOf(MaxColumnsPerRow, 8, nil),
		"long names":                rowOf(200, MaxColumnBytes, nil),
		"large values":              rowOf(40, 8, big),
		"one value":                 rowOf(1, 8, big),
	} {
		for _, span := range []bool{false, true} {
			var cells []*write
			for _, chunk := range rw.chunks(span) {
				size := 0
				for _, w := range chunk {
					size += len(w.value)
				}
				if len(chunk) == 0 || 2*len(chunk) > maxMutationsPerRow || size > chunkBytes && len(chunk) > 1 {
					t.Errorf("%s: a chunk of %d cells and %d bytes", name, len(chunk), size)
				}
				cells = append(cells, chunk...)
			}
			if !slices.Equal(cells, rw.writes) {
				t.Errorf("%s: %d of %d cells in the chunks", name, len(cells), len(rw.writes))
			}
		}
	}
}

func rowOf(columns, nameBytes int, value []byte) *rowWrites {
	rw := &rowWrites{table: "t", row: "r"}
	for i := range columns {
		name := make([]byte, nameBytes)
		for j := range name {
			name[j] = byte('a' + (i>>(4*min(j, 7)))&15)
		}
		rw.writes = append(rw.writes, &write{cell: Cell{"t", "r", string(name)}, kind: kindPut, value: value, observed: true})
	}
	return rw
}

// The commit of the widest row is one request, roll backs and erasures of it too, and none has more mutations than Bigtable takes for a row.
func TestMutationsOfTheWidestRow(t *testing.T) {
	t.Parallel()
	rw := rowOf(MaxColumnsPerRow, 8, nil) // all of them observed: record, lock and notification each
	cm := &commit{startTS: 5}
	acknowledging := rowOf(MaxColumnsPerRow, 8, nil)
	for _, w := range acknowledging.writes {
		w.observed = false // acknowledgments are not observed, and each may settle a notification
		acknowledging.erase = append(acknowledging.erase, w.cell.Column)
	}
	for name, mut := range map[string]*bigtable.Mutation{
		"a commit":                    cm.commitMutation(rw, 7),
		"a commit of acknowledgments": cm.commitMutation(acknowledging, 7),
	} {
		if n := mutationsIn(t, mut); n < 2*MaxColumnsPerRow || n > maxMutationsPerRow {
			t.Errorf("%s of %d columns has %d mutations, the limit is %d", name, MaxColumnsPerRow, n, maxMutationsPerRow)
		}
	}
}

// mutationsIn counts what a request carries.
func mutationsIn(t *testing.T, mut *bigtable.Mutation) (n int) {
	t.Helper()
	stop := errors.New("seen")
	see := func(_ context.Context, _ string, req, _ any, _ *grpc.ClientConn, _ grpc.UnaryInvoker, _ ...grpc.CallOption) error {
		if m, ok := req.(*btpb.MutateRowRequest); ok {
			n = len(m.Mutations)
		}
		return stop
	}
	bt, err := newBigtable(t.Context(), "p", "i", "", append(emulator.Connect("127.0.0.1:1"), option.WithGRPCDialOption(grpc.WithChainUnaryInterceptor(see))))
	if err != nil {
		t.Fatal(err)
	}
	defer bt.Close()
	if err := bt.Open("none").Apply(t.Context(), "r", mut); err == nil {
		t.Fatal("nothing was seen")
	}
	return n
}
