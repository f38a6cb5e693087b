package emulator

import (
	"bytes"

	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
)

// bulk is a request that mutates many rows, while some of them are refused.
type bulk struct {
	req     *btpb.MutateRowsRequest // what is left of it
	left    []int64                 // of each entry that is left, its index before
	refused []*btpb.MutateRowsResponse_Entry
}

func newBulk(req *btpb.MutateRowsRequest) *bulk {
	b := &bulk{req: req, left: make([]int64, len(req.Entries))}
	for i := range b.left {
		b.left[i] = int64(i)
	}
	return b
}

// refuse takes the entries out that judge refuses, and answers them.
func (b *bulk) refuse(judge func(*btpb.MutateRowsRequest_Entry) error) {
	entries, left := b.req.Entries, b.left
	b.req.Entries, b.left = make([]*btpb.MutateRowsRequest_Entry, 0, len(entries)), left[:0]
	for i, e := range entries {
		if err := judge(e); err != nil {
			b.refused = append(b.refused, &btpb.MutateRowsResponse_Entry{Index: left[i], Status: status.Convert(err).Proto()})
			continue
		}
		b.req.Entries, b.left = append(b.req.Entries, e), append(b.left, left[i])
	}
}

// adds is how many bytes the entries that are left add to a row.
func (b *bulk) adds(row []byte) (n int64) {
	for _, e := range b.req.Entries {
		if bytes.Equal(e.RowKey, row) {
			n += added(row, e.Mutations)
		}
	}
	return n
}

func (g *guard) mutateRows(bt btpb.BigtableServer, ss grpc.ServerStream, req *btpb.MutateRowsRequest) error {
	t, done := g.tables.use(req.TableName)
	defer done()
	leave, err := t.admit(mutationsOfAll(req.Entries), g.rules.limits.outstanding)
	if err != nil {
		return err
	}
	defer leave()
	families := g.familiesOf(ss.Context(), bt, req.TableName, t)
	reach := g.disks.reach(req.TableName)
	b := newBulk(req)
	b.refuse(func(e *btpb.MutateRowsRequest_Entry) error {
		if families != nil && lacks(families, e.Mutations) {
			return errNoFamily(req.TableName, e.RowKey)
		}
		if err := g.checkFullRow(e.Mutations); err != nil {
			return err
		}
		return reach(e.RowKey)
	})
	if err := g.disks.mutateRows(ss.Context(), req); err != nil {
		return err
	}
	answers := &buffer[btpb.MutateRowsResponse]{ServerStream: ss}
	if len(req.Entries) > 0 {
		err := g.mutate(ss.Context(), t, req.TableName, req.Entries[0].RowKey, func() error {
			if families != nil {
				b.refuse(func(e *btpb.MutateRowsRequest_Entry) error {
					return g.grow(bt, t, req.TableName, e.RowKey, added(e.RowKey, e.Mutations), func() int64 { return b.adds(e.RowKey) })
				})
			}
			if len(req.Entries) == 0 {
				return nil
			}
			return bt.MutateRows(req, answers)
		})
		if err != nil {
			return err
		}
	}
	for _, m := range answers.messages {
		for _, e := range m.Entries {
			e.Index = b.left[e.Index]
		}
	}
	if len(b.refused) > 0 {
		answers.messages = append(answers.messages, &btpb.MutateRowsResponse{Entries: b.refused})
	}
	return answers.flush()
}
