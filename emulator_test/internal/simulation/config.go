package simulation

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gopercolator/percolator/emulator_test/internal/simulated"
	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/percolator"
)

// Faults says how many there are.
type Faults string

// The intensities.
const (
	None   Faults = "none"
	Some   Faults = "some"
	Absurd Faults = "absurd"
	Seeded Faults = "seeded" // any of the others, and between them
)

// Config says what an episode is like.
type Config struct {
	Seed         uint64
	Transactions int // after so many the faults end, and everything comes to rest
	Faults       Faults
	Without      []string // faults, by the names of EveryFault, that do not happen
	Clients      int      // 0: as many as the seed decides; so with the next two
	Sessions     int      // of each client
	Workers      int
	Garbage      func() `json:"-"` // collects garbage when a seed decides; may be nil
	Trace        string // regular expression of store actions to note; "": none
}

// episode is a Config in detail, as its seed decides.
type episode struct {
	Config

	clients, sessions, workers, collectors int

	workersCollect bool

	LockTTL, Retention time.Duration
	expiry             expiry
	turnsJournal       bool // off, and on again; watchers need it
	repairs            bool // copies of the tables
	copiesMeetImports  bool // an import is under way when the hold for copies is taken
	rebuildsFirst      bool // nobody takes a hold before an index was built anew
	owned              int  // unsettled transactions that a client remembers; 0: as many as ever
	Timing             percolator.Timing

	intensity float64 // of faults; 1 is what some means
	rates     simulated.Rates
	store     simulated.Config
	trace     *regexp.Regexp
}

// storeRate is the mean rate of each fault of the store with an intensity of 1, and storeRateMost
// the greatest.
const (
	storeRate     = 0.001
	storeRateMost = 0.05

	// spellsPerFault is by how much likelier it is that a time is bad than that a request fails:
	// there are fewer of them.
	spellsPerFault = 10
)

// extreme takes times at a limit of what Config and Timing allow, in one of four episodes.
func (e *episode) extreme(r *rand.Rand) {
	const second, minute = time.Second, time.Minute
	switch r.IntN(12) {
	case 0: // knowledge is as old as requests may be, and requests as old as may be
		e.LockTTL, e.Retention, e.Timing = 2*second, 2*minute, percolator.Timing{RequestLifetime: 30 * second, MetaMaxAge: 30 * second}
	case 1: // knowledge outlasts the retention
		e.LockTTL, e.Retention, e.Timing = 2*second, minute, percolator.Timing{RequestLifetime: second, MetaMaxAge: 10 * minute}
	case 2: // locks outlast the retention
		e.LockTTL, e.Retention, e.Timing = 10*minute, minute, percolator.Timing{RequestLifetime: 5 * second, MetaMaxAge: 5 * second}
	}
}

func (cfg Config) detail() (e episode, err error) {
	e = episode{Config: cfg}
	r := newDice(cfg.Seed).next("detail")
	e.clients, e.sessions, e.workers, e.collectors = 2+r.IntN(4), 2+r.IntN(7), 1+r.IntN(2), 1+r.IntN(2)
	e.clients, e.sessions, e.workers = cmp.Or(cfg.Clients, e.clients), cmp.Or(cfg.Sessions, e.sessions), cmp.Or(cfg.Workers, e.workers)
	e.workersCollect = r.IntN(2) == 0
	switch r.IntN(3) { // the shorter times are, the more happens
	case 0:
		e.LockTTL, e.Retention = 10*time.Second, time.Hour
	case 1:
		e.LockTTL, e.Retention = 2*time.Second, time.Minute
		e.Timing = percolator.Timing{RequestLifetime: 5 * time.Second, MetaMaxAge: 5 * time.Second}
	case 2:
		e.LockTTL, e.Retention = 500*time.Millisecond, time.Minute
		e.Timing = percolator.Timing{RequestLifetime: time.Second, MetaMaxAge: time.Second}
	}
	e.extreme(newDice(cfg.Seed).next("extremes"))
	e.expiry, e.turnsJournal = expiryOf(cfg.Seed, e.Retention), newDice(cfg.Seed).next("journal").IntN(6) == 0
	e.repairs = newDice(cfg.Seed).next("repairs").IntN(2) == 0
	e.copiesMeetImports = e.repairs && newDice(cfg.Seed).next("meet").IntN(2) == 0
	e.rebuildsFirst = newDice(cfg.Seed).next("rebuilds").IntN(2) == 0
	if owned := newDice(cfg.Seed).next("owned"); owned.IntN(4) == 0 {
		e.owned = 1 + owned.IntN(8)
	}
	switch cfg.Faults {
	case None:
	case Some:
		e.intensity = 1
	case Absurd:
		e.intensity = 20
	case Seeded:
		e.intensity = []float64{0, 0.1, 0.5, 1, 3, 20}[r.IntN(6)]
	default:
		return e, fmt.Errorf("faults are %s, %s, %s or %s, not %q", None, Some, Absurd, Seeded, cfg.Faults)
	}
	for i := range e.rates {
		var share float64
		kind := simulated.Fault(i)
		switch { // later than the others: their choices stay
		case kind == simulated.SlowAnswer:
			share = newDice(cfg.Seed).next("answers").Float64()
		case kind > simulated.SlowAnswer:
			share = spellsPerFault * newDice(cfg.Seed).next(kind.String()).Float64()
		default:
			share = r.Float64()
		}
		rate := min(2*share*storeRate*e.intensity, storeRateMost)
		if kind == simulated.Abandoned && e.intensity > 0 {
			rate = share // of the requests whose callers leave, which are few
		}
		if !slices.Contains(cfg.Without, storeFault(kind)) {
			e.rates[i] = rate
		}
	}
	if cfg.Trace != "" {
		if e.trace, err = regexp.Compile(cfg.Trace); err != nil {
			return e, err
		}
	}
	e.store = simulated.Config{Seed: cfg.Seed, Tablets: simulated.Tablets{Most: 1 + r.IntN(5)}, Requests: new(atomic.Int64)}
	timing := catalog.EffectiveTiming(e.Timing)
	e.store.Tablets.Longest = []time.Duration{0, 0, timing.RequestLifetime, 2 * catalog.DrainTime(timing)}[newDice(cfg.Seed).next("tablets").IntN(4)]
	if e.intensity > 0 {
		e.store.Latency.Tail = 0.01 * r.Float64()
		e.store.Disks.Speed = []int64{0, 0, 1 << 20, 64 << 20}[r.IntN(4)]
	}
	return e, nil
}
