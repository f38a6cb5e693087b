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

	bigtable = "cloud.google.com/go/bigtable"
	spanner  = "cloud.google.com/go/spanner"
)

// layers are all packages of the module, the lowest first. A package imports only from the lines
// above its own, so those of one line never import each other.
var layers = [][]string{
	{"internal/hosts"},
	{"internal/capacity", "internal/emulatorhost", "internal/exporters", "internal/gcloudemulator", "internal/printable", "internal/suggest", "internal/testca", "internal/tick", "percolator/backup/backuppb", "percolator/emulator",
		"tso/internal/record", "tso/tsopb"},
	{"internal/spanneremulator"},
	{"tso"},
	{"tso/spannerstore", "internal/model"},
	{"internal/formats", "internal/history", "internal/layout", "internal/retry", "internal/telemetry"},
	{"internal/store", "internal/audit"},
	{"internal/timestamps", "internal/dispatch", "internal/lease", "internal/simulated"},
	{"internal/meta", "internal/journal"},
	{"internal/locks"},
	{"internal/reads", "internal/settle", "internal/layertest"},
	{"internal/commit"},
	{"internal/engine"},
	{"internal/gc", "internal/transfer", "internal/membership", "internal/repair"},
	{"internal/sweep"},
	{"percolator"},
	{"percolator/admin", "percolator/schemafile", "internal/probe"},
	{"internal/scanning", "percolator/percolatortest"},
	{"observers", "percolator/backup", "percolator/loader", "percolator/watch", "internal/fixture"},
	{"observers/internal/sliced", "internal/export", "percolator/adopt"},
	{"observers/combinequeue", "observers/exportqueue", "internal/webindex/crawl", "internal/webindex/page"},
	{"internal/webindex/index", "internal/workload", "percolator/console"},
	{"internal/simulation", "internal/webindex/load", "internal/webindex/search", "internal/webindex/verify"},
	{"internal/webindex/summary", "internal/webindex/webtest"},
	{"cmd/percolator", "cmd/webindex", "docs/examples/hotcluster", "docs/examples/orders", "docs/examples/phones", "docs/examples/quickstart", "docs/examples/stars"},
	{"docs", "docs/observability", "emulator_test", "emulator_test/mutants", "emulator_test/upgrade", "internal", "terraform"}, // nothing but tests
}

// importers are all that may import a package, where that is fewer than the layers above it.
var importers = map[string][]string{
	"internal/capacity":   {"cmd/percolator"},
	"internal/audit":      {"internal/repair", "internal/simulation", "percolator/admin", "percolator/percolatortest"},
	"internal/dispatch":   {"internal/locks", "internal/commit", "internal/engine", "internal/settle", "internal/layertest"},
	"internal/export":     {"cmd/percolator"},
	"internal/exporters":  {"cmd/percolator", "cmd/webindex"},
	"internal/formats":    {"internal/export", "cmd/percolator"}, // so that no program but percolator links Parquet
	"internal/gc":         {"internal/sweep", "percolator/admin"},
	"internal/hosts":      {"internal/exporters", "tso"},
	"internal/lease":      {"internal/gc", "internal/sweep"},
	"internal/membership": {"percolator", "percolator/admin", "observers"},
	"internal/printable":  {"cmd/percolator", "cmd/webindex", "internal/webindex/summary", "internal/webindex/verify"},
	"internal/probe":      {"cmd/percolator"},
	"internal/repair":     {"percolator/admin"},
	"internal/scanning":   {"observers"},
	"internal/sweep":      {"percolator/admin"},
	"internal/timestamps": {"internal/meta", "internal/locks", "internal/reads", "internal/commit", "internal/engine", "internal/settle", "internal/layertest"},
	"internal/transfer":   {"percolator/admin"},

	"percolator/backup/backuppb": {"percolator/backup"},
	"percolator/emulator": {
		"cmd/percolator", "cmd/webindex", "docs/examples/hotcluster", "docs/examples/quickstart", "internal/fixture",
		"internal/layertest", "percolator/percolatortest",
	},
	"tso/spannerstore": {"cmd/percolator"}, // so that no other program links Spanner
	"tso/tsopb":        {"tso", "cmd/percolator"},

	bigtable: {
		"internal/store",       // the adapter
		"internal/meta",        // creates tables
		"tso",                  // keeps the oracle's record
		"cmd/percolator",       // checks the store itself
		"internal/probe",       // likewise
		"percolator/adopt",     // reads plain tables
		"docs/examples/phones", // has one
		"internal/fixture", "internal/layertest", "percolator/emulator", "percolator/percolatortest",
	},
	spanner: {"tso/spannerstore", "cmd/percolator"},
}

