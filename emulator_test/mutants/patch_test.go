package mutants

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// mutant is one NAME.patch: a header of "Field: value" lines, then a unified diff.
type mutant struct {
	name  string
	rule  string     // Rule: a number of docs/internals/PROTOCOL.md
	wrong string     // Wrong: what the mutant does, in a sentence
	test  selected   // Test: the directed test that finds it
	soaks []selected // Soak: the tests that find it by chance

	simulated int // Simulated: after how many transactions the simulation finds it; 0: it does not

	files []string // that the diff changes, from the module's root
	path  string
	alone bool // the metamutant cannot hold it
}

// selected is a test, or a subtest, of a package: "./percolator TestProtocol/roll_forward". Flags
// of the test may follow.
type selected struct {
	pkg, test string
	flags     []string
}

func (s selected) String() string {
	return strings.Join(append([]string{s.pkg, s.test}, s.flags...), " ")
}

// pattern selects exactly this test.
func (s selected) pattern() string {
	parts := strings.Split(s.test, "/")
	for i, p := range parts {
		parts[i] = "^" + regexp.QuoteMeta(p) + "$"
	}
	return strings.Join(parts, "/")
}

// readMutants reads and checks every patch.
func readMutants(t *testing.T) []*mutant {
	t.Helper()
	paths, err := filepath.Glob("*.patch")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no patches: %v", err)
	}
	var all []*mutant
	for _, path := range paths {
		m, err := readMutant(path)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		all = append(all, m)
	}
	return all
}

func readMutant(path string) (*mutant, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	m := &mutant{name: strings.TrimSuffix(path, ".patch"), path: path}
	header := true
	for lines := bufio.NewScanner(strings.NewReader(string(text))); lines.Scan(); {
		line := lines.Text()
		if file, ok := strings.CutPrefix(line, "+++ b/"); ok {
			m.files = append(m.files, file)
		}
		if header = header && !strings.HasPrefix(line, "diff "); !header || line == "" {
			continue
		}
		if err := m.take(line); err != nil {
			return nil, err
		}
	}
	switch {
	case m.rule == "", m.wrong == "", m.test.test == "":
		return nil, fmt.Errorf("it needs the fields Rule, Wrong and Test")
	case len(m.files) == 0:
		return nil, fmt.Errorf("it has no diff")
	}
	return m, m.check()
}

// take takes a line of the header.
func (m *mutant) take(line string) error {
	field, value, _ := strings.Cut(line, ": ")
	switch field {
	case "Rule":
		m.rule = value
	case "Wrong":
		m.wrong = value
	case "Test", "Soak":
		words := strings.Fields(value)
		if len(words) < 2 {
			return fmt.Errorf("%q names no package and test", line)
		}
		s := selected{words[0], words[1], words[2:]}
		if field == "Soak" {
			m.soaks = append(m.soaks, s)
		} else {
			m.test = s
		}
	case "Simulated":
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 {
			return fmt.Errorf("%q is no number of transactions", line)
		}
		m.simulated = n
	default:
		return fmt.Errorf("unknown field in %q", line)
	}
	return nil
}

// check looks for the tests in the packages that should have them.
func (m *mutant) check() error {
	for _, s := range append(slices.Clone(m.soaks), m.test) {
		function, _, _ := strings.Cut(s.test, "/")
		if !declares(s.pkg, function) {
			return fmt.Errorf("%s has no %s", s.pkg, function)
		}
	}
	return nil
}

// row is the mutant's row in the table of docs/internals/RELIABILITY.md.
func (m *mutant) row() string {
	return fmt.Sprintf("| %s | [%s](../../emulator_test/mutants/%s) | %s | `%s %s` | %s |\n", m.rule, m.name, m.path, m.wrong, m.test.pkg, m.test.test, m.column())
}

func declares(pkg, function string) bool {
	files, _ := filepath.Glob(filepath.Join(root, pkg, "*_test.go"))
	return slices.ContainsFunc(files, func(file string) bool {
		text, err := os.ReadFile(file)
		return err == nil && strings.Contains(string(text), "\nfunc "+function+"(t *testing.T)")
	})
}

// apply returns the files that the diff changes, as it leaves them, by their absolute names. The
// test fails, and goes on, if it does not apply.
func (m *mutant) apply(t *testing.T) map[string][]byte {
	t.Helper()
	dir := t.TempDir()
	originals := map[string]string{}
	for _, file := range m.files {
		original, err := filepath.Abs(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(original)
		if err != nil {
			t.Fatal(err)
		}
		mutated := filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(mutated), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(mutated, text, 0o644); err != nil {
			t.Fatal(err)
		}
		originals[original] = mutated
	}
	patch, err := filepath.Abs(m.path)
	if err != nil {
		t.Fatal(err)
	}
	git := exec.Command("git", "apply", patch)
	git.Dir = dir
	// Neither a repository around the temporary directory nor one of the caller counts.
	git.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "GIT_") }),
		"GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
	if out, err := git.CombinedOutput(); err != nil {
		t.Errorf("%s does not apply: %v\n%s", m.path, err, out)
	}
	texts := map[string][]byte{}
	for original, mutated := range originals {
		if texts[original], err = os.ReadFile(mutated); err != nil {
			t.Fatal(err)
		}
	}
	return texts
}
