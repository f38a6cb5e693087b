//go:build plantedbugs

package emulator_test

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/planted"
)

var plantedRounds = flag.Int("planted.rounds", 4, "how many soaks TestPlanted tries before it says that a mistake was not caught")

// TestPlanted shows that the checks are worth something: with each mistake of package planted in the protocol, a short soak finds
// anomalies. Chance has a part in it, so several rounds are tried.
//
//	go test ./emulator_test -tags plantedbugs -run TestPlanted -v
func TestPlanted(t *testing.T) {
	for _, bug := range planted.All() {
		t.Run(string(bug), func(t *testing.T) {
			planted.Plant(bug)
			defer planted.Plant("")
			begun := time.Now()
			for round := range *plantedRounds {
				cfg := defaultSoak(5 * time.Second)
				cfg.Idle = 5 * time.Second
				if *soakSeed != 0 {
					cfg.Seed = *soakSeed + uint64(round)
				}
				r := soak(t, cfg)
				if r.Anomalies() > 0 {
					t.Logf("caught in round %d, after %v: history %v, audit %v", round+1, time.Since(begun).Round(time.Second), r.History.Counts, auditRules(r))
					for _, a := range r.History.Anomalies[:min(len(r.History.Anomalies), 3)] {
						t.Log(a)
					}
					return
				}
				fmt.Print(r)
			}
			t.Errorf("not caught in %d rounds", *plantedRounds)
		})
	}
}

func auditRules(r *soakReport) map[string]int {
	rules := map[string]int{}
	for _, a := range r.Audits {
		for _, f := range a.Findings {
			rules[string(f.Rule)]++
		}
	}
	return rules
}