// outside are the packages that build on the public API: of internal they see only what is named
// here.
var outside = map[string][]string{
	"cmd/percolator":         {"internal/capacity", "internal/emulatorhost", "internal/export", "internal/exporters", "internal/formats", "internal/printable", "internal/probe", "internal/suggest"},
	"cmd/webindex":           {"internal/exporters", "internal/printable", "internal/webindex"},
	"docs":                   nil,
	"internal/webindex":      {"internal/printable", "internal/webindex"},
	"observers/combinequeue": nil,
	"observers/exportqueue":  nil,
	"observers/internal":     nil,
	"percolator/backup":      nil,
	"percolator/console":     nil,
	"percolator/loader":      nil,
	"percolator/schemafile":  nil,
}

// forTests are imported by tests and by each other.
var forTests = []string{"internal/fixture", "internal/gcloudemulator", "internal/history", "internal/layertest", "internal/simulated", "internal/simulation",
	"internal/spanneremulator", "internal/testca", "internal/webindex/webtest", "internal/workload", "percolator/percolatortest"}

func TestLayers(t *testing.T) {
	t.Parallel()
	for from, imports := range importsOf(t) {
		for _, to := range imports {
			if why := refusal(from, to); why != "" {
				t.Errorf("%s imports %s: %s", from, to, why)
			}
		}
	}
}

// TestEveryPackageHasOnePlace: the layers are the packages of the module, each once.
func TestEveryPackageHasOnePlace(t *testing.T) {
	t.Parallel()
	placed := slices.Sorted(slices.Values(slices.Concat(layers...)))
	if packages := slices.Sorted(maps.Keys(importsOf(t))); !slices.Equal(placed, packages) {
		t.Errorf("among the layers are %q, the module has %q", placed, packages)
	}
	named := slices.Concat(slices.Collect(maps.Keys(importers)), slices.Concat(slices.Collect(maps.Values(importers))...), forTests)
	for _, pkg := range named {
		if _, ok := layerOf(pkg); !ok && pkg != bigtable && pkg != spanner {
			t.Errorf("a rule names %s, which has no place among the layers", pkg)
		}
	}
}

// refusal is why one package must not import another; "" if it may.
func refusal(from, to string) string {
	for _, client := range []string{bigtable, spanner} {
		if under(to, client) {
			if !slices.Contains(importers[client], from) {
				return "Google's client is known to " + strings.Join(importers[client], ", ") + " alone"
			}
			return ""
		}
	}
	high, placed := layerOf(from)
	low, too := layerOf(to)
	switch only, limited := importers[to]; {
	case !placed || !too:
		return "one of them has no place among the layers"
	case low >= high:
		return "it is not a lower layer"
	case slices.Contains(forTests, to) && !slices.Contains(forTests, from):
		return "it is for tests"
	case limited && !slices.Contains(only, from):
		return "it is for " + strings.Join(only, ", ") + " alone"
	}
	for dir, allowed := range outside {
		if under(from, dir) && under(to, "internal") && !under(to, allowed...) && !slices.Contains(forTests, from) {
			return "what is outside the engine uses percolator and percolator/admin"
		}
	}
	return ""
}

func layerOf(pkg string) (int, bool) {
	i := slices.IndexFunc(layers, func(line []string) bool { return slices.Contains(line, pkg) })
	return i, i >= 0
}

// under reports whether a package is one of the directories or below one of them.
func under(pkg string, dirs ...string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool { return pkg == dir || strings.HasPrefix(pkg, dir+"/") })
}

// importsOf is what each package of the module imports, its tests aside, of the module and of
// Google's clients.
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
			} else if under(to, bigtable, spanner) {
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
		{"internal/reads", bigtable, true},
		{"internal/store", bigtable + "/apiv2/bigtablepb", false},
		{"percolator/loader", bigtable, true},
		{"percolator", spanner, true},
		{"internal/commit", "internal/exporters", true},
		{"internal/commit", "internal/webindex/index", true},
		{"percolator", "percolator/emulator", true},
		{"observers", "internal/webindex/page", true},
		{"internal/unknown", "tso", true},
		{"observers", "percolator/unknown", true},
	} {
		if why := refusal(c.from, c.to); (why != "") != c.refused {
			t.Errorf("%s imports %s: %q", c.from, c.to, why)
		}
	}
}

// TestNoPackageEscapesTheLayers: the rules also hold for packages within the directories of others.
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
