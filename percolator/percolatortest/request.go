package percolatortest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/protobuf/proto"
)

// The methods of a [Request].
const (
	ReadRows           = "ReadRows"
	SampleRowKeys      = "SampleRowKeys"
	MutateRow          = "MutateRow"
	MutateRows         = "MutateRows"
	CheckAndMutateRow  = "CheckAndMutateRow"
	ReadModifyWriteRow = "ReadModifyWriteRow"
	Oracle             = "Oracle" // a request for a timestamp
)

// Request is one request of a client to the store or the oracle, as it leaves the client.
type Request struct {
	Client string // the name of the client
	Seq    int    // 1 for the client's first request, and so on; the journal's are counted apart
	Method string // ReadRows, CheckAndMutateRow, Oracle, …
	Table  string // name of the table within the instance; "" for the oracle
	Row    string // the row; of several the first; of ranges alone, the first start
	Rows   int    // how many rows it names one by one; 0 for ranges

	Deadline time.Time // no store applies it later

	// Message is a copy of the protocol buffer that is sent, such as
	// *bigtablepb.CheckAndMutateRowRequest; nil for the oracle. It must not be modified.
	Message proto.Message
}

// Sets tells whether the request writes cells of the family, whatever its predicate says: "lock" is
// set by a prewrite, "write" by a commit, a roll forward and a rollback marker.
func (r Request) Sets(family string) bool {
	return slices.ContainsFunc(r.mutations(), func(m *btpb.Mutation) bool { return m.GetSetCell().GetFamilyName() == family })
}

// Erases tells whether the request erases cells of the family in some columns, whatever its
// predicate says: "lock" is erased by a commit, a roll forward and a rollback, "data" by a rollback
// only.
func (r Request) Erases(family string) bool {
	return slices.ContainsFunc(r.mutations(), func(m *btpb.Mutation) bool { return m.GetDeleteFromColumn().GetFamilyName() == family })
}

func (r Request) mutations() (all []*btpb.Mutation) {
	switch m := r.Message.(type) {
	case *btpb.MutateRowRequest:
		return m.Mutations
	case *btpb.MutateRowsRequest:
		for _, e := range m.Entries {
			all = append(all, e.Mutations...)
		}
	case *btpb.CheckAndMutateRowRequest:
		return slices.Concat(m.TrueMutations, m.FalseMutations)
	}
	return all
}

// writes tells whether the request may change the store.
func (r Request) writes() bool {
	return r.Method != ReadRows && r.Method != SampleRowKeys && r.Method != Oracle
}

// String names the request without the values in it.
func (r Request) String() string {
	s := fmt.Sprintf("%s #%d %s", r.Client, r.Seq, r.Method)
	if r.Table != "" {
		s += fmt.Sprintf(" %s %q", r.Table, r.Row)
	}
	if r.Rows > 1 {
		s += fmt.Sprintf(" and %d more", r.Rows-1)
	}
	return s
}

// describe fills in what the message says.
func (r *Request) describe(m proto.Message) {
	r.Message = m
	if of, ok := m.(interface{ GetTableName() string }); ok {
		r.Table = tableID(of.GetTableName())
	}
	switch m := m.(type) {
	case interface{ GetRowKey() []byte }:
		r.Row, r.Rows = string(m.GetRowKey()), 1
	case *btpb.MutateRowsRequest:
		r.Rows = len(m.Entries)
		if len(m.Entries) > 0 {
			r.Row = string(m.Entries[0].RowKey)
		}
	case *btpb.ReadRowsRequest:
		r.Rows = len(m.Rows.GetRowKeys())
		switch {
		case r.Rows > 0:
			r.Row = string(m.Rows.RowKeys[0])
		case len(m.Rows.GetRowRanges()) > 0:
			first := m.Rows.RowRanges[0]
			r.Row = string(first.GetStartKeyClosed()) + string(first.GetStartKeyOpen())
		}
	}
}

// tableID is the last part of projects/…/instances/…/tables/….
func tableID(name string) string {
	return name[strings.LastIndexByte(name, '/')+1:]
}
