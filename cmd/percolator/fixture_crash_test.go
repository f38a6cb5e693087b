package main

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/tso"
)

// crashPoint is where a client dies.
type crashPoint int

const (
	beforeCommit crashPoint = iota // its locks stand, and nothing is decided
	afterCommit                    // the primary's record is written, and secondaries are still locked
)

// crash has a client of its own, without a session, commit values, the first cell being the
// primary, and die at a point of that. Its locks are alive for ttl.
func (c *cluster) crash(at crashPoint, ttl time.Duration, value string, cells ...percolator.Cell) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), clusterLimit)
	defer cancel()
	var dead atomic.Bool
	errDead := status.Error(codes.PermissionDenied, "the client has crashed") // a code after which nothing is sent again
	unary := func(
		ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
	) error {
		r, isConditional := req.(*btpb.CheckAndMutateRowRequest)
		commits := isConditional && len(r.TrueMutations) > 0 && r.TrueMutations[0].GetSetCell().GetFamilyName() == "write"
		if dead.Load() || commits && at == beforeCommit {
			dead.Store(true)
			return errDead
		}
		if commits {
			dead.Store(true)
		}
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	stream := func(
		ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption,
	) (grpc.ClientStream, error) {
		if dead.Load() {
			return nil, errDead
		}
		return open(ctx, desc, cc, method, opts...)
	}
	cfg := percolator.Config{Project: c.project, Instance: c.instance, Oracle: bareOracle{c.oracle}, LockTTL: ttl}
	client, err := percolator.NewClient(ctx, cfg, append(slices.Clip(c.options),
		option.WithGRPCDialOption(grpc.WithChainUnaryInterceptor(unary)), option.WithGRPCDialOption(grpc.WithChainStreamInterceptor(stream)))...)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = client.Close() })
	tx, err := client.Begin(ctx)
	for _, cell := range cells {
		if err == nil {
			err = tx.Set(cell, []byte(value))
		}
	}
	if err != nil {
		c.t.Fatal(err)
	}
	if _, err := tx.Commit(ctx); (err == nil) != (at == afterCommit) {
		c.t.Fatalf("the client did not crash where it should: %v", err)
	}
}

// bareOracle gives timestamps and nothing else, so that locks are judged by their TTL.
type bareOracle struct{ tso.Oracle }

// die is crash, and waits until the locks are dead.
func (c *cluster) die(at crashPoint, value string, cells ...percolator.Cell) {
	c.t.Helper()
	c.crash(at, 100*time.Millisecond, value, cells...)
	last := cells[len(cells)-1]
	for deadline := time.Now().Add(clusterLimit); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if c.stateOf(last) != admin.LockStateAlive {
			return
		}
	}
	c.t.Fatal("the locks of a client that has died stay alive")
}

// stateOf is the state of the lock on a cell.
func (c *cluster) stateOf(cell percolator.Cell) admin.LockState {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), clusterLimit)
	defer cancel()
	for l, err := range admin.New(c.client).ListLocks(ctx, cell.Table, percolator.Row(cell.Row), admin.LockOptions{}) {
		if err != nil {
			c.t.Fatal(err)
		}
		if l.Cell == cell {
			return l.State
		}
	}
	c.t.Fatalf("%s is not locked", cell)
	return ""
}

// accounts is the table of Figure 4 of the paper.
func accounts(row string) percolator.Cell {
	return percolator.Cell{Table: "accounts", Row: row, Column: "balance"}
}

// troubled is a cluster in which transactions have died at every point.
func troubled(t *testing.T) *cluster {
	t.Helper()
	cl := newCluster(t, &percolator.Schema{Tables: []percolator.Table{
		{Name: "accounts", Observed: []string{"balance"}, Weak: []string{"recount"}},
		{Name: "people", Indexes: []percolator.Index{{Name: "mail", Column: "mail", Unique: true}}},
	}})
	cl.set(map[percolator.Cell]string{accounts("Bob"): "$10", accounts("Joe"): "$2", accounts("Ann"): "$5"})
	cl.die(afterCommit, "$3", accounts("Bob"), accounts("Joe"))
	cl.die(beforeCommit, "$4", accounts("Ann"), accounts("Eve"))
	cl.crash(beforeCommit, time.Hour, "$1", accounts("Tom"), accounts("Uma"))
	return cl
}
