package emulator

import (
	"context"
	"hash/maphash"

	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// rowSizes bounds how large the rows of a table can be, without looking at them: by what was
// written to all rows whose keys have one hash and, where that is more than a row may have, by what
// was written to a row since it was measured. The lock of the table guards it.
type rowSizes struct {
	written *[sizeSlots]int64
	known   map[string]int64
}

const sizeSlots = 1024

var sizeSeed = maphash.MakeSeed()

// grow notes that a row gets so many bytes, and reports whether it may have more than most then.
func (s *rowSizes) grow(row []byte, bytes, most int64) bool {
	if n, ok := s.known[string(row)]; ok {
		s.known[string(row)] = n + bytes
		return n+bytes > most
	}
	if s.written == nil {
		s.written = new([sizeSlots]int64)
	}
	slot := &s.written[maphash.Bytes(sizeSeed, row)%sizeSlots]
	*slot += bytes
	return *slot > most
}

// measured notes the size of a row.
func (s *rowSizes) measured(row []byte, size int64) {
	if s.known == nil {
		s.known = make(map[string]int64)
	}
	s.known[string(row)] = size
}

// forgetSizes is for a table that is deleted.
func (t *table) forgetSizes() {
	t.Lock()
	defer t.Unlock()
	t.sizes = rowSizes{}
}

// grow refuses what would make a row larger than the service stores. Versions that a request
// replaces or erases count until it has been applied; before is what the same request adds to the
// row before that. The caller holds the lock of the table.
func (g *guard) grow(server any, t *table, name string, row []byte, bytes int64, before func() int64) error {
	most := int64(g.rules.limits.row)
	if bytes == 0 || !t.sizes.grow(row, bytes, most) {
		return nil
	}
	bt, ok := server.(btpb.BigtableServer)
	if !ok {
		return nil
	}
	stored := buffer[btpb.ReadRowsResponse]{ServerStream: inside{}}
	if err := bt.ReadRows(&btpb.ReadRowsRequest{TableName: name, Rows: &btpb.RowSet{RowKeys: [][]byte{row}}}, &stored); err != nil {
		return err
	}
	size := bytes + before()
	for _, m := range stored.messages {
		size += int64(sizeOf(m))
	}
	if size <= most {
		t.sizes.measured(row, size)
		return nil
	}
	t.sizes.measured(row, size-bytes)
	return status.Errorf(codes.FailedPrecondition, "Error while mutating the row %q (%s) : Reached maximum allowed row size.", row, name)
}

// inside is the stream of a read that nobody has sent.
type inside struct{ grpc.ServerStream }

// Context implements grpc.ServerStream.
func (inside) Context() context.Context { return context.Background() }

func nothing() int64 { return 0 }

// addedBy is how many bytes a request may add to its row, counted as in an answer.
func addedBy(r rowMutation) (n int64) {
	switch r := r.(type) {
	case *btpb.MutateRowRequest:
		return added(r.RowKey, r.Mutations)
	case *btpb.CheckAndMutateRowRequest:
		return max(added(r.RowKey, r.TrueMutations), added(r.RowKey, r.FalseMutations))
	case *btpb.ReadModifyWriteRowRequest:
		for _, rule := range r.Rules {
			n += int64(len(r.RowKey) + len(rule.ColumnQualifier) + len(rule.GetAppendValue()) + chunkOverhead)
		}
	}
	return n
}

func added(row []byte, mutations []*btpb.Mutation) (n int64) {
	for _, m := range mutations {
		if c := m.GetSetCell(); c != nil {
			n += int64(len(row) + len(c.ColumnQualifier) + len(c.Value) + chunkOverhead)
		}
	}
	return n
}
