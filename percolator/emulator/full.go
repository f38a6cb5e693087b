package emulator

import (
	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// SetFull fills the storage of the emulator, or makes room again. As long as it is full, reads and
// everything that could write a cell get the code ResourceExhausted, conditional mutations among
// them whatever they do: they read. What only deletes passes: DropRowRange, DeleteTable, and
// mutations of rows that erase, also those beside others in one bulk request. The tables themselves
// can be changed. So Google's documentation describes a cluster whose nodes have too little
// storage, but for the code.
func (s *Server) SetFull(full bool) { s.guard.full.Store(full) }

// errFull has the code that google.rpc has for a file system out of space; the service's own is not
// documented.
var errFull = status.Error(codes.ResourceExhausted, "The storage of the cluster is full. Add nodes or delete data.")

// checkFull refuses a request for one row, or a read, while the storage is full.
func (g *guard) checkFull(req any) error {
	if !g.full.Load() {
		return nil
	}
	switch r := req.(type) {
	case *btpb.MutateRowRequest:
		return g.checkFullRow(r.Mutations)
	case *btpb.ReadRowsRequest, *btpb.CheckAndMutateRowRequest, *btpb.ReadModifyWriteRowRequest:
		return errFull
	}
	return nil
}

func (g *guard) checkFullRow(mutations []*btpb.Mutation) error {
	if !g.full.Load() {
		return nil
	}
	for _, m := range mutations {
		switch m.GetMutation().(type) {
		case *btpb.Mutation_DeleteFromColumn_, *btpb.Mutation_DeleteFromFamily_, *btpb.Mutation_DeleteFromRow_:
		default:
			return errFull
		}
	}
	return nil
}
