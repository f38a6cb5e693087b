// Package internal holds the test of the layers.
package internal

import (
	"errors"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const (
	module = "github.com/gopercolator/percolator/"
	google = "cloud.google.com/go/bigtable"
)

// layers begin with the lowest. A package imports only from the lines above its own, so those of
// one line never import each other.
var layers = [][]string{
	{"tso"},
	{"internal/model"},
	{"internal/layout", "internal/retry", "internal/telemetry"},
	{"internal/store"},
	{"internal/timestamps", "internal/dispatch"},
	{"internal/meta"},
	{"internal/locks"},
	{"internal/reads"},
	{"internal/commit"},
	{"internal/engine"},
	{"internal/gc", "internal/transfer", "internal/membership"},
	{"percolator"},
	{"percolator/admin"},
	{"internal/scanning"},
	{"observers", "percolator/backup", "percolator/loader"},
	{"percolator/console"},
	{"cmd/percolator"},
}

// importers are all that may import a package, where that is fewer than the layers above it.
var importers = map[string][]string{
	"internal/dispatch":   {"internal/locks", "internal/commit", "internal/engine"},
	"internal/gc":         {"percolator/admin"},
	"internal/membership": {"percolator/admin", "observers"},
	"internal/scanning":   {"observers"},
	"internal/timestamps": {"internal/meta", "internal/locks", "internal/reads", "internal/commit", "internal/engine"},
	"internal/transfer":   {"percolator/admin"},
	google: {
		"internal/store", // the adapter
		"internal/meta",  // creates tables
		"tso",            // keeps the oracle's record
		"cmd/percolator", // checks the store itself
		"internal/fixture", "internal/layertest", "percolator/emulator", "percolator/percolatortest",
	},
}

// outside are the packages that build on the public API: of internal they see only what is named
// here.
var outside = map[string][]string{
	"cmd/percolator":     {"internal/exporters"},
	"cmd/webindex":       {"internal/exporters", "internal/webindex"},
	"docs":               nil,
	"internal/webindex":  {"internal/webindex"},
	"percolator/backup":  nil,
	"percolator/console": nil,
	"percolator/loader":  nil,
}

var (
	// leaves import nothing of this module but each other.
	leaves = []string{"internal/exporters", "internal/gcloudemulator", "internal/spanneremulator", "internal/testca", "percolator/emulator"}

	// forTests are imported by tests and by each other.
	forTests = []string{"internal/fixture", "internal/gcloudemulator", "internal/layertest", "internal/spanneremulator", "internal/testca",
		"internal/webindex/webtest", "percolator/percolatortest"}
)

func TestLayers(t *testing.T) {
	t.Parallel()
	for from, imports := range importsOf(t) {
		if !placed(from) {
			t.Errorf("%s has no place among the layers", from)
		}
		for _, to := range imports {
			if why := refusal(from, to); why != "" {
				t.Errorf("%s imports %s: %s", from, to, why)
			}
		}
	}
}

// refusal is why one package must not import another; "" if it may.
func refusal(from, to string) string {
	if to == google || strings.HasPrefix(to, google+"/") {
		if !slices.Contains(importers[google], from) {
			return "Google's client is known to " + strings.Join(importers[google], ", ") + " alone"
		}
		return ""
	}
	switch only, limited := importers[to]; {
	case slices.Contains(forTests, from): // a test may reach everything
		return ""
	case slices.Contains(forTests, to):
		return "it is for tests"
	case slices.Contains(leaves, from):
		return "it stands alone"
	case limited && !slices.Contains(only, from):
		return "it is for " + strings.Join(only, ", ") + " alone"
	}
	for dir, allowed := range outside {
		if under(from, dir) && under(to, "internal") && !under(to, allowed...) {
			return "what is outside the engine uses percolator and percolator/admin"
		}
	}
	high, ok := layerOf(from)
	low, layered := layerOf(to)
	if ok && layered && low >= high {
		return "it is not a lower layer"
	}
	return ""
}

func layerOf(pkg string) (int, bool) {
	i := slices.IndexFunc(layers, func(line []string) bool { return slices.Contains(line, pkg) })
	return i, i >= 0
}

// placed reports whether the rules above know a package, if they have to.
func placed(pkg string) bool {
	_, ok := layerOf(pkg)
	return ok || !under(pkg, "internal", "percolator") || pkg == "internal" || slices.Contains(leaves, pkg) || slices.Contains(forTests, pkg) ||
		under(pkg, slices.Collect(maps.Keys(outside))...)
}

// under reports whether a package is one of the directories or below one of them.
func under(pkg string, dirs ...string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool { return pkg == dir || strings.HasPrefix(pkg, dir+"/") })
}

// importsOf is what each package of the module imports, its tests aside, of the module and of
// Google's client.
func importsOf(t *testing.T) map[string][]string {
	cmd := exec.CommandContext(t.Context(), "go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "./...")
	cmd.Dir = ".."
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("go list: %s", exit.Stderr)
		}
		t.Skip(err)
	}
	all := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		from := strings.TrimPrefix(words[0], module)
		all[from] = nil
		for _, to := range words[1:] {
			if own, ok := strings.CutPrefix(to, module); ok {
				all[from] = append(all[from], own)
			} else if strings.HasPrefix(to, google) {
				all[from] = append(all[from], to)
			}
		}
	}
	if len(all["internal/commit"]) == 0 {
		t.Fatal("go list names no imports")
	}
	return all
}

// TestRefusals: the rules find what they are for.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		from, to string
		refused  bool
	}{
		{"internal/store", "internal/layout", false},
		{"internal/store", "internal/meta", true},
		{"internal/reads", "internal/commit", true},
		{"internal/gc", "internal/transfer", true},
		{"internal/engine", "percolator", true},
		{"internal/telemetry", "internal/store", true},
		{"internal/commit", "internal/dispatch", false},
		{"internal/gc", "internal/dispatch", true},
		{"percolator", "percolator/admin", true},
		{"observers", "internal/scanning", false},
		{"percolator/admin", "internal/scanning", true},
		{"percolator/backup", "percolator/admin", false},
		{"percolator/backup", "internal/layout", true},
		{"cmd/percolator", "internal/engine", true},
		{"cmd/percolator", "internal/exporters", false},
		{"cmd/percolator", "internal/webindex/index", true},
		{"cmd/webindex", "internal/webindex/index", false},
		{"internal/exporters", "percolator", true},
		{"internal/engine", "internal/layertest", true},
		{"internal/reads", google, true},
		{"internal/store", google + "/apiv2/bigtablepb", false},
		{"percolator/loader", google, true},
	} {
		if why := refusal(c.from, c.to); (why != "") != c.refused {
			t.Errorf("%s imports %s: %q", c.from, c.to, why)
		}
	}
}

// TestNoPackageEscapesTheLayers: a package that has no line of its own is held to those of its
// neighbours, so the engine does not reach it, and it does not reach the engine.
func TestNoPackageEscapesTheLayers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ from, to string }{
		{"internal/model", "tso/spannerstore"},       // every client would link Spanner
		{"percolator", "tso/spannerstore"},           // likewise
		{"internal/store", "observers/combinequeue"}, // an observer's library below the engine
		{"internal/commit", "docs/examples/quickstart"},
		{"observers/combinequeue", "internal/commit"}, // it uses percolator, like any observer
		{"observers/exportqueue", "internal/engine"},
		{"tso/spannerstore", "internal/store"}, // the oracle lies below everything
		{"tso/internal/record", "internal/meta"},
	} {
		if refusal(c.from, c.to) == "" {
			t.Errorf("%s may import %s", c.from, c.to)
		}
	}
}
