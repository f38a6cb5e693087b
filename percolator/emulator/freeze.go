package emulator

import (
	"context"
	"maps"
	"slices"
	"sync"

	btapb "cloud.google.com/go/bigtable/admin/apiv2/adminpb"
)

// Frozen is an emulator in which nothing changes: mutations, also conditional ones, and changes of
// tables wait until Thaw. Reads go on. So Save writes the store as of one instant, as a power cut
// would leave it: all tables agree, and a running transaction is there with its locks.
type Frozen struct {
	server *Server
	thaw   sync.Once
}

// Freeze waits for the changes that are being made, then blocks further ones. A second Freeze waits
// for the Thaw of the first. A request whose context ends while it waits is not applied.
func (s *Server) Freeze() *Frozen {
	s.guard.changes.Lock()
	return &Frozen{server: s}
}

// Thaw lets changes go on. A second Thaw does nothing. Close needs no Thaw: it never applies
// waiting requests.
func (f *Frozen) Thaw() { f.thaw.Do(f.server.guard.changes.Unlock) }

// change announces a change of a row, or of the table if there is no row, and returns what ends it.
func (g *guard) change(table string, row []byte) (done func()) {
	g.changes.RLock()
	if g.onChange != nil {
		g.onChange(table, string(row))
	}
	return g.changes.RUnlock
}

// changesTable tells whether an administrative request may change something, and which table.
func changesTable(req any) (table string, changes bool) {
	switch r := req.(type) {
	case *btapb.GetTableRequest, *btapb.ListTablesRequest, *btapb.GenerateConsistencyTokenRequest, *btapb.CheckConsistencyRequest:
		return "", false
	case *btapb.CreateTableRequest:
		return r.Parent + "/tables/" + r.TableId, true
	case *btapb.UpdateTableRequest:
		return r.GetTable().GetName(), true
	case interface{ GetName() string }:
		return r.GetName(), true
	}
	return "", true
}

// administer handles a request of the table administration.
func (g *guard) administer(ctx context.Context, server, req any, handle func(context.Context, any) (any, error)) (any, error) {
	table, changes := changesTable(req)
	if changes {
		defer g.change(table, nil)()
	}
	g.admin.Lock()
	defer g.admin.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, contextStatus(err)
	}
	if err := g.checkSchema(ctx, server, req); err != nil {
		return nil, err
	}
	resp, err := handle(ctx, req)
	if !changes {
		return resp, err
	}
	t, done := g.tables.use(table)
	defer done()
	t.families.Store(nil) // after an error too, which may leave a part of a change behind
	if err != nil {
		return nil, err
	}
	switch req.(type) {
	case *btapb.CreateTableRequest:
		g.created(table)
	case *btapb.DeleteTableRequest:
		g.deleted(table)
		t.splits.Store(nil)
		t.forgetSizes()
	}
	return resp, nil
}

// tableNames lists the full names of all tables of all instances, in order. The emulator lists
// those of one instance only.
func (g *guard) tableNames() []string {
	g.admin.Lock()
	defer g.admin.Unlock()
	var all []string
	for _, tables := range g.names {
		all = slices.AppendSeq(all, maps.Keys(tables))
	}
	slices.Sort(all)
	return all
}
