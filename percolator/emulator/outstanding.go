package emulator

import btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"

// rowMutation is a request that mutates one row.
type rowMutation interface {
	GetTableName() string
	GetRowKey() []byte
}

// admit counts mutations of a table until leave, and refuses what would be more than the service
// keeps of one table. They count from when they arrive to when they are answered.
func (t *table) admit(mutations, most int) (leave func(), err error) {
	n := int64(mutations)
	leave = func() { t.outstanding.Add(-n) }
	if t.outstanding.Add(n) > int64(most) {
		leave()
		return nil, Overloaded(0)
	}
	return leave, nil
}

// mutationsOf is how many mutations a request may apply.
func mutationsOf(r rowMutation) int {
	switch r := r.(type) {
	case *btpb.MutateRowRequest:
		return len(r.Mutations)
	case *btpb.CheckAndMutateRowRequest:
		return max(len(r.TrueMutations), len(r.FalseMutations))
	case *btpb.ReadModifyWriteRowRequest:
		return len(r.Rules)
	}
	return 0
}

func mutationsOfAll(entries []*btpb.MutateRowsRequest_Entry) (n int) {
	for _, e := range entries {
		n += len(e.Mutations)
	}
	return n
}
