package clumping

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"
)

// small is a table that is done in a fraction of a second.
func small(seed uint64) Config {
	c := Default()
	c.Duration, c.Seed = 30*time.Second, seed
	return c
}

func variant(t *testing.T, cfg Config, name string) Result {
	t.Helper()
	for _, v := range Variants() {
		if v.Name == name {
			r, err := Run(t.Context(), cfg, v)
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
	}
	t.Fatalf("no variant %q", name)
	return Result{}
}

// What teleporting, row locks and a static partition are for: scanners keep their distance and do
// not read, nor run for, what another one has. The margins are wide; the seeds are fixed.
func TestScannersKeepApart(t *testing.T) {
	t.Parallel()
	sum := map[string]*Result{}
	for seed := range uint64(2) {
		for _, v := range Variants() {
			r := variant(t, small(seed), v.Name)
			t.Logf("seed %d, %s: distance %.3f, close %.3f, read twice %.3f, wasted %.3f, waited %.1f s, teleports %d",
				seed, r.Name, r.Mean, r.Close, r.Twice, r.Wasted, r.Waited, r.Teleports)
			if sum[v.Name] == nil {
				sum[v.Name] = &Result{}
			}
			s := sum[v.Name]
			s.Mean, s.Close, s.Twice, s.Wasted, s.Teleports = s.Mean+r.Mean, s.Close+r.Close, s.Twice+r.Twice, s.Wasted+r.Wasted, s.Teleports+r.Teleports
		}
	}
	stay, teleport, divided := sum["no teleporting"], sum["teleporting"], sum["static partition"]
	unlocked, brief := sum["teleporting, no row locks"], sum["teleporting, rows locked until queued"]
	for what, c := range map[string]struct {
		less, more float64
		times      float64
	}{
		"teleporting: close pairs":                       {teleport.Close, stay.Close, 1.5},
		"partition: close pairs":                         {divided.Close, stay.Close, 1.5},
		"teleporting: distance":                          {stay.Mean, teleport.Mean, 1},
		"partition: distance":                            {stay.Mean, divided.Mean, 1},
		"teleporting: rows read twice":                   {teleport.Twice, stay.Twice, 3},
		"partition: rows read twice":                     {divided.Twice, stay.Twice, 5},
		"row locks: rows read twice":                     {teleport.Twice, unlocked.Twice, 3},
		"row locks: wasted runs":                         {teleport.Wasted, unlocked.Wasted, 20},
		"row locks until done, not until queued: wasted": {teleport.Wasted, brief.Wasted, 4},
		"partition: wasted runs":                         {divided.Wasted, brief.Wasted, 10},
	} {
		if c.less*c.times > c.more {
			t.Errorf("%s: %.4f, not %g times less than %.4f", what, c.less, c.times, c.more)
		}
	}
	if teleport.Teleports == 0 || stay.Teleports != 0 {
		t.Errorf("%d teleports, and %d without teleporting", teleport.Teleports, stay.Teleports)
	}
}

func TestSimulationIsDeterministic(t *testing.T) {
	t.Parallel()
	cfg := small(7)
	cfg.Duration = 10 * time.Second
	for _, v := range Variants() {
		a, b := variant(t, cfg, v.Name), variant(t, cfg, v.Name)
		if !reflect.DeepEqual(a, b) {
			t.Errorf("%s: two courses of one simulation differ", v.Name)
		}
		if len(a.Samples) != 10 || a.Written == 0 || a.Runs == 0 {
			t.Errorf("%s: %d samples, %d written, %d runs", v.Name, len(a.Samples), a.Written, a.Runs)
		}
	}
}

func TestDistancesAreCircularAndOfEveryPair(t *testing.T) {
	t.Parallel()
	if mean, least, close := distances([]int{0, 500, 900, 901}, 1000); mean != (0.5+0.1+0.099+0.4+0.401+0.001)/6 || least != 0.001 || close != 1./6 {
		t.Errorf("mean %g, least %g, close %g", mean, least, close)
	}
	if mean, _, _ := distances([]int{1}, 100); mean != 0 {
		t.Errorf("mean %g of one place", mean)
	}
}

func TestRunEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, Default(), Variant{}); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of its context: %v", err)
	}
}
