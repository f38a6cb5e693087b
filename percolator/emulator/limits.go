package emulator

import (
	"cmp"

	btapb "cloud.google.com/go/bigtable/admin/apiv2/adminpb"
	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// limits are the sizes that Cloud Bigtable accepts (its pages "Quotas and limits" and the reference
// of google.bigtable.v2). Google's emulator accepts anything.
type limits struct {
	readRequest int // bytes of a ReadRowsRequest
	filter      int // bytes of a filter
	filterDepth int // levels of a filter
	mutations   int // of one row, and of one request
	rowKey      int // bytes
	qualifier   int // bytes
	value       int // bytes
	row         int // bytes of a row, stored or in an answer
	outstanding int // mutations of a table that have no answer yet
	tables      int // of an instance
	families    int // of a table
}

var serviceLimits = limits{
	readRequest: 512 << 10,
	filter:      20 << 10,
	filterDepth: 20,
	mutations:   100_000,
	rowKey:      4 << 10,
	qualifier:   16 << 10,
	value:       100 << 20,
	row:         256 << 20,
	outstanding: 300_000,
	tables:      1000,
	families:    100,
}

// timestampUnit is the granularity of cell timestamps, in µs.
const timestampUnit = 1000

func refused(format string, args ...any) error {
	return status.Errorf(codes.InvalidArgument, format, args...)
}

// check refuses a request that exceeds a limit. Nothing of it is applied.
func (l limits) check(req any) error {
	switch r := req.(type) {
	case *btpb.ReadRowsRequest:
		return l.checkRead(r)
	case *btpb.MutateRowRequest:
		return l.checkRow(r.RowKey, r.Mutations)
	case *btpb.MutateRowsRequest:
		return l.checkRows(r.Entries)
	case *btpb.CheckAndMutateRowRequest:
		return l.checkConditional(r)
	case *btpb.ReadModifyWriteRowRequest:
		return l.checkRowKey(r.RowKey)
	case *btapb.CreateTableRequest:
		return l.checkTable(r)
	case *btapb.ModifyColumnFamiliesRequest:
		return checkModifications(r.Modifications)
	}
	return nil
}

func (l limits) checkRead(r *btpb.ReadRowsRequest) error {
	if r.RowsLimit < 0 {
		return refused("the limit of %d rows is negative", r.RowsLimit)
	}
	if n := proto.Size(r); n > l.readRequest {
		return refused("the ReadRowsRequest has %d bytes, more than %d", n, l.readRequest)
	}
	for _, key := range r.GetRows().GetRowKeys() {
		if err := l.checkRowKey(key); err != nil {
			return err
		}
	}
	return l.checkFilter(r.Filter)
}

func (l limits) checkConditional(r *btpb.CheckAndMutateRowRequest) error {
	if err := cmp.Or(l.checkRowKey(r.RowKey), l.checkFilter(r.PredicateFilter)); err != nil {
		return err
	}
	if len(r.TrueMutations)+len(r.FalseMutations) == 0 {
		return refused("the request has no mutations")
	}
	return cmp.Or(l.checkMutations(r.TrueMutations), l.checkMutations(r.FalseMutations))
}

func (l limits) checkRows(entries []*btpb.MutateRowsRequest_Entry) error {
	if len(entries) == 0 {
		return refused("the request has no entries")
	}
	n := 0
	for _, e := range entries {
		if n += len(e.Mutations); n > l.mutations {
			return refused("the request has more than %d mutations", l.mutations)
		}
		if err := l.checkRow(e.RowKey, e.Mutations); err != nil {
			return err
		}
	}
	return nil
}

func (l limits) checkRow(key []byte, mutations []*btpb.Mutation) error {
	if err := l.checkRowKey(key); err != nil {
		return err
	}
	if len(mutations) == 0 {
		return refused("a row has no mutations")
	}
	return l.checkMutations(mutations)
}

func (l limits) checkRowKey(key []byte) error {
	switch {
	case len(key) == 0:
		return refused("a row key is empty")
	case len(key) > l.rowKey:
		return refused("a row key has %d bytes, more than %d", len(key), l.rowKey)
	}
	return nil
}

func (l limits) checkMutations(mutations []*btpb.Mutation) error {
	if len(mutations) > l.mutations {
		return refused("a row has %d mutations, more than %d", len(mutations), l.mutations)
	}
	for _, m := range mutations {
		if err := l.checkMutation(m); err != nil {
			return err
		}
	}
	return nil
}

func (l limits) checkMutation(m *btpb.Mutation) error {
	switch c := m.GetMutation().(type) {
	case *btpb.Mutation_SetCell_:
		set := c.SetCell
		switch ts := set.TimestampMicros; {
		case len(set.Value) > l.value:
			return refused("a value has %d bytes, more than %d", len(set.Value), l.value)
		case ts < -1, ts > 0 && ts%timestampUnit != 0: // -1: the server's time
			return refused("the timestamp %d is no multiple of %d", ts, timestampUnit)
		}
		return l.checkQualifier(set.ColumnQualifier)
	case *btpb.Mutation_DeleteFromColumn_:
		from, to := c.DeleteFromColumn.GetTimeRange().GetStartTimestampMicros(), c.DeleteFromColumn.GetTimeRange().GetEndTimestampMicros()
		switch {
		case from%timestampUnit != 0 || to%timestampUnit != 0:
			return refused("the time range from %d to %d is not in multiples of %d", from, to, timestampUnit)
		case to != 0 && from >= to:
			return refused("the time range from %d to %d is empty", from, to)
		}
		return l.checkQualifier(c.DeleteFromColumn.ColumnQualifier)
	}
	return nil
}

func (l limits) checkQualifier(q []byte) error {
	if len(q) > l.qualifier {
		return refused("a qualifier has %d bytes, more than %d", len(q), l.qualifier)
	}
	return nil
}

// checkAnswer refuses a row of an answer that is too large to be read.
func (l limits) checkAnswer(row []byte, size int) error {
	if size <= l.row {
		return nil
	}
	return status.Errorf(codes.FailedPrecondition, "the row %q has %d bytes in this answer, more than %d: use the filter to read less of it", row, size, l.row)
}
