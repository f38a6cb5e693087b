package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"sync"
	"testing"

	"github.com/gopercolator/percolator/emulator_test/internal/simulation"
)

// toldOn is the file on which a process tells what it does.
const toldOn = 3

// told is what became of an episode.
type told struct {
	Episode uint64
	Report  *simulation.Report
	Error   string // it could not be carried out
}

// mostMemory is from where on garbage is collected within an episode, in bytes.
const mostMemory = 8 << 30

// work runs an episode and ends the program.
func (f *flags) work() error {
	tell := os.NewFile(toldOn, "told")
	if tell == nil {
		return errors.New("--job is for processes that this program starts")
	}
	stop := func() {}
	if f.cpuProfile != "" {
		to, err := os.Create(f.cpuProfile)
		if err != nil {
			return err
		}
		if err := pprof.StartCPUProfile(to); err != nil {
			return err
		}
		stop = pprof.StopCPUProfile
	}
	startThreads()
	runtime.MemProfileRate = 0
	// Only Config.Garbage collects: collection at other times would change what runs next.
	debug.SetGCPercent(-1)
	growHeap()
	debug.SetMemoryLimit(mostMemory)
	simulation.Main(func(t *testing.T) {
		cfg := f.config(f.episode)
		cfg.Garbage = runtime.GC
		report, err := simulation.Run(t, cfg)
		o := told{Episode: f.episode, Report: report}
		if err != nil {
			o.Error = fmt.Sprint(err)
		}
		stop()
		if err := json.NewEncoder(tell).Encode(o); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	})
	return nil
}

// growHeap has what an episode allocates lie in huge pages: to touch new memory in small ones costs
// much of the time.
func growHeap() {
	const size = 1 << 30
	preferHugePages(make([]byte, size))
	runtime.GC()
}

// startThreads starts those that the runtime may want later, and always has equally many in the
// end. The runtime would allocate them from the heap at a time of its own, and the order in which a
// map of pointers is passed depends on addresses.
func startThreads() {
	const threads = 24
	var done sync.WaitGroup
	release := make(chan struct{})
	for started := pprof.Lookup("threadcreate"); started.Count() < threads; {
		locked := make(chan struct{})
		done.Go(func() {
			runtime.LockOSThread()
			close(locked)
			<-release
			runtime.UnlockOSThread()
		})
		<-locked
	}
	close(release)
	done.Wait()
}

// config is that of an episode.
func (f *flags) config(episode uint64) simulation.Config {
	return simulation.Config{Seed: simulation.EpisodeSeed(f.seed, episode), Transactions: f.size, Faults: simulation.Faults(f.faults), Trace: f.trace,
		Without: f.without, Clients: f.clients, Sessions: f.sessions, Workers: f.workers}
}
