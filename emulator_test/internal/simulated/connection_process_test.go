package simulated_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/gopercolator/percolator/emulator_test/internal/simulated"
)

// slow lets each way of a request take about a second.
func slow(seed uint64) simulated.Config {
	return simulated.Config{Seed: seed, Latency: simulated.Latency{Median: 2 * time.Second}}
}

// later runs f, and returns what it returned with the time that it took.
func later(f func() error) (done chan error, took *time.Duration) {
	done, took = make(chan error, 1), new(time.Duration)
	begun := time.Now()
	go func() {
		err := f()
		*took = time.Since(begun)
		done <- err
	}()
	synctest.Wait()
	return done, took
}

// A killed process sends nothing and gets no answer; of what it had under way some arrives.
func TestKilledProcessSendsNothing(t *testing.T) {
	t.Parallel()
	simulate(t, slow(1), func(t *testing.T, c *simulated.Cluster) {
		arrived := 0
		for _, row := range numbered(20) {
			p := connect(t, c, "p")
			done, took := later(func() error { return p.create(row) })
			p.Kill()
			if err := <-done; code(err) != "DeadlineExceeded" || *took != lifetime {
				t.Errorf("under way: %v after %v", err, *took)
			}
			if exists(t, c, row) {
				arrived++
			}
			done, took = later(func() error { return p.create(row + " after") })
			if err := <-done; code(err) != "DeadlineExceeded" || *took != lifetime || exists(t, c, row+" after") {
				t.Errorf("after the end: %v after %v", err, *took)
			}
			p.Resume()
			if _, err := p.read(); code(err) != "DeadlineExceeded" {
				t.Errorf("a process came back: %v", err)
			}
		}
		if arrived == 0 || arrived == 20 {
			t.Errorf("%d of 20 arrived", arrived)
		}
	})
}

// A stopped process goes on where it was, unless the time of the request is over.
func TestStoppedProcess(t *testing.T) {
	t.Parallel()
	simulate(t, slow(1), func(t *testing.T, c *simulated.Cluster) {
		p := connect(t, c, "p")
		done, took := later(func() error { return p.create("under way") })
		p.Suspend(simulated.Stopped)
		notSent, _ := later(func() error { return p.create("short") })
		time.Sleep(20 * time.Second)
		if !exists(t, c, "under way") || exists(t, c, "short") {
			t.Error("a stopped process sends, or what it sent did not arrive")
		}
		p.Resume()
		if err := <-done; err != nil || *took != 20*time.Second {
			t.Errorf("%v after %v", err, *took)
		}
		if err := <-notSent; err != nil || !exists(t, c, "short") {
			t.Error(err)
		}

		p.Suspend(simulated.Stopped)
		done, took = later(func() error { return p.create("long") })
		time.Sleep(time.Minute)
		p.Resume()
		if err := <-done; code(err) != "DeadlineExceeded" || *took != time.Minute {
			t.Errorf("%v after %v", err, *took)
		}
		time.Sleep(time.Minute)
		if exists(t, c, "long") {
			t.Error("it was sent although its time was over")
		}
	})
}

// A machine that slept does not know that the time of its request is over.
func TestMachineAsleep(t *testing.T) {
	t.Parallel()
	simulate(t, slow(1), func(t *testing.T, c *simulated.Cluster) {
		p := connect(t, c, "p")
		p.Suspend(simulated.Asleep)
		done, took := later(func() error { return p.create("late") })
		time.Sleep(time.Hour)
		if exists(t, c, "late") {
			t.Error("it sent while it slept")
		}
		p.Resume()
		if err := <-done; code(err) != "DeadlineExceeded" || *took != time.Hour {
			t.Errorf("%v after %v", err, *took)
		}
		time.Sleep(lifetime)
		if !exists(t, c, "late") {
			t.Error("it was not sent")
		}
	})
}

// What was suspended can be killed: its calls end with their contexts.
func TestKillWhileSuspended(t *testing.T) {
	t.Parallel()
	simulate(t, slow(1), func(t *testing.T, c *simulated.Cluster) {
		p := connect(t, c, "p")
		p.Suspend(simulated.Asleep)
		p.Suspend(simulated.Stopped)
		done, took := later(func() error { return p.create("r") })
		time.Sleep(time.Second)
		p.Kill()
		if err := <-done; code(err) != "DeadlineExceeded" || *took != lifetime || exists(t, c, "r") {
			t.Errorf("%v after %v", err, *took)
		}
	})
}

func TestClosedConnection(t *testing.T) {
	t.Parallel()
	simulate(t, simulated.Config{}, func(t *testing.T, c *simulated.Cluster) {
		p := connect(t, c, "p")
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if err := p.create("r"); code(err) != "Canceled" {
			t.Error(err)
		}
	})
}
