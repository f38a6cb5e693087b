package measure

import (
	"context"
	"maps"
	"path"
	"slices"
	"sync"

	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"

	"github.com/gopercolator/percolator/percolator/model"
)

// causeCounter counts the requests of a client to Bigtable by what they are for, as far as can be
// told from a request.
type causeCounter struct {
	mu sync.Mutex
	n  map[string]int64
}

func newCauseCounter() *causeCounter { return &causeCounter{n: map[string]int64{}} }

// option makes a client's requests count.
func (c *causeCounter) option() option.ClientOption {
	return option.WithGRPCDialOption(grpc.WithStatsHandler(c))
}

func (c *causeCounter) counts() map[string]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.n)
}

// HandleRPC implements stats.Handler.
func (c *causeCounter) HandleRPC(_ context.Context, event stats.RPCStats) {
	sent, ok := event.(*stats.OutPayload)
	if !ok {
		return
	}
	cause := causeOf(sent.Payload)
	if cause == "" {
		return // that a connection is warm
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n[cause]++
}

// TagRPC, TagConn and HandleConn implement stats.Handler.
func (c *causeCounter) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// TagConn does nothing.
func (c *causeCounter) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn does nothing.
func (c *causeCounter) HandleConn(context.Context, stats.ConnStats) {}

// causeOf is what a request is for and the table; "" if it is for none.
func causeOf(request any) string {
	switch q := request.(type) {
	case *btpb.ReadRowsRequest:
		o, _ := originOf(q)
		return o.kind + " " + o.table
	case *btpb.CheckAndMutateRowRequest:
		return causeOfMutations(slices.Concat(q.TrueMutations, q.FalseMutations), "prewrite", "commit") + " " + path.Base(q.TableName)
	case *btpb.MutateRowsRequest:
		table := path.Base(q.TableName)
		if table == model.JournalTable {
			return "append " + table
		}
		var all []*btpb.Mutation
		for _, e := range q.Entries {
			all = append(all, e.Mutations...)
		}
		return causeOfMutations(all, "other", "phase two") + " " + table
	case *btpb.MutateRowRequest:
		return "other " + path.Base(q.TableName)
	}
	return ""
}

// causeOfMutations tells prewrites, which set locks, from commits, which set records, and from
// notifications and their end.
func causeOfMutations(ms []*btpb.Mutation, locks, records string) string {
	set, deleted := map[string]bool{}, map[string]bool{}
	for _, m := range ms {
		set[m.GetSetCell().GetFamilyName()] = true
		deleted[m.GetDeleteFromColumn().GetFamilyName()] = true
	}
	switch {
	case set["lock"]:
		return locks
	case set["write"]:
		return records
	case set["notify"]:
		return "notify"
	case deleted["notify"]:
		return "erase"
	}
	return "other"
}
