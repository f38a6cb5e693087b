package docs_test

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// exported is a package-level name of the library.
type exported struct {
	pkg, name string
	value     constant.Value // of a constant
	doc       string
}

func (e exported) String() string { return e.pkg + "." + e.name }

// library lists the exported variables and constants that begin with prefix, of all packages that
// others can import.
func library(t *testing.T, prefix string) []exported {
	t.Helper()
	var found []exported
	err := filepath.WalkDir(root, func(dir string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case !d.IsDir():
			return nil
		case dir != root && skipped(d.Name()):
			return fs.SkipDir
		}
		found = append(found, names(t, dir, prefix)...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	// Of what model shares, percolator and admin have names for programs.
	for i, e := range found {
		if j := slices.IndexFunc(found, func(of exported) bool { return of.pkg == "model" && of.name == e.name }); e.value == nil && j >= 0 {
			found[i].value = found[j].value
		}
	}
	found = slices.DeleteFunc(found, func(e exported) bool {
		return e.pkg == "model" && slices.ContainsFunc(found, func(of exported) bool {
			return of.name == e.name && (of.pkg == "percolator" || of.pkg == "admin")
		})
	})
	slices.SortFunc(found, func(a, b exported) int { return strings.Compare(a.String(), b.String()) })
	return found
}

// skipped are directories of which nobody imports anything.
func skipped(name string) bool {
	return slices.Contains([]string{"cmd", "internal", "docs", "examples", "emulator_test", "testdata", "terraform", "bin"}, name) ||
		strings.HasPrefix(name, ".")
}

func names(t *testing.T, dir, prefix string) []exported {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var found []exported
	set := token.NewFileSet()
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution|parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.VAR && g.Tok != token.CONST {
				continue
			}
			for _, s := range g.Specs {
				found = append(found, declared(s.(*ast.ValueSpec), parsed.Name.Name, prefix, g)...)
			}
		}
	}
	return found
}

func declared(s *ast.ValueSpec, pkg, prefix string, g *ast.GenDecl) []exported {
	var found []exported
	for i, n := range s.Names {
		if !strings.HasPrefix(n.Name, prefix) {
			continue
		}
		doc := s.Doc.Text()
		if !g.Lparen.IsValid() {
			doc = g.Doc.Text()
		}
		e := exported{pkg: pkg, name: n.Name, doc: strings.Join(strings.Fields(doc), " ")}
		if g.Tok == token.CONST && i < len(s.Values) {
			e.value = valueOf(s.Values[i])
		}
		found = append(found, e)
	}
	return found
}

// valueOf is what a constant expression of numbers and durations, which count in seconds, is; nil
// if it names anything else.
func valueOf(e ast.Expr) constant.Value {
	hours := types.NewPackage("time", "time")
	for name, v := range map[string]int64{"Hour": 3600, "Minute": 60, "Second": 1} {
		hours.Scope().Insert(types.NewConst(token.NoPos, hours, name, types.Typ[types.Int64], constant.MakeInt64(v)))
	}
	hours.MarkComplete()
	scope := types.NewPackage("limits", "limits")
	scope.Scope().Insert(types.NewPkgName(token.NoPos, scope, "time", hours))
	tv, err := types.Eval(token.NewFileSet(), scope, token.NoPos, types.ExprString(e))
	if err != nil {
		return nil
	}
	return tv.Value
}

// row is one line of a table of a page.
type row []string

