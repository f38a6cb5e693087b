package emulator_test

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"
	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

// plainScenario is the transaction of the matrix, without a scenario's surprises.
func plainScenario() *scenario {
	return &scenario{name: "plain", columns: [3]string{"seen", "plain", "seen"}}
}

// delayedRequest keeps the first of some conditional requests in the network: its sender is told
// that the deadline has passed, and it is delivered when the test says so.
type delayedRequest struct {
	row     string
	is      func(*btpb.CheckAndMutateRowRequest) bool
	again   func() // called before the second one is sent
	mu      sync.Mutex
	deliver func() (matched bool, err error)
	sent    int
}

func (d *delayedRequest) intercept(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	m, ok := req.(*btpb.CheckAndMutateRowRequest)
	if !ok || string(m.RowKey) != d.row || !d.is(m) {
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	d.mu.Lock()
	d.sent++
	n := d.sent
	if n == 1 {
		d.deliver = func() (bool, error) {
			late := new(btpb.CheckAndMutateRowResponse)
			err := invoke(context.WithoutCancel(ctx), method, req, late, cc)
			return late.PredicateMatched, err
		}
	}
	d.mu.Unlock()
	switch {
	case n == 1:
		return status.Error(codes.DeadlineExceeded, "the request is still on its way")
	case n == 2 && d.again != nil:
		d.again()
	}
	return invoke(ctx, method, req, reply, cc, opts...)
}

// client makes one whose requests pass d.
func (d *delayedRequest) client(x *crashRun, oracle tso.Oracle) *percolator.Client {
	x.Helper()
	c, err := percolator.NewClient(x.ctx, percolator.Config{Project: x.env.Project, Instance: x.env.Instance, Oracle: oracle},
		append(x.env.Options(), option.WithGRPCDialOption(grpc.WithChainUnaryInterceptor(d.intercept)))...)
	fixture.Must(x, err)
	x.Cleanup(func() { _ = c.Close() })
	return c
}

// commitTimeGate lets the start timestamp through and holds the commit timestamp back until it is
// opened.
type commitTimeGate struct {
	tso.Oracle
	calls  atomic.Int64
	opened chan struct{}
	asked  chan struct{}
}

func newCommitTimeGate(o tso.Oracle) *commitTimeGate {
	return &commitTimeGate{Oracle: o, opened: make(chan struct{}), asked: make(chan struct{})}
}

func (g *commitTimeGate) Next(ctx context.Context) (tso.Timestamp, error) {
	if g.calls.Add(1) == 2 {
		close(g.asked)
		select {
		case <-g.opened:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	return g.Oracle.Next(ctx)
}

// The first anomaly that the rollback marker prevents (I4). The prewrite of P times out and is sent
// again; all three cells are locked. A resolver finds the locks dead and rolls the transaction
// back. Then the first prewrite lands. If it were to lock P again, the commit would find its lock,
// and commit a transaction whose secondaries are gone.
func TestZombiePrewrite(t *testing.T) {
	t.Parallel()
	for _, by := range []nextActor{nextReader, nextScan, nextWorker} {
		t.Run(by.name, func(t *testing.T) {
			t.Parallel()
			m := newMatrixEnv(t)
			x := m.newRun(t, plainScenario(), false)
			defer x.end()
			late := &delayedRequest{row: x.cell("P").Row, is: func(m *btpb.CheckAndMutateRowRequest) bool { return fixture.Sets(m.FalseMutations, "lock") }}
			gate := newCommitTimeGate(m.Oracle)
			x.client = late.client(x, gate)
			go func() { x.done <- x.transact(x.ctx) }()
			<-gate.asked
			if n := x.ownLocks(); n != 3 || late.sent != 2 {
				t.Fatalf("%d cells locked by %d prewrites of P, want 3 by 2", n, late.sent)
			}
			x.look()
			by.meet(x)
			refused, err := late.deliver()
			if err != nil || !refused {
				t.Errorf("the zombie was refused: %v, %v", refused, err)
			}
			if n := x.ownLocks(); n != 0 {
				t.Errorf("the zombie holds %d locks", n)
			}
			close(gate.opened)
			r := <-x.done
			x.finished = &r
			x.check(wantConflict)
		})
	}
}

// The first attempt of a commit is still on its way when the primary is read, and lands just before
// the second one, which then finds no lock. That is not an abort (I17).
func TestCommitThatOvertakesItsRepetition(t *testing.T) {
	t.Parallel()
	m := newMatrixEnv(t)
	x := m.newRun(t, plainScenario(), false)
	defer x.end()
	late := &delayedRequest{row: x.cell("P").Row, is: func(m *btpb.CheckAndMutateRowRequest) bool { return fixture.Sets(m.TrueMutations, "write") }}
	late.again = func() {
		if held, err := late.deliver(); err != nil || !held {
			t.Errorf("the first attempt has committed: %v, %v", held, err)
		}
	}
	x.client = late.client(x, m.Oracle)
	r := x.transact(x.ctx)
	x.finished = &r
	fixture.Must(t, x.client.Flush(x.ctx))
	if late.sent != 2 {
		t.Errorf("the commit was sent %d times", late.sent)
	}
	x.check(wantCommit)
}

// The second anomaly. Prewrites travel in parallel, so a secondary can be locked before its primary
// is. Whoever meets that lock after its TTL rolls the transaction back where it is decided, on the
// primary, although nothing is there. Then the prewrite of P lands. If it were to lock P, the
// transaction would commit without the secondary.
func TestSecondarySeenBeforePrimary(t *testing.T) {
	t.Parallel()
	for _, by := range []nextActor{nextReader, nextScan, nextWorker} {
		t.Run(by.name, func(t *testing.T) {
			t.Parallel()
			m := newMatrixEnv(t)
			x := m.newRun(t, plainScenario(), false)
			defer x.end()
			x.target = requestID{role: "prewrite", where: "P", nth: 1}
			x.watch(func(id requestID) percolatortest.Action { return x.onTarget(id, x.hold) })
			x.send(x.transact)
			x.awaitHeld()
			if v := x.stored(); len(v["P"].locks) != 0 || len(v["S1"].locks) != 1 || len(v["S2"].locks) != 1 {
				t.Fatalf("locks %v, %v and %v, want those of the secondaries", v["P"].locks, v["S1"].locks, v["S2"].locks)
			}
			x.look()
			by.meet(x)
			if r, found := x.primaryRecord(); !found || r.kind != 'R' || r.ts != x.startTS() {
				t.Errorf("on the primary: %+v, want a rollback marker", r)
			}
			x.hold.Release()
			x.awaitEnd()
			x.check(wantConflict)
		})
	}
}

// A process that is stopped after its prewrite and continued when its locks are gone learns that it
// was rolled back: a definite abort, which Update repeats.
func TestResumedClientWhoseLocksAreGone(t *testing.T) {
	t.Parallel()
	for _, target := range []requestID{{"timestamp", "", 2}, {"commit", "P", 1}} {
		t.Run(target.String(), func(t *testing.T) {
			t.Parallel()
			m := newMatrixEnv(t)
			x := m.newRun(t, plainScenario(), true)
			defer x.end()
			x.target = target
			x.watch(func(id requestID) percolatortest.Action { return x.stopAt(id, x.hold) })
			var starts []tso.Timestamp
			done := make(chan result, 1)
			go func() {
				ts, err := x.client.Update(x.own, func(ctx context.Context, tx *percolator.Txn) error {
					starts = append(starts, tx.StartTimestamp())
					return x.body(ctx, tx)
				})
				done <- result{ts: ts, err: err}
			}()
			x.awaitHeld()
			x.look()
			nextReader.meet(x)
			x.faults.Resume()
			x.hold.Release()
			r := <-done
			fixture.Must(t, r.err)
			fixture.Must(t, x.client.Flush(x.ctx))
			if s := x.client.Stats(); len(starts) != 2 || s.Conflicts != 1 || s.Unknown != 0 || s.Transactions != 1 {
				t.Errorf("%d attempts, counted %+v", len(starts), s)
			}
			r.attempts, x.finished = 1, &r
			x.foreign[starts[0]] = true
			x.check(wantCommit) // of the second attempt
		})
	}
}

// Who finds nothing on the primary, neither lock nor record nor marker, cannot know what became of
// the transaction if it began at or below the GC watermark: its record may have been collected, or
// its marker.
func TestOutcomeWhenTheRecordMayBeCollected(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		delivered bool // the commit request, of which the answer is lost in any case
		collected bool // the GC watermark has passed the transaction
		want      error
	}{
		"committed and collected":       {true, true, percolator.ErrOutcomeUnknown},
		"rolled back and collected":     {false, true, percolator.ErrOutcomeUnknown},
		"rolled back and not collected": {false, false, errAgain},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMatrixEnv(t)
			x := m.newRun(t, plainScenario(), false)
			defer x.end()
			x.target = requestID{role: "commit", where: "P", nth: 1}
			lost := percolatortest.LoseRequest
			if c.delivered {
				lost = percolatortest.LoseAnswer
			}
			x.watch(func(id requestID) percolatortest.Action {
				if x.hits > 0 {
					return x.hold // the read that is to decide
				}
				return x.onTarget(id, lost)
			})
			x.send(x.update)
			x.hold.Wait(t, 1)
			if x.look(); x.committed != c.delivered {
				t.Fatalf("committed: %v", x.committed)
			}
			nextWorker.meet(x) // nothing is collected before all locks are resolved
			x.write("rewritten", "P", "S1", "S2")
			x.collectPrimary()
			if c.collected {
				x.publishWatermark(x.startTS() + 1)
			} else {
				x.publishWatermark(x.startTS() - 1)
			}
			x.hold.Release()
			r := <-x.done
			fixture.WantErr(t, r.err, c.want)
			if r.attempts != map[bool]int{true: 1, false: 2}[c.collected] || c.collected && errors.Is(r.err, percolator.ErrConflict) {
				t.Errorf("%d attempts, %v", r.attempts, r.err)
			}
			if c.collected && x.own.Err() != nil {
				t.Error("the context has ended")
			}
		})
	}
}

