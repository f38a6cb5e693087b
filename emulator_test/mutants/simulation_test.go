package mutants

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"
)

var simulating = flag.Bool("mutants.simulation", false, "simulate every mutant with several seeds, until an episode fails")

const (
	simulatedSeeds = 3
	simulatedMost  = 100_000 // judged transactions of a seed
	simulatedFor   = 4 * time.Minute
	simulatedLimit = 8 * time.Minute // an episode that hangs is ended before
)

// simulator builds programs that simulate mutants, and runs them.
type simulator struct{ front string }

func newSimulator(t *testing.T) *simulator {
	t.Helper()
	s := &simulator{filepath.Join(t.TempDir(), "simulate")}
	s.command(t, buildLimit, nil, "go", "build", "-o", s.front, "./emulator_test/simulate")
	return s
}

// find simulates a mutant with each seed. It returns the median of how many transactions were
// judged until an episode failed, 0 where at most half of the seeds made one fail, and how it was
// with each.
func (s *simulator) find(t *testing.T, p program) (median int, found []int) {
	t.Helper()
	simulated := p.once(t, "simulate", func(path string) (string, []string) {
		return root, []string{s.front, "--build", path, "--overlay", p.overlay}
	})
	for seed := range simulatedSeeds {
		out := s.command(t, simulatedLimit, p.environ(), s.front, "--program", simulated, "--seed", strconv.Itoa(seed+1), "--faults", "seeded",
			"--size", "2000", "--transactions", strconv.Itoa(simulatedMost), "--for", simulatedFor.String(), "--jobs", "1", "--failures", "1", "--shrink", "0s")
		sums := sumsOfRun.FindStringSubmatch(out)
		if sums == nil {
			t.Fatalf("the simulation does not say what it judged:\n%s", out)
		}
		judged, err := strconv.Atoi(sums[2])
		if err != nil {
			t.Fatal(err)
		}
		if sums[1] != "0" {
			found = append(found, max(judged, 1))
		}
	}
	slices.Sort(found)
	if len(found) > simulatedSeeds/2 {
		median = found[simulatedSeeds/2]
	}
	return median, found
}

var sumsOfRun = regexp.MustCompile(`episodes, (\d+) failed; (\d+) transactions judged`)

// command runs a program at the root. A simulation that finds something exits with 1.
func (s *simulator) command(t *testing.T, limit time.Duration, env []string, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = root, env
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !(errors.As(err, &exit) && sumsOfRun.Match(out)) {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
	return string(out)
}

// simulate requires that the simulation finds a mutant whose header says that it does.
func (m *mutant) simulate(t *testing.T, s *simulator, p program) {
	t.Helper()
	median, found := s.find(t, p)
	t.Logf("%s: Simulated: %d, of %d seeds %v", m.rule, median, simulatedSeeds, found)
	if m.simulated > 0 && median == 0 {
		t.Errorf("%s (%s): the simulation does not find it", m.rule, m.wrong)
	}
}

// column is what the table says of the simulation.
func (m *mutant) column() string {
	if m.simulated == 0 {
		return "–"
	}
	return fmt.Sprint(m.simulated)
}
