// Package mutants breaks the rules of docs/internals/PROTOCOL.md on purpose, one at a time, and
// requires that a test notices. A mutant is a file NAME.patch: a header that names the rule, says
// what goes wrong and which test finds it, and a diff of production code, with few lines of
// context.
//
//	go test ./emulator_test/mutants                                   every patch applies
//	go test ./emulator_test/mutants -mutants                          its test fails
//	go test ./emulator_test/mutants -mutants -run /secondaries_first  one mutant
//	go test ./emulator_test/mutants -mutants.soak -timeout 3h         the soaks find it as well
//	go test ./emulator_test/mutants -mutants.simulation -timeout 6h   the simulation does
//
// When code moves, the first of these names the patches that apply no more. For a file with a new
// name, replace it in them: sed -i 's|OLD.go|NEW.go|' emulator_test/mutants/*.patch. Where the
// lines around the mutation have changed, mutate the code again by hand, and with nothing else
// uncommitted
//
//	patch=emulator_test/mutants/NAME.patch
//	{ sed '/^diff /,$d' $patch; git diff -U2 -- '*.go'; } > /tmp/new && mv /tmp/new $patch
//	git restore '*.go'
package mutants

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	directed = flag.Bool("mutants", false, "run the directed test of every mutant")
	soaking  = flag.Bool("mutants.soak", false, "run the soaks of every mutant; chance has a part in it, so each is tried several times")
)

const (
	root = "../.."

	directedLimit = time.Minute      // for a directed test
	soakLimit     = 10 * time.Minute // for a soak
	buildLimit    = 30 * time.Minute
	soakAttempts  = 8
)

// TestMutants applies every patch, and with the flags shows that the tests find it.
func TestMutants(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil && !*directed && !*soaking {
		t.Skip(err)
	}
	all := readMutants(t)
	if t.Failed() {
		return
	}
	checkDocs(t, all)
	together := metamutant(t, all)
	if t.Failed() || !*directed && !*soaking && !*simulating {
		return
	}
	if *directed {
		t.Run("none", func(t *testing.T) { passWithout(t, program{build: together}, all) })
	}
	var sim *simulator
	if *simulating {
		sim = newSimulator(t)
		t.Run("none", func(t *testing.T) {
			if _, found := sim.find(t, program{build: together}); len(found) > 0 {
				t.Errorf("the simulation fails without a mutant, after %v transactions", found)
			}
		})
	}
	for _, m := range all {
		t.Run(m.name, func(t *testing.T) {
			p := m.program(t, together)
			if *directed {
				if !*soaking && sim == nil {
					t.Parallel()
				}
				m.find(t, p, m.test, directedLimit, 1)
			}
			if *soaking {
				for _, s := range m.soaks {
					m.find(t, p, s, soakLimit, soakAttempts)
				}
			}
			if sim != nil {
				m.simulate(t, sim, p)
			}
		})
	}
}