// collectPrimary erases the transaction's record, or marker, and its data from the primary.
func (x *crashRun) collectPrimary() {
	x.Helper()
	x.collect("P", x.startTS())
	x.foreign[x.startTS()] = true // who finds nothing there may place a marker
}

// collect erases all that a transaction has left in a cell, and forgets it.
func (x *crashRun) collect(name string, start tso.Timestamp) {
	x.Helper()
	c, v := x.cell(name), x.stored()[name]
	i := slices.IndexFunc(v.writes, func(w storedRecord) bool { return w.start == start })
	if i < 0 {
		x.Fatalf("there is nothing to collect in %s", name)
	}
	r := v.writes[i]
	mut := bigtable.NewMutation()
	for family, ts := range map[string]tso.Timestamp{"write": r.ts, "data": r.start, "notify": r.ts} {
		mut.DeleteTimestampRange(family, c.Column, bigtable.Timestamp(ts)*1000, bigtable.Timestamp(ts+1)*1000)
	}
	fixture.Must(x, x.env.Store().Open(c.Table).Apply(x.ctx, c.Row, mut))
	x.history[name] = slices.DeleteFunc(x.history[name], func(v cellVersion) bool { return v.ts == r.ts })
}

// publishWatermark writes safepoint and GC watermark as a collector does.
func (x *crashRun) publishWatermark(ts tso.Timestamp) {
	x.Helper()
	mut := bigtable.NewMutation()
	for _, column := range []string{"safepoint", "mark"} {
		mut.Set("meta", column, 1000, binary.BigEndian.AppendUint64(nil, uint64(ts)))
	}
	fixture.Must(x, x.env.Store().Open("percolator_meta").Apply(x.ctx, "meta", mut))
}

