package percolator

import (
	"encoding/binary"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/tso"
)

// newMetaMutation announces a safepoint or a mark, as the collector does.
func newMetaMutation(column string, ts tso.Timestamp) *bigtable.Mutation {
	mut := bigtable.NewMutation()
	mut.Set(metaFamily, column, metaTimestamp, binary.BigEndian.AppendUint64(nil, uint64(ts)))
	return mut
}
