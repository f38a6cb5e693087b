package simulation

import (
	"bufio"
	"bytes"
	_ "embed"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gopercolator/percolator/emulator_test/internal/history"
	"github.com/gopercolator/percolator/internal/testing/fixture"
)

// The episodes in which every deed is done, and every fault happens.
var (
	everyDeed  = Config{Seed: 10, Transactions: 1400, Faults: Some}
	everyFault = Config{Seed: 32, Transactions: 1000, Faults: Absurd}
)

// TestEpisodes: some thousand transactions with every intensity of faults, of seeds that are always
// the same.
func TestEpisodes(t *testing.T) {
	fixture.Long(t)
	transactions := fixture.Of(1000, 150)
	var sum history.Report
	for _, cfg := range []Config{
		{Seed: 1, Transactions: transactions, Faults: None}, everyDeed, {Seed: 3, Transactions: transactions, Faults: Seeded}, everyFault,
	} {
		h := mustRun(t, cfg).History
		sum.Committed += h.Committed
		sum.Scans += h.Scans
		sum.Runs += h.Runs
		sum.Together += h.Together
		sum.Totals += h.Totals
		sum.Delivered += h.Delivered
		sum.Watched += h.Watched
	}
	if sum.Committed == 0 || sum.Scans == 0 || sum.Runs == 0 || sum.Together == 0 || sum.Totals == 0 || sum.Delivered == 0 || sum.Watched == 0 {
		t.Errorf("the episodes did not do what they are for: %s", &sum)
	}
}

// TestEveryFaultHappens: among some dozen episodes with all that can go wrong is each kind of
// fault.
func TestEveryFaultHappens(t *testing.T) {
	fixture.Slow(t)
	mustHappen(t, EveryFault(), everyFault)
}

// TestEveryDeedIsDone: among some dozen episodes all that processes do beside transactions comes to
// its end, so that the judges have something to judge.
func TestEveryDeedIsDone(t *testing.T) {
	fixture.Slow(t)
	mustHappen(t, EveryDeed(), everyDeed, 2000) // which builds an index anew
}

// mustHappen runs episodes, those of some seeds first, then that of cfg and of the seeds behind it,
// until all of that has happened, and reports what has not.
func mustHappen(t *testing.T, all []string, cfg Config, first ...uint64) {
	t.Helper()
	const episodes = 48 // receivers refuse hardly one thing in an episode
	happened := map[string]bool{}
	var left []string
	for i := range episodes {
		run := cfg
		if i < len(first) {
			run.Seed = first[i]
		} else {
			cfg.Seed++
		}
		for what := range mustRun(t, run).Faults {
			happened[what] = true
		}
		left = slices.DeleteFunc(slices.Clone(all), func(what string) bool { return happened[what] })
		if len(left) == 0 {
			return
		}
	}
	t.Errorf("never happened: %q", left)
}

// seeds are those that have failed, a line each: seed, transactions, faults. What follows # says
// why.
//
//go:embed testdata/seeds
var seeds []byte

// replayed bounds the replay of seeds, unless all are replayed.
const replayed = 20 * time.Second

func TestSeedsThatFailed(t *testing.T) {
	fixture.Slow(t)
	begun := time.Now()
	for lines := bufio.NewScanner(bytes.NewReader(seeds)); lines.Scan() && (fixture.Everything() || time.Since(begun) < replayed); {
		line, _, _ := bytes.Cut(lines.Bytes(), []byte("#"))
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var cfg Config
		if _, err := fmt.Sscan(string(line), &cfg.Seed, &cfg.Transactions, &cfg.Faults); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		mustRun(t, cfg)
	}
}

// reports are of episodes that have run once: another test takes its report, and the next runs it
// again.
var reports = map[string]*Report{}

func mustRun(t *testing.T, cfg Config) *Report {
	t.Helper()
	name := fmt.Sprint(cfg.Seed, cfg.Transactions, cfg.Faults)
	if r := reports[name]; r != nil {
		delete(reports, name)
		return r
	}
	r, err := Run(t, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(r)
	reports[name] = r
	if r.Failed() {
		t.Error("something is wrong")
	}
	return r
}
