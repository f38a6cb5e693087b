package simulation

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/gopercolator/percolator/emulator_test/internal/simulated"
	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine/retry"
)

// weather makes the faults that are not those of single requests, until ctx ends.
func (w *world) weather(ctx context.Context, storms []func(*world, context.Context, *rand.Rand)) {
	if w.cfg.intensity == 0 {
		return
	}
	r := w.dice.next("weather")
	for retry.Sleep(ctx, w.until(r)) == nil {
		kind, own := storms[r.IntN(len(storms))], rand.New(rand.NewPCG(r.Uint64(), r.Uint64()))
		w.ending.Go(func() { kind(w, ctx, own) })
	}
}

// until is how long the weather stays fine.
func (w *world) until(r *rand.Rand) time.Duration {
	return time.Duration(r.ExpFloat64() * float64(2*time.Second) / min(w.cfg.intensity, 3))
}

var storms = []func(*world, context.Context, *rand.Rand){
	(*world).killProcess, (*world).killProcess, (*world).stopProcess, (*world).stopProcess,
	(*world).killServer, (*world).jumpForward, (*world).jumpForward, (*world).jumpBack, (*world).depose, (*world).cutOff, (*world).loseMeta, (*world).loseMeta,
}

// gusts are what there is beside a repair, which relies on clocks that do not stand still (I14).
var gusts = []func(*world, context.Context, *rand.Rand){
	(*world).killProcess, (*world).stopProcess, (*world).stopProcess, (*world).killServer, (*world).depose, (*world).cutOff,
}

func (w *world) anySlot(r *rand.Rand) *slot { return w.slots[r.IntN(len(w.slots))] }

func (w *world) killProcess(ctx context.Context, r *rand.Rand) {
	sl := w.anySlot(r)
	if sl.running() == nil {
		return
	}
	if !w.tally.add(processKilled) {
		return
	}
	sl.restart(ctx, time.Duration(r.Int64N(int64(5*time.Second))))
}

// killSoon kills a process, if it still runs by then, and starts another one in its place.
func (w *world) killSoon(p *process, after time.Duration) {
	i := slices.IndexFunc(w.slots, func(sl *slot) bool { return sl.running() == p })
	if i < 0 || !w.tally.add(processKilled) {
		return
	}
	down := time.Duration(p.rand.Int64N(int64(5 * time.Second)))
	w.ending.Go(func() {
		if retry.Sleep(p.ctx, after) == nil && w.slots[i].running() == p {
			w.slots[i].restart(w.slots[i].ctx, down)
		}
	})
}

// stopProcess stops a process, sometimes past the time to live of its locks, sometimes beyond what
// its knowledge of the schema and of the safepoint is good for.
func (w *world) stopProcess(ctx context.Context, r *rand.Rand) {
	longest := []time.Duration{w.cfg.LockTTL / 2, 2 * w.cfg.LockTTL, 2 * time.Minute}[r.IntN(3)]
	w.stopFor(ctx, r, time.Duration(r.Int64N(int64(longest))))
}

// stopFor stops a process, or its machine, now and for a while.
func (w *world) stopFor(ctx context.Context, r *rand.Rand, d time.Duration) {
	p, how, kind := w.anySlot(r).running(), simulated.Stopped, processStopped
	if r.IntN(3) == 0 && !w.awake {
		how, kind = simulated.Asleep, machineSuspended
	}
	w.suspendFor(ctx, p, how, kind, d)
}

func (w *world) suspendFor(ctx context.Context, p *process, how simulated.Condition, kind fault, d time.Duration) {
	if p == nil || w.cfg.intensity == 0 || !w.tally.add(kind) {
		return
	}
	resume := p.suspend(how)
	w.ending.Go(func() {
		_ = retry.Sleep(ctx, d)
		resume()
	})
}

// cutFromOracle interrupts the line of a process to the oracle for a while: it waits for a
// timestamp and learns meanwhile, from the store, how the world moves on.
func (w *world) cutFromOracle(ctx context.Context, r *rand.Rand, d time.Duration) {
	sl := w.anySlot(r)
	if clients := slices.DeleteFunc(slices.Clone(w.slots), func(sl *slot) bool { return !strings.HasPrefix(sl.name, "client") }); r.IntN(4) > 0 {
		sl = clients[r.IntN(len(clients))]
	}
	p := sl.running()
	if p == nil || w.cfg.intensity == 0 || !w.tally.add(oracleCutOff) {
		return
	}
	join := p.gate.cut()
	w.ending.Go(func() {
		_ = retry.Sleep(ctx, d)
		join()
	})
}

func (w *world) killServer(_ context.Context, r *rand.Rand) {
	address := w.oracle.addresses[r.IntN(len(w.oracle.addresses))]
	if r.IntN(2) == 0 {
		address = w.oracle.leading()
	}
	if !w.tally.add(serverKilled) {
		return
	}
	if err := w.oracle.kill(address, time.Duration(r.Int64N(int64(5*time.Second)))); err != nil {
		w.problem("starting an oracle: %v", err)
	}
}

// jumpForward moves the oracle's clock: past the time to live of locks, by so much of the retention
// that collection gets on, or past all of it.
func (w *world) jumpForward(_ context.Context, r *rand.Rand) {
	longest := []time.Duration{2 * w.cfg.LockTTL, 2 * w.cfg.LockTTL, w.cfg.Retention / 2, w.cfg.Retention / 2, 2 * w.cfg.Retention}[r.IntN(5)]
	by := time.Duration(r.Int64N(int64(longest)))
	if !w.tally.add(clockForward) {
		return
	}
	w.oracle.jump(w.oracle.leading(), by)
}

func (w *world) jumpBack(_ context.Context, r *rand.Rand) {
	if !w.tally.add(clockBack) {
		return
	}
	w.oracle.jump(w.oracle.leading(), -time.Duration(r.Int64N(int64(4*w.cfg.LockTTL))))
}

func (w *world) depose(ctx context.Context, _ *rand.Rand) {
	if !w.tally.add(leaderDeposed) {
		return
	}
	if err := w.oracle.depose(ctx); err != nil && ctx.Err() == nil {
		w.note("deposing the leader: %v", err)
	}
}

func (w *world) cutOff(_ context.Context, r *rand.Rand) {
	if !w.tally.add(leaderCutOff) {
		return
	}
	w.oracle.cutOff(w.oracle.leading(), time.Duration(r.Int64N(int64(8*time.Second))))
}

// loseMeta has a process not read the meta row, so that what it knows grows too old in the middle
// of its work.
func (w *world) loseMeta(_ context.Context, r *rand.Rand) {
	timing := catalog.EffectiveTiming(w.cfg.Timing)
	w.cutFromMeta(w.anySlot(r), time.Duration(r.Int64N(int64(2*timing.MetaMaxAge+timing.RequestLifetime))))
}
