// Package internal holds the tests of the structure: what imports what, and what programs link.
package internal

import (
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/gopercolator/percolator/"

// floors are the packages of the engine, the lowest first. A package imports only from the lines
// above its own, so those of one line never import each other.
var floors = [][]string{
	{"retry"},
	{"layout", "telemetry"},
	{"store"},
	{"timestamps", "dispatch"},
	{"meta", "journal"},
	{"locks"},
	{"reads", "settle"},
	{"commit"},
	{"."},
	{"membership"},
}

// below is what the engine stands on.
var below = []string{"tso", "percolator/model", "internal/catalog", "internal/emulatorhost", "internal/ordered", "internal/text"}

// onTop use what programs use, percolator and percolator/admin, and nothing of the engine.
var onTop = []string{
	"cmd", "observers/combinequeue", "observers/exportqueue", "percolator/backup", "percolator/console", "percolator/export",
	"percolator/loader", "percolator/schemafile",
}

// exceptions are those of onTop that need something of the engine.
var exceptions = map[string]string{
	"percolator/export":  "internal/engine/store",      // reads in the background
	"percolator/console": "internal/engine/membership", // the report of its own process
}

// linked are the only packages, with those below them, that link something large.
var linked = map[string][]string{
	"cloud.google.com/go/spanner":        {"tso/spannerstore", "cmd/percolator"},
	"github.com/parquet-go/parquet-go":   {"internal/formats", "percolator/export", "cmd/percolator"},
	"sigs.k8s.io/yaml":                   {"percolator/schemafile", "percolator/adopt", "cmd/percolator"},
	"github.com/spf13/cobra":             {"cmd/percolator"},
	"go.opentelemetry.io/otel/exporters": {"internal/serve/exporters", "cmd/percolator"},
}

// TestLayers: the floors of the engine hold, and nothing beside it reaches into it but by name.
func TestLayers(t *testing.T) {
	t.Parallel()
	for from, pkg := range packages(t) {
		for _, to := range pkg.imports {
			if why := refusal(from, to); why != "" {
				t.Errorf("%s imports %s: %s", from, to, why)
			}
		}
	}
}

// TestLinking: nobody's program grows by what only some need.
func TestLinking(t *testing.T) {
	t.Parallel()
	for from, pkg := range packages(t) {
		for _, dep := range pkg.deps {
			if why := weight(from, dep); why != "" {
				t.Errorf("%s links %s: %s", from, dep, why)
			}
		}
	}
}

// refusal is why one package must not import another; "" if it may.
func refusal(from, to string) string {
	const engine = "internal/engine"
	low, isBelow := floorOf(to)
	high, isEngine := floorOf(from)
	switch {
	case isEngine && isBelow && low >= high:
		return "it is not a lower floor"
	case isEngine && !isBelow && !under(to, below...) && !strings.Contains(to, "."):
		return "the engine stands on " + strings.Join(below, ", ") + " alone"
	case under(to, engine) && !isBelow:
		return "it has no floor"
	case isBelow && under(from, onTop...) && exceptions[from] != to:
		return "what stands on top uses percolator and percolator/admin"
	case isEngine && under(to, "cloud.google.com/go/bigtable") && !strings.Contains(to, "/apiv2/") && from != engine+"/store" && from != engine+"/meta":
		return "store speaks to Bigtable, and meta makes tables"
	}
	return ""
}

// floorOf is the floor of a package of the engine.
func floorOf(pkg string) (int, bool) {
	name, ok := strings.CutPrefix(pkg+"/", "internal/engine/")
	if !ok {
		return 0, false
	}
	name = strings.TrimSuffix("./"+name, "/")
	i := slices.IndexFunc(floors, func(floor []string) bool {
		return slices.ContainsFunc(floor, func(p string) bool { return name == "./"+p || name == p })
	})
	return i, i >= 0
}

// weight is why a package must not link another; "" if it may.
func weight(from, dep string) string {
	for what, only := range linked {
		if under(dep, what) && !under(from, only...) {
			return "it is for " + strings.Join(only, ", ") + " alone"
		}
	}
	if under(dep, "internal/testing") && !under(from, "internal/testing") {
		return "it is for tests"
	}
	return ""
}

// under reports whether a package is one of the directories or below one of them.
func under(pkg string, dirs ...string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool { return pkg == dir || strings.HasPrefix(pkg, dir+"/") })
}

type pkg struct{ imports, deps []string }

// packages are those of the module, their tests aside, by their paths within it.
func packages(t *testing.T) map[string]pkg {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-f", `{{.ImportPath}}|{{join .Imports " "}}|{{join .Deps " "}}`, "./...")
	cmd.Dir = ".."
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("go list: %s", exit.Stderr)
		}
		t.Skip(err)
	}
	all := map[string]pkg{}
	for line := range strings.Lines(strings.ReplaceAll(string(out), module, "")) {
		words := strings.Split(strings.TrimSpace(line), "|")
		imports := slices.DeleteFunc(strings.Fields(words[1]), standard)
		all[words[0]] = pkg{imports, strings.Fields(words[2])}
	}
	if len(all["internal/engine/commit"].imports) == 0 {
		t.Fatal("go list names no imports")
	}
	return all
}

// standard reports whether a package is of Go's library.
func standard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".") && !slices.Contains([]string{"cmd", "docs", "internal", "observers", "percolator", "tso"}, first)
}

// TestRefusals: the rules find what they are for.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		from, to string
		refused  bool
	}{
		{"internal/engine/store", "internal/engine/layout", false},
		{"internal/engine/store", "internal/engine/meta", true},
		{"internal/engine/reads", "internal/engine/commit", true},
		{"internal/engine/commit", "internal/engine/dispatch", false},
		{"internal/engine", "internal/engine/commit", false},
		{"internal/engine/commit", "internal/engine", true},
		{"internal/engine", "percolator", true},
		{"internal/engine/reads", "internal/testing/layertest", true},
		{"internal/engine/commit", "percolator/internal/gc", true},
		{"internal/engine/unknown", "tso", false},
		{"percolator", "internal/engine/unknown", true},
		{"percolator/backup", "percolator/admin", false},
		{"percolator/backup", "internal/engine/layout", true},
		{"cmd/percolator", "internal/engine", true},
		{"cmd/percolator", "internal/serve/exporters", false},
		{"internal/engine/reads", "cloud.google.com/go/bigtable", true},
		{"internal/engine/store", "cloud.google.com/go/bigtable", false},
		{"internal/engine/reads", "cloud.google.com/go/bigtable/apiv2/bigtablepb", false},
	} {
		if why := refusal(c.from, c.to); (why != "") != c.refused {
			t.Errorf("%s imports %s: %q", c.from, c.to, why)
		}
	}
	for _, c := range []struct {
		from, dep string
		refused   bool
	}{
		{"percolator", "cloud.google.com/go/spanner", true},
		{"cmd/percolator", "cloud.google.com/go/spanner/apiv1", false},
		{"observers", "github.com/parquet-go/parquet-go", true},
		{"percolator", "internal/testing/fixture", true},
	} {
		if why := weight(c.from, c.dep); (why != "") != c.refused {
			t.Errorf("%s links %s: %q", c.from, c.dep, why)
		}
	}
}
