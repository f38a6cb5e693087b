package percolator

import (
	"context"
	"encoding/binary"
	"testing"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/tso"
)

// newMetaMutation announces a safepoint or a mark, as the collector does.
func newMetaMutation(column string, ts tso.Timestamp) *bigtable.Mutation {
	mut := bigtable.NewMutation()
	mut.Set(metaFamily, column, metaTimestamp, binary.BigEndian.AppendUint64(nil, uint64(ts)))
	return mut
}

// newBareClient is a client of an emulator of its own with the table t.
func newBareClient(t *testing.T) (context.Context, *Client) {
	t.Helper()
	em, err := emulator.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { em.Close() })
	h := newHistory(t, em, "i")
	return h.ctx, h.c
}
