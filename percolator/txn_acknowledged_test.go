package percolator_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/api/option"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

// refusingStream has the store refuse the mutations of one row of MutateRows for good, and apply
// the others.
type refusingStream struct {
	grpc.ClientStream
	row     string
	entries []*btpb.MutateRowsRequest_Entry
}

func (s *refusingStream) SendMsg(m any) error {
	if r, ok := m.(*btpb.MutateRowsRequest); ok {
		s.entries = r.Entries
	}
	return s.ClientStream.SendMsg(m)
}

func (s *refusingStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if r, ok := m.(*btpb.MutateRowsResponse); ok && err == nil {
		for _, e := range r.Entries {
			if string(s.entries[e.Index].RowKey) == s.row {
				e.Status = &statuspb.Status{Code: int32(codes.InvalidArgument), Message: "refused"}
			}
		}
	}
	return err
}

// A weak notification that was refused, in a request whose other rows were applied and answered
// early, keeps its transaction from committing (I11): otherwise it would be lost.
func TestRefusedNotificationAmongOthersIsNotLost(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	c, err := percolator.NewClient(ctx, percolator.Config{Project: env.Project, Instance: env.Instance, Oracle: env.Oracle},
		append(env.Options(), option.WithGRPCDialOption(grpc.WithChainStreamInterceptor(
			func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
				s, err := open(ctx, desc, cc, method, opts...)
				return &refusingStream{ClientStream: s, row: "row-7"}, err
			})))...)
	fixture.Must(t, err)
	t.Cleanup(func() { c.Close() })
	tx := fixture.MustBegin(t, ctx, c)
	fixture.Must(t, tx.Set(fixture.Cell("r", "c"), []byte("v")))
	for _, row := range rowNames(20) {
		fixture.Must(t, tx.Notify(fixture.Cell(row, "poke")))
	}
	fixture.Must(t, tx.Notify(fixture.Cell("row-7", "poke")))
	if ts, err := tx.Commit(ctx); err == nil {
		t.Errorf("committed at %d without a notification", ts)
	}
	fixture.WantNow(t, ctx, env.Client, fixture.Cell("r", "c"), "")
}

// A commit that was acknowledged is seen by the next snapshot of its client, while phase two has
// not started: alone, with others, by whole rows and by a scan.
func TestAcknowledgedCommitIsSeenBeforePhaseTwo(t *testing.T) {
	t.Parallel()
	for _, whole := range []bool{true, false} {
		env := fixture.NewEnv(t, percolatortest.Configure(longTTL))
		g := &guard{T: t, env: env, ctx: fixture.Context(t), c: env.Client}
		if whole {
			g.c.Engine().Reads.ReadWholeRowsAfter(0)
		}
		rows := rowNames(8)
		g.commit(func(tx *percolator.Txn) error { return g.set(tx, rows...) })
		fixture.Must(t, g.c.Flush(g.ctx))
		hold := percolatortest.NewHold()
		env.FaultsOf(g.c).Handle(func(r percolatortest.Request) percolatortest.Action {
			if r.Method == percolatortest.MutateRows {
				return hold
			}
			return percolatortest.Pass
		})
		fixture.Must(t, fixture.Update(g.ctx, g.c, func(tx *percolator.Txn) error {
			for i, row := range rows {
				if i%2 == 1 {
					fixture.Must(t, tx.Delete(fixture.Cell(row, "c")))
					continue
				}
				fixture.Must(t, tx.Set(fixture.Cell(row, "c"), []byte("new")))
			}
			return nil
		}))
		want := func(i int) string { return []string{"new", ""}[i%2] }
		for i, row := range rows {
			fixture.WantValue(t, g.ctx, g.snapshot(), fixture.Cell(row, "c"), want(i))
		}
		values, err := g.snapshot().GetMulti(g.ctx, cellsIn("c", rows...)...)
		fixture.Must(t, err)
		seen := map[string]string{}
		for e, err := range g.snapshot().Scan(g.ctx, "t", percolator.Prefix("row-"), "c") {
			fixture.Must(t, err)
			seen[e.Cell.Row] = string(e.Value)
		}
		for i, row := range rows {
			if string(values[i]) != want(i) || seen[row] != want(i) {
				t.Errorf("whole rows %v, %s: %q, scanned %q, want %q", whole, row, values[i], seen[row], want(i))
			}
		}
		hold.Release()
	}
}

// Blind writers of two clients, with start timestamps from before, overwrite each other without
// losing a commit: each snapshot at a commit timestamp shows what was committed there.
func TestBlindWritersLoseNoCommit(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	type commit struct {
		ts    tso.Timestamp
		cell  percolator.Cell
		value string
	}
	var mu sync.Mutex
	var all []commit
	var writers sync.WaitGroup
	for w, c := range []*percolator.Client{env.Client, env.NewClient(), env.Client, env.NewClient()} {
		writers.Go(func() {
			for i := range 25 {
				at, v := fixture.Cell(fixture.Key(i%3), "c"), fmt.Sprint(w, ".", i)
				ts, err := c.Update(ctx, func(_ context.Context, tx *percolator.Txn) error {
					if err := tx.Set(fixture.Cell(fmt.Sprint("own", w), "c"), []byte(v)); err != nil {
						return err
					}
					return tx.Set(at, []byte(v))
				}, percolator.Blind())
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				all = append(all, commit{ts, at, v})
				mu.Unlock()
			}
		})
	}
	writers.Wait()
	for _, c := range all {
		s, err := env.Client.Snapshot(ctx, percolator.AsOfTimestamp(c.ts))
		fixture.Must(t, err)
		fixture.WantValue(t, ctx, s, c.cell, c.value)
	}
}
