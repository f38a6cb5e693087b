package simulate

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
	"time"

	"github.com/gopercolator/percolator/internal/simulation"
)

// toldOn is the file on which a process tells what it does.
const toldOn = 3

// told is what a process says: that it begins an episode, or what became of it.
type told struct {
	Episode uint64
	Report  *simulation.Report // nil: it begins
	Error   string             // it could not be carried out
}

// work runs a share of the episodes and ends the program.
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
	debug.SetGCPercent(-1) // the collector works between episodes, as it would change who runs next
	simulation.Main(func(t *testing.T) {
		f.episodes(t, json.NewEncoder(tell))
		stop()
	})
	return nil
}

// startThreads starts those that the runtime may want later. It would allocate them from the heap
// at a time of its own, and the order in which a map of pointers is passed depends on addresses.
func startThreads() {
	const threads = 16
	var started, done sync.WaitGroup
	started.Add(threads)
	release := make(chan struct{})
	for range threads {
		done.Go(func() {
			runtime.LockOSThread()
			started.Done()
			<-release
			runtime.UnlockOSThread()
		})
	}
	started.Wait()
	close(release)
	done.Wait()
}

func (f *flags) episodes(t *testing.T, tell *json.Encoder) {
	begun, judged := time.Now(), 0
	for episode := f.episode; ; episode += uint64(f.jobs) {
		if err := tell.Encode(told{Episode: episode}); err != nil {
			return
		}
		report, err := simulation.Run(t, f.config(episode))
		o := told{Episode: episode, Report: report}
		if err != nil {
			o.Error = fmt.Sprint(err)
		}
		if err := tell.Encode(o); err != nil {
			return
		}
		runtime.GC()
		judged += report.History.Transactions
		if f.one || time.Since(begun) >= f.duration || f.transactions > 0 && judged >= f.transactions/f.jobs {
			return
		}
	}
}

// config is that of an episode.
func (f *flags) config(episode uint64) simulation.Config {
	return simulation.Config{Seed: simulation.EpisodeSeed(f.seed, episode), Transactions: f.size, Faults: simulation.Faults(f.faults), Trace: f.trace}
}
