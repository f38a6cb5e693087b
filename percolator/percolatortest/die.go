package percolatortest

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
)

// afterDeath is more than the TTL of a dead client's locks.
const afterDeath = time.Minute

// DieAtEach calls do again and again, each time with a new client that dies, as if its process did,
// at one of its writes: twice at the first, twice at the second, and so on, until do ends without a
// death. The first time the request is lost, the second time it is done and its answer is lost: so
// the program dies before and after whatever it does between two writes, which a death at a read
// would not add to. Writes to percolator_meta and percolator_journal do not count, as a client
// makes some of them at times of its own.
//
// After each call, the last one included, goOn is called with another new client, which goes on as
// the next process would, and checks what must hold. Between the two the oracle's clock moves on by
// a minute, so that the locks of the dead client are dead. All calls share the environment: what
// they write should go by run, which is 1 in the first call.
//
//	env.DieAtEach(func(ctx context.Context, run int, c *percolator.Client) error {
//		return buy(ctx, c, order(run))
//	}, func(ctx context.Context, run int, c *percolator.Client) error {
//		return errors.Join(buyOnce(ctx, c, order(run)), checkStock(ctx, c))
//	})
//
// The context of do ends when its client dies; do should return then, and have ended what it has
// started: it must not give up the write at which its client dies. Its error counts only if the
// client has not died. DieAtEach waits until all that the
// client has committed is complete (Client.Flush), and closes it before goOn. It ends the test if
// an error counts, if the test has failed, or if do writes nothing; it says at which request. It
// takes two calls for each write of do, and one more: do must not write more from run to run.
func (e *Env) DieAtEach(do, goOn func(ctx context.Context, run int, c *percolator.Client) error) {
	e.t.Helper()
	for run := 1; ; run++ {
		at, death, lost := (run+1)/2, Crash, "which was lost"
		if run%2 == 0 {
			death, lost = CrashAfter, "whose answer was lost"
		}
		last := e.dieAt(at, death, run, do)
		place := fmt.Sprintf("run %d, in which the client has not died", run)
		if last != nil {
			place = fmt.Sprintf("run %d, in which the client has died at write %d, %s (%s)", run, at, lost, last)
		}
		e.goOn(place, run, goOn)
		switch {
		case last == nil && run == 1:
			e.t.Fatal("percolatortest: DieAtEach: nothing was written with the client")
		case last == nil:
			return
		}
	}
}

// dieAt calls do with a client that dies at a write, which it returns; nil if it has survived.
func (e *Env) dieAt(at int, death Effect, run int, do func(context.Context, int, *percolator.Client) error) *Request {
	e.t.Helper()
	c := e.NewClient()
	faults := e.FaultsOf(c)
	var sent atomic.Int64
	var last atomic.Pointer[Request]
	faults.Handle(func(r Request) Action {
		if !r.writes() || r.Table == model.MetaTable || int(sent.Add(1)) != at {
			return Pass
		}
		last.Store(&r)
		return death
	})
	ctx, cancel := context.WithCancel(faults.dead)
	defer cancel()
	defer context.AfterFunc(e.t.Context(), cancel)()
	err := do(ctx, run, c)
	if err == nil {
		err = c.Flush(ctx)
	}
	alive := !faults.Crashed()
	if r := last.Load(); err == nil && alive && r != nil {
		<-faults.dead.Done() // what is under way comes to its end
		err = fmt.Errorf("do has returned without an error, and has not waited for the write at which the client was to die (%s)", r)
	}
	if err == nil {
		err = ctx.Err()
	}
	_ = c.Close() // of a dead client it fails
	switch {
	case alive && err != nil:
		e.t.Fatalf("percolatortest: DieAtEach: run %d, in which the client has not died: %v", run, err)
	case alive:
		return nil
	}
	e.Clock.Advance(afterDeath)
	return last.Load()
}

// goOn has a new client go on after a run.
func (e *Env) goOn(after string, run int, goOn func(context.Context, int, *percolator.Client) error) {
	e.t.Helper()
	c := e.NewClient()
	err := goOn(e.t.Context(), run, c)
	if closed := c.Close(); err == nil {
		err = closed
	}
	switch {
	case err != nil:
		e.t.Fatalf("percolatortest: DieAtEach: %s: %v", after, err)
	case e.t.Failed():
		e.t.Fatalf("percolatortest: DieAtEach: the test has failed in %s", after)
	}
}
