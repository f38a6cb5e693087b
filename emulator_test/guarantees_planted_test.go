//go:build plantedbugs

package emulator_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/planted"
)

// TestPlantedInNotifications shows that the checks of TestGuarantees are worth something: they find each mistake that breaks a
// promise about notifications. As in TestPlanted, several rounds are tried.
//
//	go test ./emulator_test -tags plantedbugs -run TestPlantedInNotifications -v
func TestPlantedInNotifications(t *testing.T) {
	for _, bug := range []planted.Bug{
		planted.NoAcknowledgment, planted.NotifyErasedUnbounded, planted.RollForwardWithoutNotify,
		planted.PrewriteIgnoresNewerWrites, planted.ReadIgnoresLocks,
	} {
		t.Run(string(bug), func(t *testing.T) {
			planted.Plant(bug)
			defer planted.Plant("")
			begun := time.Now()
			for round := range *plantedRounds {
				cfg := defaultGuarantees(300)
				if bug == planted.NoAcknowledgment { // then there is no end
					cfg.limit, cfg.rest = 15*time.Second, 5*time.Second
				}
				if *guaranteeSeed != 0 {
					cfg.seed = *guaranteeSeed + uint64(round)
				}
				r := runGuarantees(t, cfg)
				if !caught(r) {
					fmt.Print(r)
					continue
				}
				t.Logf("caught in round %d, after %v", round+1, time.Since(begun).Round(time.Second))
				for _, c := range r.checks {
					if c.found > 0 {
						t.Logf("%s: broken %d times, for instance: %s", c.name, c.found, c.broken[0])
					}
				}
				return
			}
			t.Errorf("not caught in %d rounds", *plantedRounds)
		})
	}
}

// caught tells whether a promise was broken, and not only the patience of the test: what is not done yet proves nothing, but two runs for one
// change do.
func caught(r *guaranteeReport) bool {
	for _, c := range r.checks {
		if c.name == onceCheck && c.found > 0 {
			return true
		}
		if c.name == restCheck && c.found > 0 {
			return false
		}
	}
	return r.Broken() > 0
}
