package simulated_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gopercolator/percolator/emulator_test/internal/simulated"
)

// absurd is every fault, often.
func absurd(seed uint64) simulated.Config {
	cfg := simulated.Config{Seed: seed, Tablets: simulated.Tablets{Most: 8, Recut: 5 * time.Second}, Disks: simulated.Disks{Speed: 1 << 20},
		Latency: simulated.Latency{Median: 2 * time.Millisecond, Spread: 0.5, Tail: 0.01}}
	for f := range cfg.Rates {
		if cfg.Rates[f] = 0.1; simulated.Fault(f) > simulated.SlowAnswer { // of times, which are few
			cfg.Rates[f] = 0.4
		}
	}
	return cfg
}

// A seed decides what happens to every request and when, however goroutines interleave.
func TestSeedsRepeat(t *testing.T) {
	t.Parallel()
	const processes = 6
	run := func(seed uint64) (traces [processes]string, counts simulated.Counts) {
		simulate(t, absurd(seed), func(t *testing.T, c *simulated.Cluster) {
			var running sync.WaitGroup
			for i := range processes {
				p := connect(t, c, fmt.Sprint("p", i))
				running.Go(func() {
					traces[i] = trace(p, rand.New(rand.NewPCG(seed, uint64(i))))
				})
			}
			running.Wait()
			time.Sleep(2 * lifetime)
			counts = c.Faults()
		})
		return traces, counts
	}
	first, counts := run(1)
	for range 3 {
		if again, same := run(1); again != first || same != counts {
			for i := range first {
				if again[i] != first[i] {
					t.Errorf("process %d:\n%s\nand again\n%s", i, first[i], again[i])
				}
			}
			t.Fatalf("%v, and again %v", counts, same)
		}
	}
	for f, n := range counts {
		if n == 0 {
			t.Errorf("%v did not happen", simulated.Fault(f))
		}
	}
	if other, _ := run(2); other == first {
		t.Error("another seed does the same")
	}
}

// trace is what a process sees and when.
func trace(p process, r *rand.Rand) (out string) {
	rows := numbered(40)
	for range 80 {
		for range r.IntN(4) { // which changes how goroutines interleave
			runtime.Gosched()
		}
		switch row := pick(r, rows...); r.IntN(5) {
		case 0:
			out += row + code(p.toggle(row))
		case 1:
			seen, err := p.read()
			out += fmt.Sprint(seen, code(err))
		case 2:
			out += row + code(p.create(row))
		case 3:
			out += code(p.leave(row))
		default:
			errs, err := p.write(slices.Compact([]string{row, pick(r, rows...)})...)
			out += row + code(err)
			for _, e := range errs {
				out += code(e)
			}
		}
		out += fmt.Sprintf(" at %d\n", time.Now().UnixNano()%1e12)
	}
	return out
}

// A process that connects again has other faults than before.
func TestAnotherConnectionHasOtherFaults(t *testing.T) {
	t.Parallel()
	simulate(t, often(simulated.ErrorBefore), func(t *testing.T, c *simulated.Cluster) {
		var seen [2]string
		for i := range seen {
			p := connect(t, c, "p")
			for _, row := range numbered(20) {
				seen[i] += code(p.toggle(row)) + " "
			}
		}
		if seen[0] == seen[1] {
			t.Error(seen)
		}
	})
}
