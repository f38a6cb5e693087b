package emulator_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"

	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

// faultCounts counts the faults of all clients by kind.
type faultCounts struct {
	mu sync.Mutex
	n  map[string]int
}

func (c *faultCounts) add(kind string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = map[string]int{}
	}
	c.n[kind]++
}

func (c *faultCounts) all() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.n)
}

func (c *faultCounts) String() string {
	all := c.all()
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(all)) {
		parts = append(parts, fmt.Sprintf("%s %d", k, all[k]))
	}
	return strings.Join(parts, ", ")
}

// injector decides at random what happens to the requests of one client.
//
// It stays within the model of docs/internals/PROTOCOL.md (I14): no request is delivered later than
// its sender could have sent it. Every request about a transaction has a deadline one lifetime
// after the client first had something to send about it, at the earliest, so what is held is
// delivered within four fifths of that. While a client is paused, what it has to send waits unseen,
// so nothing is held for a lifetime after a pause.
type injector struct {
	lifetime time.Duration
	counts   *faultCounts
	jump     func(time.Duration) // moves the oracle's clock past the time to live of locks, after a while
	held     *sync.WaitGroup

	mu        sync.Mutex
	rand      *rand.Rand
	intensity float64 // 0: none
	crashes   float64 // probability for a request that writes
	seen      map[tso.Timestamp]time.Time
	zombies   map[tso.Timestamp]time.Time // transactions a copy of whose prewrite arrives at a time
	resumed   time.Time
	dies      time.Time // when it does, if it is about to: until then no phase two arrives

	staleMeta time.Duration // by how much the client's view of the meta row is late at most, half of the time
}

func newInjector(r *rand.Rand, cfg soakConfig, counts *faultCounts, jump func(time.Duration), held *sync.WaitGroup) *injector {
	return &injector{lifetime: cfg.Timing.RequestLifetime, counts: counts, jump: jump, held: held, rand: r,
		intensity: cfg.Faults, crashes: cfg.Crashes * cfg.Faults, seen: map[tso.Timestamp]time.Time{}, zombies: map[tso.Timestamp]time.Time{}}
}

// calm ends the faults; what is held is still delivered.
func (in *injector) calm() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.intensity, in.crashes = 0, 0
}

// dieIn has the client crash at its first write after d. What it commits until then stays half
// done, for others to roll forward.
func (in *injector) dieIn(d time.Duration) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.dies = time.Now().Add(d)
}

// paused notes that the client is, or was until now, paused.
func (in *injector) paused() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.resumed = time.Now()
}

// requestKind is what a request is for.
type requestKind int

const (
	forRead requestKind = iota
	forOracle
	forPrewrite
	forCommit // of a primary's row, or a cell rolled forward
	forRollBack
	forBulk // phase two, erasures, notifications
	forOther
)

func requestKindOf(r percolatortest.Request) requestKind {
	switch m := r.Message.(type) {
	case *btpb.ReadRowsRequest, *btpb.SampleRowKeysRequest:
		return forRead
	case *btpb.CheckAndMutateRowRequest:
		switch {
		case setsFamily(m.FalseMutations, "lock"):
			return forPrewrite
		case setsFamily(m.TrueMutations, "write"):
			return forCommit
		case setsFamily(m.FalseMutations, "write"), r.Erases("lock"):
			return forRollBack
		}
		return forOther
	case *btpb.MutateRowRequest, *btpb.MutateRowsRequest:
		return forBulk
	}
	return forOracle
}

func setsFamily(ms []*btpb.Mutation, family string) bool {
	return slices.ContainsFunc(ms, func(m *btpb.Mutation) bool { return m.GetSetCell().GetFamilyName() == family })
}

// about lists the transactions that a request is about: those whose locks or data it sets or
// erases.
func about(r percolatortest.Request) (starts []tso.Timestamp) {
	add := func(micros int64) {
		if ts := tso.Timestamp(micros / 1000); micros > 0 && !slices.Contains(starts, ts) {
			starts = append(starts, ts)
		}
	}
	look := func(ms []*btpb.Mutation) {
		for _, m := range ms {
			if s := m.GetSetCell(); s.GetFamilyName() == "lock" || s.GetFamilyName() == "data" {
				add(s.TimestampMicros)
			}
			if d := m.GetDeleteFromColumn(); d.GetFamilyName() == "lock" {
				add(d.GetTimeRange().GetStartTimestampMicros())
			}
		}
	}
	switch m := r.Message.(type) {
	case *btpb.CheckAndMutateRowRequest:
		look(m.TrueMutations)
		look(m.FalseMutations)
	case *btpb.MutateRowRequest:
		look(m.Mutations)
	case *btpb.MutateRowsRequest:
		for _, e := range m.Entries {
			look(e.Mutations)
		}
	}
	return starts
}

// holdLimit is for how long a request may be held, and what it is about.
func (in *injector) holdLimit(r percolatortest.Request) (time.Duration, []tso.Timestamp) {
	now := time.Now()
	starts := about(r)
	if len(starts) == 0 {
		return 0, nil
	}
	limit := in.lifetime * 4 / 5
	left := limit
	for _, ts := range starts {
		if in.seen[ts].IsZero() {
			in.seen[ts] = now
		}
		left = min(left, limit-now.Sub(in.seen[ts]))
	}
	if len(in.seen) > 10_000 {
		maps.DeleteFunc(in.seen, func(_ tso.Timestamp, at time.Time) bool { return now.Sub(at) > 10*in.lifetime })
		maps.DeleteFunc(in.zombies, func(_ tso.Timestamp, at time.Time) bool { return now.Sub(at) > 10*in.lifetime })
	}
	if now.Sub(in.resumed) < in.lifetime {
		return 0, starts
	}
	return left, starts
}

