package workload

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gopercolator/percolator/emulator_test/internal/history"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// finished is a workload of few transactions of queues and chains.
type finished struct {
	*testing.T
	ctx  context.Context
	env  *percolatortest.Env
	work *Workload
	s    *Session
}

func begun(t *testing.T) *finished {
	t.Helper()
	f := &finished{T: t, ctx: fixture.Context(t), env: percolatortest.New(t, Schema(percolator.Timing{})), work: New(history.New())}
	fixture.Must(t, f.work.Setup(f.ctx, f.env.Client))
	f.s = f.work.NewSession(f.env.Client, "client", func() bool { return false }, rand.New(rand.NewPCG(1, 1)))
	for range 10 {
		f.s.contribute(f.ctx)
		f.s.export(f.ctx)
		f.s.moveChain(f.ctx)
		f.s.viewTotals(f.ctx)
		f.s.viewChains(f.ctx)
	}
	return f
}

// observe runs a worker until it has nothing left to do.
func (f *finished) observe() {
	f.Helper()
	w, err := observers.NewWorker(f.env.Client, f.work.Observers("worker", f.env.Client), observers.Config{})
	fixture.Must(f, err)
	ctx, stop := context.WithCancel(f.ctx)
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	fixture.Must(f, w.WaitIdle(f.ctx))
	stop()
	fixture.Must(f, <-done)
}

// judge reads everything and expects anomalies with these words in them, and no others.
func (f *finished) judge(words ...string) *history.Report {
	f.Helper()
	fixture.Must(f, f.work.Final(f.ctx, f.env.Client, true))
	r := history.Check(f.work.History, Rules())
	for _, a := range r.Anomalies {
		if !slices.ContainsFunc(words, func(w string) bool { return strings.Contains(a.String(), w) }) {
			f.Errorf("unexpected: %s", a)
		}
	}
	for _, w := range words {
		if !slices.ContainsFunc(r.Anomalies, func(a history.Anomaly) bool { return strings.Contains(a.String(), w) }) {
			f.Errorf("nobody found %q: %s", w, r)
		}
	}
	return r
}

// TestQueuesAndChainsAtRest: what is folded, delivered and followed is judged as such, also with a
// receiver that refuses, and one that has got what it is said not to have.
func TestQueuesAndChainsAtRest(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		f := begun(t)
		var calls atomic.Int64
		f.work.Receive = func(string) Reception { return Reception(calls.Add(1) % 3) }
		f.observe()
		if r := f.judge(); r.Totals == 0 || r.Delivered == 0 || r.Runs == 0 || calls.Load() < 6 {
			t.Errorf("too little to judge, with %d calls: %s", calls.Load(), r)
		}
	})
}

// TestNobodyObserves: what no worker has dealt with is found.
func TestNobodyObserves(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		begun(t).judge("contributions have not been folded", "exports have not been delivered", "did not get", "observer divide has not run", "has the legs", "ends with \"\"")
	})
}

// TestWrongTotal: a total and the end of a chain that somebody changes behind everybody's back are
// found.
func TestWrongTotal(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		f := begun(t)
		f.observe()
		_, err := f.env.Client.Update(f.ctx, func(ctx context.Context, tx *percolator.Txn) error {
			n, err := total().Get(ctx, tx, totalKey(0))
			if err != nil {
				return err
			}
			if err := total().Set(tx, totalKey(0), n+1); err != nil {
				return err
			}
			return tx.Set(cell(chains, chainRow(0), "end"), []byte("elsewhere #0"))
		})
		fixture.Must(t, err)
		f.judge("in "+totalKey(0)+"; what had committed", "no one wrote", chainRow(0)+" ends with")
	})
}
