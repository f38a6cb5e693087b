package simulated_test

import (
	"context"
	"fmt"
	"sync"
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

// For a time every request is refused, and some of them are asked to wait; a few are applied all
// the same.
func TestOverload(t *testing.T) {
	t.Parallel()
	simulate(t, often(simulated.Overloaded), func(t *testing.T, c *simulated.Cluster) {
		p := connect(t, c, "p")
		row, applied := numbered(6000), 0
		o := during(func(i int) error {
			err := p.create(row[i])
			switch there := exists(t, c, row[i]); {
			case err == nil && !there:
				t.Errorf("%q does not exist", row[i])
			case err != nil && there:
				applied++
			}
			return err
		})
		refused := o.codes["ResourceExhausted"]
		if applied < refused/8 || applied > refused/2 {
			t.Errorf("%d of %d that are refused are applied", applied, refused)
		}
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

// tried is what became of a request that creates a row.
type tried struct {
	at      time.Duration // of its answer, since the first was sent
	code    string
	applied bool
}

// crowd creates rows from two hundred goroutines for a minute, each one every 100 ms or so.
func crowd(t *testing.T, c *simulated.Cluster, process string) (all []tried) {
	p := connect(t, c, process)
	began := time.Now()
	var running sync.WaitGroup
	var mu sync.Mutex
	for g := range 200 {
		running.Go(func() {
			time.Sleep(time.Duration(g) * time.Millisecond / 2) // there is always one in flight
			for n := 0; time.Since(began) < time.Minute; n++ {
				row := fmt.Sprint(process, g, n)
				err := p.create(row)
				mu.Lock()
				all = append(all, tried{time.Since(began), code(err), err == nil || exists(t, c, row)})
				mu.Unlock()
				time.Sleep(100 * time.Millisecond)
			}
		})
	}
	running.Wait()
	return all
}

// For a time one of ten requests of a process gets no answer, and of those a part is applied.
func TestSilentConnection(t *testing.T) {
	t.Parallel()
	simulate(t, often(simulated.SilentConnection), func(t *testing.T, c *simulated.Cluster) {
		silent, applied, all := 0, 0, crowd(t, c, "p")
		for _, r := range all {
			switch {
			case r.code == "OK":
			case r.code != "DeadlineExceeded":
				t.Errorf("%+v", r)
			case r.applied:
				applied++
				fallthrough
			default:
				silent++
			}
		}
		if silent < 100 || silent > len(all)/10 || applied < silent/4 || applied > silent*3/4 || c.Faults()[simulated.SilentConnection] != int64(silent) {
			t.Errorf("%d of %d get no answer, of which %d are applied", silent, len(all), applied)
		}
	})
}

// All that a process has in flight at one moment fails, and of that a part is applied. Another
// process has other such moments.
func TestConnectionsAreReset(t *testing.T) {
	t.Parallel()
	simulate(t, often(simulated.ConnectionsReset), func(t *testing.T, c *simulated.Cluster) {
		failed, applied := 0, 0
		moments := map[time.Duration]string{}
		for _, process := range []string{"p", "q"} {
			for _, r := range crowd(t, c, process) {
				if r.code == "OK" {
					continue
				}
				if failed++; r.applied {
					applied++
				}
				if by := moments[r.at]; r.code != "Unavailable" || by != "" && by != process {
					t.Errorf("%s: %+v, at which %q fails too", process, r, by)
				}
				moments[r.at] = process
			}
		}
		if n := len(moments); n < 2 || n > 12 || failed < 2*n || applied == 0 || applied == failed {
			t.Errorf("%d requests failed at %d moments, of which %d are applied", failed, n, applied)
		}
	})
}