// decide is the client's handler.
func (in *injector) decide(r percolatortest.Request) percolatortest.Action {
	in.mu.Lock()
	defer in.mu.Unlock()
	a := in.choose(r)
	if a == percolatortest.Pass {
		return takingTime(in.upTo(2 * requestTime))
	}
	return a
}

// requestTime is what a request takes on average, of virtual time.
const requestTime = 10 * time.Millisecond

func (in *injector) choose(r percolatortest.Request) percolatortest.Action {
	left, starts := in.holdLimit(r)
	if in.intensity == 0 {
		return percolatortest.Pass
	}
	kind := requestKindOf(r)
	if a := in.decideDying(kind); a != nil {
		return a
	}
	if r.Table == "percolator_meta" && kind == forRead && in.staleMeta > 0 && in.chance(0.8) {
		in.counts.add("late meta row")
		return in.hold(in.upTo(in.staleMeta), (*percolatortest.Hold).Answer)
	}
	if kind == forCommit && len(starts) == 1 {
		if at, ok := in.zombies[starts[0]]; ok { // the copy of the prewrite first, then the commit
			delete(in.zombies, starts[0])
			if d := time.Until(at) + 5*time.Millisecond; d > 0 && d < left {
				in.counts.add("prewrite, then commit late")
				in.jump(d / 3)
				return in.hold(d, request)
			}
		}
	}
	switch kind {
	case forRead, forOracle:
		return in.decideRead(kind)
	case forPrewrite, forCommit, forRollBack, forBulk:
		return in.decideWrite(kind, left, starts)
	}
	return in.simple(0.02)
}

// decideDying is for a client that is about to crash: none of its phase two arrives. nil: it is not
// about to.
func (in *injector) decideDying(kind requestKind) percolatortest.Action {
	switch {
	case in.dies.IsZero() || kind == forRead || kind == forOracle:
		return nil
	case time.Now().After(in.dies):
		in.counts.add("crash")
		return percolatortest.Crash
	case kind == forBulk:
		in.counts.add("lost phase two")
		return percolatortest.LoseRequest
	}
	return nil
}

func (in *injector) chance(p float64) bool { return in.rand.Float64() < p*in.intensity }

// simple loses a request, loses an answer or delivers twice.
func (in *injector) simple(p float64) percolatortest.Action {
	if !in.chance(p) {
		return percolatortest.Pass
	}
	a := []percolatortest.Effect{percolatortest.LoseRequest, percolatortest.LoseAnswer, percolatortest.Duplicate}[in.rand.IntN(3)]
	in.counts.add(a.String())
	return a
}

func (in *injector) decideRead(kind requestKind) percolatortest.Action {
	if in.chance(0.01) {
		d := in.upTo(min(in.lifetime/3, 150*time.Millisecond))
		in.counts.add("late answer")
		return in.hold(d, (*percolatortest.Hold).Answer)
	}
	if kind == forOracle {
		return in.simple(0.003)
	}
	return in.simple(0.01)
}

func (in *injector) decideWrite(kind requestKind, left time.Duration, starts []tso.Timestamp) percolatortest.Action {
	if in.rand.Float64() < in.crashes {
		if in.rand.IntN(3) == 0 {
			in.counts.add("crash")
			return percolatortest.Crash
		}
		in.dies = time.Now().Add(in.upTo(200 * time.Millisecond))
	}
	if left < 10*time.Millisecond {
		return in.simple(0.03)
	}
	d := in.upTo(left)
	if in.rand.IntN(4) > 0 {
		d = min(d, 10*time.Millisecond+in.upTo(60*time.Millisecond))
	}
	switch p := in.rand.Float64() / in.intensity; {
	case p < 0.02: // the request itself comes late, while others may give the transaction up
		if kind != forBulk && in.rand.IntN(2) == 0 {
			in.jump(d / 3)
		}
		in.counts.add("late request")
		return in.hold(d, request)
	case p < 0.03:
		in.counts.add("late answer")
		return in.hold(d, (*percolatortest.Hold).Answer)
	case p < 0.05:
		if kind == forPrewrite && len(starts) == 1 {
			in.zombies[starts[0]] = time.Now().Add(d)
		}
		in.counts.add("late copy")
		return in.hold(d, (*percolatortest.Hold).Copy)
	}
	return in.simple(0.04)
}

func (in *injector) upTo(d time.Duration) time.Duration {
	return time.Millisecond + time.Duration(in.rand.Int64N(int64(max(d, 1))))
}

// hold keeps a request, its answer or a copy for d.
func (in *injector) hold(d time.Duration, how func(*percolatortest.Hold) percolatortest.Action) percolatortest.Action {
	h := percolatortest.NewHold()
	in.held.Add(1)
	time.AfterFunc(d, func() {
		defer in.held.Done()
		h.Release()
	})
	return how(h)
}

// request holds the request itself.
func request(h *percolatortest.Hold) percolatortest.Action { return h }

// takingTime has a request take d, as it would over a network: in virtual time nothing else does.
func takingTime(d time.Duration) percolatortest.Action {
	h := percolatortest.NewHold()
	time.AfterFunc(d, h.Release)
	return h
}
