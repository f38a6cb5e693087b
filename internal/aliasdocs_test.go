package internal

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestAliasesTellTheirFields: a public name that stands for a type of an internal package tells
// every exported field with its type, and names every method, since go doc and pkg.go.dev show no
// reader the type itself. The fields follow the name in braces, or are lines of their own.
func TestAliasesTellTheirFields(t *testing.T) {
	t.Parallel()
	for _, pkg := range []string{"percolator", "percolator/admin", "tso"} {
		for name, doc := range aliasesOf(t, pkg) {
			what := doc.pkg + "." + doc.name
			if told, has := toldFields(t, name, doc.text), fieldsOf(t, doc); !maps.Equal(told, has) {
				t.Errorf("%s.%s = %s: its doc comment tells %q, the type has %q", pkg, name, what, told, has)
			}
			for _, m := range methodsOf(t, doc) {
				if !regexp.MustCompile(`\b` + m + `\b`).MatchString(doc.text) {
					t.Errorf("%s.%s = %s: its doc comment does not name the method %s", pkg, name, what, m)
				}
			}
		}
	}
}

type alias struct{ pkg, name, text string }

// aliasesOf are the aliases of a package for types of packages below internal.
func aliasesOf(t *testing.T, pkg string) map[string]alias {
	out := map[string]alias{}
	for _, decl := range declsOf[*ast.GenDecl](t, pkg) {
		for _, spec := range decl.Specs {
			ts, ok := spec.(*ast.TypeSpec)
			if !ok || !ts.Assign.IsValid() || !ts.Name.IsExported() {
				continue
			}
			of := ts.Type.(*ast.SelectorExpr)
			out[ts.Name.Name] = alias{of.X.(*ast.Ident).Name, of.Sel.Name, decl.Doc.Text()}
		}
	}
	return out
}

// toldFields are the fields that a doc comment tells.
func toldFields(t *testing.T, name, doc string) map[string]string {
	fields, inBraces := strings.CutPrefix(doc, name+"{")
	if inBraces {
		fields, _, _ = strings.Cut(fields, "}")
	} else {
		lines := slices.Collect(strings.Lines(doc))
		fields = strings.Join(slices.DeleteFunc(lines, func(l string) bool { return l[0] != '\t' }), "")
	}
	x, err := parser.ParseExpr("struct {" + fields + "\n}")
	if err != nil {
		t.Errorf("%s: %v in %q", name, err, fields)
		return nil
	}
	return exportedTypes(x.(*ast.StructType))
}

// fieldsOf are the exported fields of a type, if that is a struct.
func fieldsOf(t *testing.T, of alias) map[string]string {
	for _, decl := range declsOf[*ast.GenDecl](t, homeOf(of.pkg)) {
		for _, spec := range decl.Specs {
			if ts, ok := spec.(*ast.TypeSpec); ok && ts.Name.Name == of.name {
				if st, ok := ts.Type.(*ast.StructType); ok {
					return exportedTypes(st)
				}
			}
		}
	}
	return nil
}

// exportedTypes are the types of the exported fields by name, without packages and the lengths of
// arrays.
func exportedTypes(st *ast.StructType) map[string]string {
	out := map[string]string{}
	for _, f := range st.Fields.List {
		typ := regexp.MustCompile(`\w+\.|^\[[^]]+\]`).ReplaceAllString(types.ExprString(f.Type), "")
		if len(f.Names) == 0 {
			out[typ] = "embedded"
		}
		for _, n := range f.Names {
			if n.IsExported() {
				out[n.Name] = typ
			}
		}
	}
	return out
}

// methodsOf are the exported methods of a type that its readers do not expect anyhow.
func methodsOf(t *testing.T, of alias) (names []string) {
	for _, fn := range declsOf[*ast.FuncDecl](t, homeOf(of.pkg)) {
		if fn.Recv != nil && strings.TrimPrefix(types.ExprString(fn.Recv.List[0].Type), "*") == of.name &&
			fn.Name.IsExported() && !slices.Contains([]string{"String", "Error", "Is"}, fn.Name.Name) {
			names = append(names, fn.Name.Name)
		}
	}
	return names
}

// homeOf is the directory of an internal package, from the root of the module.
func homeOf(pkg string) string {
	for _, dir := range []string{"internal/engine", "percolator/internal", "internal"} {
		if _, err := os.Stat(filepath.Join("..", dir, pkg)); err == nil {
			return path.Join(dir, pkg)
		}
	}
	return pkg
}

// declsOf are the declarations of one kind of a package, tests aside.
func declsOf[D ast.Decl](t *testing.T, pkg string) (decls []D) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", pkg, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, src, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if d, ok := d.(D); ok {
				decls = append(decls, d)
			}
		}
	}
	return decls
}