// A refresh of the primary's lock that lands after the transaction was rolled back does not bring
// the lock back.
func TestLateRefreshOfALockThatIsGone(t *testing.T) {
	t.Parallel()
	m := newMatrixEnv(t)
	x := m.newRun(t, plainScenario(), false)
	defer x.end()
	const ttl = 300 * time.Millisecond
	x.client = m.NewClient(percolatortest.Configure(func(cfg *percolator.Config) { cfg.LockTTL = ttl }))
	x.faults = m.FaultsOf(x.client)
	x.faults.Forget()
	refreshes := percolatortest.NewHold()
	x.watch(func(id requestID) percolatortest.Action {
		switch {
		case id.role == "refresh":
			return refreshes.Copy()
		case id == requestID{"timestamp", "", 2}:
			return x.hold
		}
		return percolatortest.Pass
	})
	x.send(x.transact)
	x.hold.Wait(t, 1)
	refreshes.Wait(t, 2)
	x.loose = true
	x.look()
	x.expire()
	x.resolveAll()
	refreshes.Release()
	if n := x.ownLocks(); n != 0 {
		t.Errorf("%d locks after late refreshes", n)
	}
	x.write("rewritten", "P", "S1", "S2")
	x.hold.Release()
	r := <-x.done
	x.finished, x.loose = &r, false
	x.check(wantConflict)
}
