package internal

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	// wholePackage are the first words of files whose tests are about a whole package.
	wholePackage = []string{"allocs", "bench", "example", "faults", "model", "requests"}

	// forOthers are the first words of files that hold what tests need, and no tests.
	forOthers = []string{"env", "export", "fixture", "main"}
)

// TestTestNames: whoever changes a source finds its tests, and whoever reads a test finds what it
// is about, by the names of the files.
func TestTestNames(t *testing.T) {
	t.Parallel()
	found := 0
	all := goFiles(t)
	for dir, own := range all {
		names := own
		if slices.Contains(own, "main.go") { // its tests run the program, whose parts stand below
			for below, parts := range all {
				if strings.HasPrefix(below, filepath.Join(dir, "internal")+string(filepath.Separator)) {
					names = append(slices.Clone(names), parts...)
				}
			}
		}
		for _, name := range own {
			if !strings.HasSuffix(name, "_test.go") {
				continue
			}
			found++
			file := filepath.Join(dir, name)
			if why := misnamed(filepath.Base(dir), names, name, func() []string { return testsIn(t, file) }); why != "" {
				t.Errorf("%s: %s", file, why)
			}
		}
	}
	if found < 100 {
		t.Errorf("%d files of tests", found)
	}
}

// misnamed is what to do about the name of a file of tests beside the files of its package; "" if
// it is fine.
func misnamed(pkg string, files []string, file string, tests func() []string) string {
	sources := sourcesOf(files)
	name := strings.TrimSuffix(file, "_test.go")
	switch {
	case len(sources) == 0, name == pkg, begins(name, sources), begins(name, wholePackage):
		return ""
	case !begins(name, forOthers):
		return "it begins with no source of its package; name it SOURCE_test.go or SOURCE_PROPERTY_test.go after the file that holds what it tests, " +
			pkg + "_test.go if that is the whole package, or begin with one of " + strings.Join(wholePackage, ", ") +
			" (of a whole package) or " + strings.Join(forOthers, ", ") + " (no tests)"
	}
	if held := tests(); len(held) > 0 {
		return "it has the name of a file without tests; move " + strings.Join(held, ", ") + " to files named after what they test"
	}
	return ""
}

// sourcesOf are the names of a package's files that a test can be about, without .go. Those of a
// package that has only tests and its documentation are none.
func sourcesOf(files []string) (names []string) {
	for _, file := range files {
		if name := strings.TrimSuffix(file, ".go"); !strings.HasSuffix(name, "_test") && name != "doc" {
			names = append(names, name)
		}
	}
	return names
}

// begins reports whether a name is one of the words, or one of them and more behind a "_".
func begins(name string, words []string) bool {
	return slices.ContainsFunc(words, func(word string) bool { return name == word || strings.HasPrefix(name, word+"_") })
}

// goFiles are the Go files of all modules here, by directory.
func goFiles(t *testing.T) map[string][]string {
	t.Helper()
	files := map[string][]string{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && name != ".." && (name == "testdata" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")):
			return filepath.SkipDir
		case !d.IsDir() && filepath.Ext(name) == ".go":
			files[filepath.Dir(path)] = append(files[filepath.Dir(path)], name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

var test = regexp.MustCompile(`^(Test|Fuzz|Benchmark|Example)($|[^a-z])`)

// testsIn are the functions of a file that "go test" runs.
func testsIn(t *testing.T, file string) (names []string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range parsed.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name != "TestMain" && test.MatchString(f.Name.Name) {
			names = append(names, f.Name.Name)
		}
	}
	return names
}

// TestMisnamed: the rule finds what it is for.
func TestMisnamed(t *testing.T) {
	t.Parallel()
	sources := []string{"doc.go", "prewrite.go", "txn.go", "export.go"}
	for file, want := range map[string]string{
		"prewrite_test.go":        "",
		"prewrite_chunks_test.go": "",
		"txn_fuzz_test.go":        "",
		"commit_test.go":          "", // the name of the package
		"faults_test.go":          "",
		"faults_late_test.go":     "",
		"export_test.go":          "", // there is export.go
		"fuzz_txn_test.go":        "begins with no source",
		"prewrites_test.go":       "begins with no source",
		"doc_test.go":             "begins with no source", // there is nothing to test
		"commit_blind_test.go":    "begins with no source",
		"env_test.go":             "move TestOne",
		"main_process_test.go":    "move TestOne",
	} {
		why := misnamed("commit", append(sources, file), file, func() []string { return []string{"TestOne"} })
		if (want == "") != (why == "") || !strings.Contains(why, want) {
			t.Errorf("%s: %q", file, why)
		}
	}
	none := func() []string { return nil }
	if why := misnamed("commit", append(sources, "env_test.go"), "env_test.go", none); why != "" {
		t.Errorf("a file without tests: %q", why)
	}
	if why := misnamed("docs", []string{"doc.go", "any_test.go"}, "any_test.go", none); why != "" {
		t.Errorf("a package without sources: %q", why)
	}
}
