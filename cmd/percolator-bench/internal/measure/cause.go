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
// told from a request, and the rows that these write or return.
type causeCounter struct {
	mu sync.Mutex
	n  causeCounts
}

// causeCounts are numbers by cause.
type causeCounts struct{ requests, rows map[string]int64 }

func newCauseCounts() causeCounts { return causeCounts{map[string]int64{}, map[string]int64{}} }

// minus is what was counted since former.
func (c causeCounts) minus(former causeCounts) causeCounts {
	return causeCounts{minus(c.requests, former.requests), minus(c.rows, former.rows)}
}

func newCauseCounter() *causeCounter { return &causeCounter{n: newCauseCounts()} }

// option makes a client's requests count.
func (c *causeCounter) option() option.ClientOption {
	return option.WithGRPCDialOption(grpc.WithStatsHandler(c))
}

func (c *causeCounter) counts() causeCounts {
	c.mu.Lock()
	defer c.mu.Unlock()
	return causeCounts{maps.Clone(c.n.requests), maps.Clone(c.n.rows)}
}

type causedCall struct{ by *causeCounter } // key of a context

// HandleRPC implements stats.Handler.
func (c *causeCounter) HandleRPC(ctx context.Context, event stats.RPCStats) {
	cause, _ := ctx.Value(causedCall{c}).(*string)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch e := event.(type) {
	case *stats.OutPayload:
		if *cause = causeOf(e.Payload); *cause == "" {
			return // that a connection is warm
		}
		c.n.requests[*cause]++
		c.n.rows[*cause] += rowsOf(e.Payload)
	case *stats.InPayload:
		if answer, ok := e.Payload.(*btpb.ReadRowsResponse); ok {
			c.n.rows[*cause] += rowsIn(answer)
		}
	}
}

// rowsOf is how many rows a request writes.
func rowsOf(request any) int64 {
	switch q := request.(type) {
	case *btpb.MutateRowsRequest:
		return int64(len(q.Entries))
	case *btpb.ReadRowsRequest:
		return 0
	}
	return 1
}

// TagRPC implements stats.Handler: a call has one cause.
func (c *causeCounter) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context {
	return context.WithValue(ctx, causedCall{c}, new(string))
}

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
