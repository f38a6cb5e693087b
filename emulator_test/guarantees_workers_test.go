package emulator_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// mostWorkers is how many workers there are at most.
const mostWorkers = 4

// guaranteeWorker is a worker with a client of its own, as a process would have it.
type guaranteeWorker struct {
	*observers.Worker
	name   string
	client *percolator.Client
	faults *percolatortest.Faults
	death  atomic.Int32 // of the kinds of request below the one at which it dies; 0: none
	died   atomic.Int32 // the one at which it did
	events int          // that passed since it was told to die
	stop   context.CancelFunc
	ended  chan error
}

// The requests at which a worker dies: each leaves another kind of debris.
const (
	atPrewrite  int32 = 1 + iota // locks without a commit
	atCommit                     // all locks of a run
	afterCommit                  // a run that committed, whose worker does not know
	atPhaseTwo                   // secondaries, with notifications that are not written
	atErasure                    // notifications of what is done
	atOnce                       // whatever it is doing
)

var deathNames = map[int32]string{
	atPrewrite: "before a prewrite", atCommit: "before the commit point", afterCommit: "before the answer of a commit",
	atPhaseTwo: "before phase two", atErasure: "before an erasure", atOnce: "anywhere",
}

func (w *guaranteeWorker) decide(q percolatortest.Request) percolatortest.Action {
	cam, bulk := q.Method == percolatortest.CheckAndMutateRow, q.Method == percolatortest.MutateRows
	commits := cam && q.Sets("write") && !q.Sets("lock")
	die, death := false, w.death.Load()
	switch death {
	case atPrewrite:
		die = cam && q.Sets("lock")
	case atCommit:
		die = commits
	case afterCommit:
		if w.died.Load() == afterCommit { // the answer is lost, and nothing comes after
			return percolatortest.Crash
		}
		if commits {
			w.died.Store(afterCommit)
			return percolatortest.LoseAnswer
		}
	case atPhaseTwo:
		die = bulk && q.Sets("write")
	case atErasure:
		die = bulk && q.Erases("notify") && !q.Sets("write")
	}
	if die {
		w.died.Store(death)
		return percolatortest.Crash
	}
	return percolatortest.Pass
}

// population is the workers that there are. Its methods are called on the test's goroutine.
type population struct {
	g       *guarantees
	rand    *rand.Rand
	workers []*guaranteeWorker
	leaving sync.WaitGroup

	Added, Killed, Stopped int
	Deaths                 map[string]int // of those that were killed, by where

	mu    sync.Mutex
	total observers.Stats // of those that have left: runs, attempts, conflicts, errors, panics, resolved locks
}

// add starts a worker.
func (p *population) add() {
	p.Added++
	g := p.g
	w := &guaranteeWorker{name: fmt.Sprintf("worker-%d", p.Added), ended: make(chan error, 1)}
	w.client = g.env.NewClient(percolatortest.Name(w.name), g.configure(), percolatortest.Handler(w.decide))
	w.faults = g.env.FaultsOf(w.client)
	var err error
	w.Worker, err = observers.NewWorker(w.client, newGuaranteeObservers(g.env.Client, g.released.Load, &g.calls).Registry, guaranteeWorkerConfig())
	if err != nil {
		g.Fatal(err)
	}
	ctx, stop := context.WithCancel(g.Context())
	w.stop = stop
	go func() { w.ended <- w.Run(ctx) }()
	p.workers = append(p.workers, w)
}

// guaranteeWorkerConfig never parks anything: every change is to be run for in the end.
func guaranteeWorkerConfig() observers.Config {
	return observers.Config{
		Concurrency: 8, Scanners: 1, ScanInterval: 50 * time.Millisecond, MinBackoff: 2 * time.Millisecond, MaxBackoff: 200 * time.Millisecond,
		DrainTimeout: 2 * time.Second, MaxAttempts: 1_000_000, DisableCollection: true,
	}
}

// remove takes worker i out, after it was told how to end, and closes its client when it has.
func (p *population) remove(i int) {
	w := p.workers[i]
	p.workers = append(p.workers[:i:i], p.workers[i+1:]...)
	crashed := w.faults.Crashed()
	w.stop()
	p.leaving.Go(func() {
		if err := <-w.ended; err != nil {
			p.g.problem("%s: Run: %v", w.name, err)
		}
		if err := w.client.Close(); err != nil && !crashed {
			p.g.problem("%s: Close: %v", w.name, err)
		}
		w.faults.Forget()
		p.mu.Lock()
		defer p.mu.Unlock()
		addStats(&p.total, w.Stats())
	})
}

func addStats(to *observers.Stats, s observers.Stats) {
	to.Runs += s.Runs
	to.Cells += s.Cells
	to.Attempts += s.Attempts
	to.Conflicts += s.Conflicts
	to.Errors += s.Errors
	to.Panics += s.Panics
	to.Acknowledged += s.Acknowledged
	to.LocksResolved += s.LocksResolved
}

// eventsBeforeDeath is how many events a worker that was told to die at a certain request may live
// to see.
const eventsBeforeDeath = 3

// bury removes the workers that have died, and kills those whose time does not come.
func (p *population) bury(event bool) {
	for i := len(p.workers) - 1; i >= 0; i-- {
		w := p.workers[i]
		if event && w.death.Load() != 0 {
			if w.events++; w.events > eventsBeforeDeath {
				w.faults.Crash()
			}
		}
		if w.faults.Crashed() {
			p.Killed++
			p.Deaths[deathNames[cmp.Or(w.died.Load(), atOnce)]]++
			p.remove(i)
		}
	}
}

// event kills, stops or adds a worker.
func (p *population) event() {
	p.bury(true)
	n := len(p.workers)
	switch k := p.rand.IntN(10); {
	case n == 0 || n < mostWorkers && k < 4:
		p.add()
	case k < 8:
		w := p.workers[p.rand.IntN(n)]
		if p.rand.IntN(4) == 0 {
			w.faults.Crash()
		} else {
			w.death.CompareAndSwap(0, atPrewrite+p.rand.Int32N(atOnce-atPrewrite))
		}
		if p.rand.IntN(3) == 0 { // its locks die at once, and with them those of some that live
			p.g.env.Clock.Advance(guaranteeLockTTL * 6 / 5)
		}
	default:
		i := p.rand.IntN(n)
		if p.workers[i].death.Load() == 0 {
			p.Stopped++
			p.remove(i)
		}
	}
}

// killAll crashes whoever is left.
func (p *population) killAll() {
	for _, w := range p.workers {
		w.faults.Crash()
	}
	p.bury(false)
	p.leaving.Wait()
}

// stopAll ends the rest in peace.
func (p *population) stopAll() {
	for len(p.workers) > 0 {
		p.remove(0)
	}
	p.leaving.Wait()
}

// forget has clients forget their requests, which nobody asks for.
func (p *population) forget() {
	for _, w := range p.workers {
		w.faults.Forget()
	}
}
