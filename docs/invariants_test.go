package docs_test

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// rule is the number of an invariant.
var rule = regexp.MustCompile(`\b([IJ][0-9]+)\b(?: to ([IJ])([0-9]+)\b)?`)

// citations lists the rules that a text names: "I10 to I13" names four.
func citations(text string) (rules []string) {
	for _, m := range rule.FindAllStringSubmatch(text, -1) {
		rules = append(rules, m[1])
		if m[2] == "" {
			continue
		}
		var first, last int
		fmt.Sscan(m[1][1:], &first)
		fmt.Sscan(m[3], &last)
		for i := first + 1; i <= last; i++ {
			rules = append(rules, fmt.Sprint(m[2], i))
		}
	}
	slices.Sort(rules)
	return slices.Compact(rules)
}

// citingTests are links to the tests that cite each rule, in the comment above them or within, and
// to all tests by package and name.
func citingTests(t *testing.T) (found map[string][]string, all map[string]string) {
	t.Helper()
	found, all = map[string][]string{}, map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || !strings.HasPrefix(f.Name.Name, "Test") && !strings.HasPrefix(f.Name.Name, "Fuzz") {
				continue
			}
			var text strings.Builder
			for _, c := range file.Comments {
				if c == f.Doc || c.Pos() > f.Pos() && c.End() < f.End() {
					text.WriteString(c.Text())
				}
			}
			link := fmt.Sprintf("[%s](../%s)", f.Name.Name, path)
			all[filepath.Dir(path)+" "+f.Name.Name] = link
			for _, r := range citations(text.String()) {
				found[r] = append(found[r], link)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found, all
}

var mutantHead = regexp.MustCompile(`(?m)^Rule: (.*)$(?s:.*?)^Test: (\S+) (\w+)`)

// breakingMutants are links to the mutants that break each rule, and to the tests that find these.
func breakingMutants(t *testing.T, all map[string]string) (found, directed map[string][]string) {
	t.Helper()
	found, directed = map[string][]string{}, map[string][]string{}
	paths, err := filepath.Glob(filepath.Join(root, "emulator_test/mutants/*.patch"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		m := mutantHead.FindSubmatch(text)
		if m == nil {
			t.Fatalf("%s has no rule, or no test", path)
		}
		r, name := string(m[1]), strings.TrimSuffix(filepath.Base(path), ".patch")
		found[r] = append(found[r], fmt.Sprintf("[%s](../%s)", name, path))
		link, ok := all[filepath.Join(root, string(m[2]))+" "+string(m[3])]
		if !ok {
			t.Errorf("%s: there is no %s in %s", name, m[3], m[2])
		}
		directed[r] = append(directed[r], link)
	}
	return found, directed
}

// Every invariant of the protocol has a test that cites it and a mutant that breaks it, and
// PROTOCOL.md says which.
func TestInvariants(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("internals/PROTOCOL.md")
	if err != nil {
		t.Fatal(err)
	}
	var rules []string
	for _, m := range regexp.MustCompile(`(?m)^\| \*\*([IJ]\d+)\*\* \|`).FindAllSubmatch(page, -1) {
		rules = append(rules, string(m[1]))
	}
	slices.SortFunc(rules, func(a, b string) int {
		return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
	})
	tests, all := citingTests(t)
	mutants, directed := breakingMutants(t, all)
	var rows strings.Builder
	for _, r := range rules {
		if len(tests[r]) == 0 || len(mutants[r]) == 0 {
			t.Errorf("%s: %d tests cite it, %d mutants break it", r, len(tests[r]), len(mutants[r]))
		}
		links := slices.Compact(slices.Sorted(slices.Values(append(tests[r], directed[r]...))))
		fmt.Fprintf(&rows, "| %s | %s | %s |\n", r, strings.Join(links, ", "), strings.Join(mutants[r], ", "))
		delete(tests, r)
		delete(mutants, r)
	}
	if len(tests)+len(mutants) > 0 {
		t.Errorf("tests or mutants of rules that PROTOCOL.md lacks: %v, %v", tests, mutants)
	}
	const head = "| rule | tests | mutants |\n|---|---|---|\n"
	before, after, _ := strings.Cut(string(page), head)
	old, after, _ := strings.Cut(after, "\n## ")
	if old == rows.String() {
		return
	}
	if !*update {
		t.Fatal("the table of tests and mutants in PROTOCOL.md is old; run with -update")
	}
	if err := os.WriteFile("internals/PROTOCOL.md", []byte(before+head+rows.String()+"\n## "+after), 0o644); err != nil {
		t.Fatal(err)
	}
}
