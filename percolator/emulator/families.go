package emulator

import (
	"context"

	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Google's emulator applies the mutations of a row one by one until one names a family that the
// table lacks. Cloud Bigtable applies none of them, so the families are looked at first.

// errNoFamily is Cloud Bigtable's answer to a mutation of a family that the table lacks.
func errNoFamily(table string, row []byte) error {
	return status.Errorf(codes.NotFound, "Error while mutating the row %q (%s) : Requested column family not found.", row, table)
}

// familiesOf returns the families of a table; nil if it does not exist, which the emulator says.
// server is the emulator, which serves both of Bigtable's interfaces.
func (g *guard) familiesOf(ctx context.Context, server any, name string, t *table) map[string]bool {
	if known := t.families.Load(); known != nil {
		return *known
	}
	g.admin.Lock()
	defer g.admin.Unlock() // so that what is remembered is not older than the last change
	described := describe(ctx, server, name)
	if described == nil {
		return nil
	}
	families := make(map[string]bool, len(described.ColumnFamilies))
	for f := range described.ColumnFamilies {
		families[f] = true
	}
	t.families.Store(&families)
	return families
}

// lacks reports whether a mutation names a family that is not among families.
func lacks(families map[string]bool, mutations []*btpb.Mutation) bool {
	for _, m := range mutations {
		var family string
		switch c := m.GetMutation().(type) {
		case *btpb.Mutation_SetCell_:
			family = c.SetCell.FamilyName
		case *btpb.Mutation_DeleteFromColumn_:
			family = c.DeleteFromColumn.FamilyName
		case *btpb.Mutation_DeleteFromFamily_:
			family = c.DeleteFromFamily.FamilyName
		default:
			continue
		}
		if !families[family] {
			return true
		}
	}
	return false
}

// checkFamilies refuses a request for one row that names a family which the table lacks.
func checkFamilies(families map[string]bool, req any) error {
	if families == nil {
		return nil
	}
	switch r := req.(type) {
	case *btpb.MutateRowRequest:
		if lacks(families, r.Mutations) {
			return errNoFamily(r.TableName, r.RowKey)
		}
	case *btpb.CheckAndMutateRowRequest:
		if misses(families, r.PredicateFilter) || lacks(families, r.TrueMutations) || lacks(families, r.FalseMutations) {
			return errNoFamily(r.TableName, r.RowKey)
		}
	}
	return nil
}