// tables are the rows of all tables of a page, by the text of their first column; the escaped |
// stays as it is.
func tables(p *page) map[string]row {
	rows := map[string]row{}
	p.eachLine(func(_ int, line string) {
		if !strings.HasPrefix(line, "|") {
			return
		}
		cells := strings.Split(strings.ReplaceAll(strings.Trim(line, "| "), `\|`, "\x00"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(strings.ReplaceAll(cells[i], "\x00", "|"))
		}
		rows[cells[0]] = cells
	})
	return rows
}

// TestErrorsAreExplained: each exported error of the library has its line in docs/ERRORS.md, with
// meaning, cause and remedy.
func TestErrorsAreExplained(t *testing.T) {
	t.Parallel()
	rows := tables(readPage(t, "docs/ERRORS.md"))
	errs := library(t, "Err")
	if len(errs) < 25 {
		t.Fatalf("found %d errors", len(errs))
	}
	for _, e := range errs {
		r := rows["`"+e.String()+"`"]
		if len(r) != 4 || slices.Contains(r, "") {
			t.Errorf("docs/ERRORS.md has no complete line for `%s`: %q", e, r)
		}
	}
	for first := range rows {
		if name := strings.Trim(first, "`"); strings.Contains(name, ".Err") &&
			!slices.ContainsFunc(errs, func(e exported) bool { return e.String() == name }) {
			t.Errorf("docs/ERRORS.md explains %s, which does not exist", name)
		}
	}
}

// TestLimitsAreStated: a user finds each exported constant Max… of the library. Either a line of a
// table in docs/LIMITS.md names it in its first cell and says its value as a number, or its comment
// in go doc says what happens beyond it.
func TestLimitsAreStated(t *testing.T) {
	t.Parallel()
	rows := tables(readPage(t, "docs/LIMITS.md"))
	limits := library(t, "Max")
	if len(limits) < 15 {
		t.Fatalf("found %d limits", len(limits))
	}
	named := map[string]row{} // the lines of constants
	for first, r := range rows {
		for _, m := range regexp.MustCompile("`(\\w+\\.Max\\w+)`").FindAllStringSubmatch(first, -1) {
			named[m[1]] = r
		}
	}
	numbers := regexp.MustCompile(`[\d,]+`)
	for _, l := range limits {
		r := named[l.String()]
		delete(named, l.String())
		said := len(r) > 2 && r[2] != "" && numbers.MatchString(r[1])
		if l.value != nil {
			said = said && slices.Contains(numbers.FindAllString(strings.ReplaceAll(r[1], ",", ""), -1), l.value.ExactString())
		}
		// go doc shows a value that is a number, and the name of any other.
		inDoc := strings.Contains(strings.ToLower(l.doc), "beyond it") && (l.value != nil || numbers.MatchString(l.doc))
		if !said && !inDoc {
			t.Errorf("neither a line of docs/LIMITS.md (%s) says the value of %s (%v), nor its comment what happens beyond it: %q", r, l, l.value, l.doc)
		}
	}
	for name := range named {
		t.Errorf("docs/LIMITS.md has %s, which does not exist", name)
	}
}

// TestBoundsNameTheirTests: each line of the table of what grows in docs/internals/BOUNDS.md is
// complete, and names tests that exist, or says that the size is fixed.
func TestBoundsNameTheirTests(t *testing.T) {
	t.Parallel()
	named := regexp.MustCompile(`\[(Test\w+)\]\(([^)]+)\)`)
	bounds := 0
	for what, r := range tables(readPage(t, "docs/internals/BOUNDS.md")) {
		if len(r) != 5 || what == "what" || strings.HasPrefix(what, "---") {
			continue
		}
		bounds++
		found := named.FindAllStringSubmatch(r[4], -1)
		if slices.Contains(r, "") || len(found) == 0 && r[4] != "fixed size" {
			t.Errorf("%q has no complete line", what)
		}
		for _, m := range found {
			if source, err := os.ReadFile(filepath.Join("internals", m[2])); err != nil || !strings.Contains(string(source), "\nfunc "+m[1]+"(") {
				t.Errorf("%q: %s has no %s: %v", what, m[2], m[1], err)
			}
		}
	}
	if bounds < 25 {
		t.Errorf("found %d bounds", bounds)
	}
}

// TestAlertsAreExplained: each alert rule has its section in docs/RUNBOOK.md, under the anchor that
// the rule's runbook_url names.
func TestAlertsAreExplained(t *testing.T) {
	t.Parallel()
	rules, err := os.ReadFile("observability/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	alerts := regexp.MustCompile(`(?m)^\s*- alert: *(\S+)`).FindAllStringSubmatch(string(rules), -1)
	links := regexp.MustCompile(`(?m)^\s*runbook_url: *\S*RUNBOOK\.md#([^\s"']+)`).FindAllStringSubmatch(string(rules), -1)
	if len(alerts) < 5 || len(links) != len(alerts) {
		t.Fatalf("found %d alerts with %d links to the runbook", len(alerts), len(links))
	}
	anchors := readPage(t, "docs/RUNBOOK.md").anchors()
	for i, a := range alerts {
		if !anchors[links[i][1]] {
			t.Errorf("%s leads to RUNBOOK.md#%s, which is not there", a[1], links[i][1])
		}
	}
	for anchor := range anchors {
		if strings.HasPrefix(anchor, "alert-") && !slices.ContainsFunc(links, func(l []string) bool { return l[1] == anchor }) {
			t.Errorf("RUNBOOK.md#%s explains an alert that no rule raises", anchor)
		}
	}
}

func (r row) String() string { return fmt.Sprintf("%q", []string(r)) }
