package simulated_test

import (
	"context"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/emulator_test/internal/simulated"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/store"
)

// outcome is what requests got, by their codes.
type outcome struct {
	codes    map[string]int
	waits    int           // of them that were asked to wait
	longest  time.Duration // of them
	switches int           // from one code to another
}

// during sends a request every 20 ms for two minutes.
func during(send func(i int) error) outcome {
	o := outcome{codes: map[string]int{}}
	last := ""
	for i := range 6000 {
		began := time.Now()
		err := send(i)
		took := time.Since(began)
		o.longest = max(o.longest, took)
		o.codes[code(err)]++
		if c := code(err); c != last {
			last = c
			o.switches++
		}
		for _, d := range status.Convert(err).Details() {
			if info, ok := d.(*errdetails.RetryInfo); ok && info.RetryDelay.AsDuration() > 0 {
				o.waits++
			}
		}
		time.Sleep(20*time.Millisecond - took%(20*time.Millisecond))
	}
	return o
}

// For a time every request is refused, and some of them are asked to wait; nothing is applied.
func TestOverload(t *testing.T) {
	t.Parallel()
	simulate(t, often(simulated.Overloaded), func(t *testing.T, c *simulated.Cluster) {
		p := connect(t, c, "p")
		row := numbered(6000)
		o := during(func(i int) error {
			err := p.create(row[i])
			if err == nil != exists(t, c, row[i]) {
				t.Errorf("%v, exists: %v", err, err != nil)
			}
			return err
		})
		refused := o.codes["ResourceExhausted"]
		if refused < 100 || o.codes["OK"] < 100 || len(o.codes) != 2 || o.switches > 40 {
			t.Errorf("%v, %d switches", o.codes, o.switches)
		}
		if o.waits < refused/4 || o.waits > refused*3/4 {
			t.Errorf("%d of %d are asked to wait", o.waits, refused)
		}
		if n := c.Faults()[simulated.Overloaded]; n != int64(refused) {
			t.Errorf("%d faults, %d refused", n, refused)
		}
	})
}

// Google's client repeats reads and unconditional mutations that are asked to wait, whatever the
// code, until a caller's context ends.
func TestRequestsWaitAsAsked(t *testing.T) {
	t.Parallel()
	simulate(t, often(simulated.Overloaded), func(t *testing.T, c *simulated.Cluster) {
		p := connect(t, c, "p")
		o := during(func(int) error { errs, err := p.write("r"); return first(errs, err) })
		if o.waits > 0 || o.codes["OK"] < 100 || o.codes["ResourceExhausted"] == 0 {
			t.Errorf("%v, %d are asked to wait", o.codes, o.waits)
		}
	})
}

// For a time there is no storage: only what erases without a condition passes.
func TestFullStorage(t *testing.T) {
	t.Parallel()
	simulate(t, often(simulated.StorageFull), func(t *testing.T, c *simulated.Cluster) {
		p := connect(t, c, "p")
		gone := store.NewMutation(1)
		gone.EraseBetween(layout.DataFamily, "c", 0, 0)
		for name, send := range map[string]func() error{
			"write":     func() error { errs, err := p.write("r"); return first(errs, err) },
			"condition": func() error { return p.toggle("s") },
			"read":      func() error { _, err := p.read(); return err },
		} {
			o := during(func(int) error { return send() })
			if o.codes["ResourceExhausted"] < 100 || o.codes["OK"] < 100 || len(o.codes) != 2 || o.switches > 40 {
				t.Errorf("%s: %v, %d switches", name, o.codes, o.switches)
			}
		}
		o := during(func(int) error {
			ctx, cancel := context.WithTimeout(p.ctx, lifetime)
			defer cancel()
			errs, err := p.MutateRows(ctx, "t", []string{"r"}, []*store.Mutation{gone})
			return first(errs, err)
		})
		if len(o.codes) != 1 || o.codes["OK"] == 0 {
			t.Errorf("what erases: %v", o.codes)
		}
	})
}

func first(errs []error, err error) error {
	if err == nil && len(errs) > 0 {
		return errs[0]
	}
	return err
}

// For a time requests take longer, and none fails: those of a tablet all as long, those in a queue
// ever longer.
func TestSlowSpells(t *testing.T) {
	t.Parallel()
	for _, kind := range []simulated.Fault{simulated.SlowTablet, simulated.Queued} {
		simulate(t, often(kind), func(t *testing.T, c *simulated.Cluster) {
			p := connect(t, c, "p")
			quick := 0
			o := during(func(int) error {
				began := time.Now()
				err := p.toggle("r")
				if time.Since(began) < 10*time.Millisecond {
					quick++
				}
				return err
			})
			if len(o.codes) != 1 || o.codes["OK"] == 0 || quick < 100 || o.longest < 50*time.Millisecond || o.longest > 2*time.Second {
				t.Errorf("%v: %v, %d quick ones, the longest %v", kind, o.codes, quick, o.longest)
			}
			if c.Faults()[kind] == 0 {
				t.Errorf("%v: not counted", kind)
			}
		})
	}
}
