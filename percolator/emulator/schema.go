package emulator

import (
	"context"
	"regexp"
	"strings"

	btapb "cloud.google.com/go/bigtable/admin/apiv2/adminpb"
	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// What the reference of google.bigtable.admin.v2 says of ids.
var (
	tableIDs  = regexp.MustCompile(`^[_a-zA-Z0-9][-_.a-zA-Z0-9]{0,49}$`)
	familyIDs = regexp.MustCompile(`^[-_.a-zA-Z0-9]{1,64}$`)
)

func (l limits) checkTable(r *btapb.CreateTableRequest) error {
	if !tableIDs.MatchString(r.TableId) {
		return refused("Error in field 'table_id' : Invalid id for collection tables, %d bytes", len(r.TableId))
	}
	families := r.GetTable().GetColumnFamilies()
	for id := range families {
		if !familyIDs.MatchString(id) {
			return errFamilyID(id)
		}
	}
	if n := len(families); n > l.families {
		return l.errFamilies(n)
	}
	for _, s := range r.InitialSplits {
		if err := l.checkRowKey(s.Key); err != nil {
			return err
		}
	}
	return nil
}

func checkModifications(all []*btapb.ModifyColumnFamiliesRequest_Modification) error {
	for _, m := range all {
		if !familyIDs.MatchString(m.Id) {
			return errFamilyID(m.Id)
		}
	}
	return nil
}

func errFamilyID(id string) error {
	return refused("Error in field 'column_families' : Invalid id for collection columnFamilies, %d bytes", len(id))
}

func (l limits) errFamilies(n int) error {
	return refused("a table would have %d column families, more than %d", n, l.families)
}

// checkSchema refuses what an instance or a table has no room for. The caller holds g.admin.
func (g *guard) checkSchema(ctx context.Context, server, req any) error {
	limits := g.rules.limits
	switch r := req.(type) {
	case *btapb.CreateTableRequest:
		if n := len(g.names[r.Parent]); n >= limits.tables {
			return status.Errorf(codes.FailedPrecondition, "the instance %s has %d tables and no room for another", r.Parent, n)
		}
	case *btapb.ModifyColumnFamiliesRequest:
		n := len(describe(ctx, server, r.Name).GetColumnFamilies())
		for _, m := range r.Modifications {
			switch {
			case m.GetCreate() != nil:
				n++
			case m.GetDrop():
				n--
			}
			if n > limits.families {
				return limits.errFamilies(n)
			}
		}
	}
	return nil
}

// describe is a table as the emulator has it; nil if it does not exist. The caller holds
// guard.admin.
func describe(ctx context.Context, server any, name string) *btapb.Table {
	admin, ok := server.(btapb.BigtableTableAdminServer)
	if !ok {
		return nil
	}
	t, err := admin.GetTable(ctx, &btapb.GetTableRequest{Name: name})
	if err != nil {
		return nil
	}
	return t
}

// checkPing refuses to warm connections to an instance that has no tables yet.
func (g *guard) checkPing(r *btpb.PingAndWarmRequest) error {
	g.admin.Lock()
	defer g.admin.Unlock()
	if len(g.names[r.Name]) == 0 {
		return status.Errorf(codes.NotFound, "No tables found for instance %s", r.Name)
	}
	return nil
}

// created and deleted keep track of the tables of an instance. The caller holds g.admin.
func (g *guard) created(table string) {
	instance, _, _ := strings.Cut(table, "/tables/")
	if g.names[instance] == nil {
		g.names[instance] = make(map[string]struct{})
	}
	g.names[instance][table] = struct{}{}
}

func (g *guard) deleted(table string) {
	instance, _, _ := strings.Cut(table, "/tables/")
	if delete(g.names[instance], table); len(g.names[instance]) == 0 {
		delete(g.names, instance)
	}
}