// checkDocs requires a mutant for each rule that the simulation finds, and a row of the table for
// each mutant.
func checkDocs(t *testing.T, all []*mutant) {
	t.Helper()
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(root, "docs/internals", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	broken, simulated := map[string]bool{}, map[string]bool{}
	table := read("RELIABILITY.md")
	_, reasons, _ := strings.Cut(table, "\nMutants without a number:")
	for _, m := range all {
		broken[m.rule] = true
		simulated[m.rule] = simulated[m.rule] || m.simulated > 0
		if !strings.Contains(table, m.row()) {
			t.Errorf("docs/internals/RELIABILITY.md lacks the row\n%s", m.row())
		}
		if m.simulated == 0 && !strings.Contains(reasons, "`"+m.name+"`") {
			t.Errorf("docs/internals/RELIABILITY.md does not say why the simulation does not find %s", m.name)
		}
	}
	if rows := strings.Count(table, "(../../emulator_test/mutants/"); rows != len(all) {
		t.Errorf("docs/internals/RELIABILITY.md has %d rows for %d mutants", rows, len(all))
	}
	for _, rule := range regexp.MustCompile(`\| \*\*([IJ]\d+)\*\* \|`).FindAllStringSubmatch(read("PROTOCOL.md"), -1) {
		if !broken[rule[1]] {
			t.Errorf("no mutant breaks %s", rule[1])
		} else if !simulated[rule[1]] {
			t.Errorf("the simulation finds no mutant that breaks %s", rule[1])
		}
		delete(broken, rule[1])
	}
	if len(broken) > 0 {
		t.Errorf("docs/internals/PROTOCOL.md lacks the rules of mutants: %v", slices.Collect(maps.Keys(broken)))
	}
}

// passWithout requires that the directed tests pass without a mutant, all of a package together.
func passWithout(t *testing.T, p program, all []*mutant) {
	byPackage := map[string][]selected{}
	for _, m := range all {
		byPackage[m.test.pkg] = append(byPackage[m.test.pkg], m.test)
	}
	for pkg, tests := range byPackage {
		t.Run(pkg, func(t *testing.T) {
			t.Parallel()
			r := p.run(t, pkg, tests, time.Duration(len(tests))*directedLimit)
			for _, s := range tests {
				if r.outcome[s.test] != "pass" && !r.skipped(s) {
					t.Errorf("%s does not pass without a mutant:\n%s", s, r.output.String())
				}
			}
		})
	}
}

// find requires that a test fails, as tests fail, in one of some attempts.
func (m *mutant) find(t *testing.T, p program, s selected, limit time.Duration, attempts int) {
	started := time.Now()
	for n := range attempts {
		r := p.run(t, s.pkg, []selected{s}, limit)
		switch {
		case r.skipped(s):
			t.Skipf("%s lacks something here:\n%s", s, r.output.String())
		case r.outcome[s.test] == "fail" && !r.panicked():
			t.Logf("%s: found in attempt %d by %s, %v with the build: %s", m.rule, n+1, s, time.Since(started).Round(100*time.Millisecond), r.complaint(s))
			return
		case r.outcome[s.test] != "pass" && attempts == 1 || len(r.outcome) == 0:
			t.Fatalf("%s (%s): %s does not fail as a test does:\n%s", m.rule, m.wrong, s, r.output.String())
		}
	}
	t.Errorf("%s (%s): %s does not find it", m.rule, m.wrong, s)
}

// result is what a run of go test said.
type result struct {
	outcome map[string]string // "pass", "fail" or "skip", by test
	said    map[string]string // its first line, by test
	output  bytes.Buffer
}

// skipped says whether a test needs what this machine lacks, such as an emulator.
func (r *result) skipped(s selected) bool {
	function, _, _ := strings.Cut(s.test, "/")
	return r.outcome[function] == "skip" || r.outcome[s.test] == "skip"
}

// complaint is the first line that a test that failed, or a subtest of it, wrote.
func (r *result) complaint(s selected) string {
	for _, test := range slices.Sorted(maps.Keys(r.said)) {
		if r.outcome[test] == "fail" && (test == s.test || strings.HasPrefix(test, s.test+"/")) {
			return r.said[test]
		}
	}
	return ""
}

// panicked covers the limit of go test, which is a panic, too.
func (r *result) panicked() bool { return bytes.Contains(r.output.Bytes(), []byte("\npanic: ")) }

// run runs tests of a package.
func (p program) run(t *testing.T, pkg string, tests []selected, limit time.Duration) *result {
	t.Helper()
	binary := p.tests(t, pkg)
	ctx, cancel := context.WithTimeout(t.Context(), 2*limit) // it ends itself before
	defer cancel()
	var patterns []string
	for _, s := range tests {
		patterns = append(patterns, s.pattern())
	}
	slices.Sort(patterns)
	args := []string{"tool", "test2json", binary, "-test.v=test2json", "-test.paniconexit0", "-test.timeout", limit.String(),
		"-test.run", strings.Join(slices.Compact(patterns), "|")}
	if len(tests) == 1 {
		args = append(args, tests[0].flags...)
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = filepath.Join(root, pkg)
	cmd.Env = p.environ()
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	r := &result{outcome: map[string]string{}, said: map[string]string{}}
	if exit != nil {
		r.output.Write(exit.Stderr)
	}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var event struct{ Action, Test, Output string }
		if err := decoder.Decode(&event); err == io.EOF {
			return r
		} else if err != nil {
			t.Fatalf("the output of the test: %v\n%s", err, out)
		}
		switch event.Action {
		case "output":
			r.output.WriteString(event.Output)
			if line := strings.TrimSpace(event.Output); r.said[event.Test] == "" && strings.Contains(line, "_test.go:") {
				r.said[event.Test] = line
			}
		case "pass", "fail", "skip":
			if event.Test != "" {
				r.outcome[event.Test] = event.Action
			}
		}
	}
}
