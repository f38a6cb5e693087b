package emulator_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// Resolvers are clients too. One that has found dead locks is held up at each of its requests while
// the transaction, whose process had only been stopped, goes on: to its end, or to its commit point
// and dies there, or to its end and its primary's record is collected. Then the resolver acts on
// what it saw before (I8, I9). The transaction commits if and only if it was not yet rolled back.
func TestResolversThatAreHeldUp(t *testing.T) {
	t.Parallel()
	envs := make([]*matrixEnv, 2)
	for i := range envs {
		envs[i] = newMatrixEnv(t)
	}
	order := recordResolver(t, envs[0])
	marker := slices.IndexFunc(order, func(id requestID) bool { return id.role == "roll back" && id.where == "P" })
	if marker < 0 {
		t.Fatalf("the resolver does not roll back the primary: %v", order)
	}
	cells := 0
	for i, target := range order {
		for _, answer := range []bool{false, true} {
			commits := i < marker || i == marker && !answer
			for _, then := range []string{"ends", "dies", "ends and is collected"} {
				if !commits && then != "ends" {
					continue
				}
				cells++
				t.Run(fmt.Sprintf("%s/answer held %v/the transaction %s", target, answer, then), func(t *testing.T) {
					x, resolver := newHeldUp(t, envs[i%2], then == "dies")
					defer x.end()
					release := x.holdResolver(resolver, target, answer)
					x.faults.Resume()
					x.hold.Release()
					x.awaitEnd()
					if x.look(); x.committed != commits || commits != (x.finished.err == nil) {
						t.Errorf("committed: %v, want %v; its client was told %v", x.committed, commits, x.finished.err)
					}
					if then != "ends and is collected" {
						release()
						x.check(expectation{applied: commits, result: resultAny})
						return
					}
					x.write("rewritten", "P")
					x.collectPrimary()
					x.publishWatermark(x.commitTS)
					release()
					x.resolveAndAudit()
					x.readAll()
				})
			}
		}
	}
	t.Logf("%d resolvers held up at %d requests", cells, len(order))
	if least := 28; cells < least {
		t.Errorf("%d cells, want at least %d", cells, least)
	}
}

// newHeldUp stops a transaction before its commit request until its locks are dead, and returns
// another client that has not met them. If it commits after all, it may die before phase two.
func newHeldUp(t *testing.T, m *matrixEnv, dies bool) (*crashRun, *percolator.Client) {
	t.Helper()
	x := m.newRun(t, plainScenario(), false)
	x.target = requestID{role: "commit", where: "P", nth: 1}
	x.watch(func(id requestID) percolatortest.Action {
		if dies && id.role == "phase two" {
			return percolatortest.Crash
		}
		return x.stopAt(id, x.hold)
	})
	x.send(x.transact)
	x.awaitHeld()
	x.expire()
	resolver := m.NewClient(percolatortest.Name("resolver"))
	t.Cleanup(func() { _ = resolver.Close() })
	m.FaultsOf(resolver).Forget()
	return x, resolver
}

// recordResolver returns the requests of a resolver that is not held up.
func recordResolver(t *testing.T, m *matrixEnv) (order []requestID) {
	t.Helper()
	x, resolver := newHeldUp(t, m, false)
	defer x.end()
	x.resolveBy(resolver)
	count := newCensus(x.rows)
	for _, r := range m.FaultsOf(resolver).Requests() {
		if id := count.next(r); id.where != "percolator_meta" {
			order = append(order, id)
		}
	}
	return order
}

// holdResolver has a client resolve all locks and holds up one of its requests, or the answer to
// it. release lets it go on to its end.
func (x *crashRun) holdResolver(c *percolator.Client, target requestID, answer bool) (release func()) {
	x.Helper()
	hold, count, done := percolatortest.NewHold(), newCensus(x.rows), make(chan struct{})
	x.env.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
		switch id := count.next(r); {
		case id != target:
			return percolatortest.Pass
		case answer:
			return hold.Answer()
		}
		return hold
	})
	go func() {
		defer close(done)
		x.resolveBy(c)
	}()
	hold.Wait(x, 1)
	return func() {
		hold.Release()
		<-done
	}
}

// A roll forward that lands after the cell was overwritten and its old version collected brings
// nothing back (I9).
func TestLateRollForward(t *testing.T) {
	t.Parallel()
	m := newMatrixEnv(t)
	x := m.newRun(t, plainScenario(), false)
	defer x.end()
	x.target = requestID{role: "phase two", where: "S2", nth: 1}
	x.watch(func(id requestID) percolatortest.Action { return x.onTarget(id, percolatortest.Crash) })
	x.send(x.transact)
	x.awaitEnd()
	x.look()
	release := x.holdResolver(m.NewClient(), requestID{role: "commit", where: "S2", nth: 1}, false)
	x.resolveAll()
	x.write("rewritten", "P", "S1", "S2")
	x.collect("S2", x.startTS())
	x.publishWatermark(x.commitTS)
	release()
	x.resolveAndAudit()
	x.readAll()
}
