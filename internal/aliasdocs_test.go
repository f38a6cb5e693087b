package internal

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestAliasesTellTheirFields: a public name that stands for a struct of an internal package tells
// every exported field, since go doc and pkg.go.dev show no reader the struct itself.
func TestAliasesTellTheirFields(t *testing.T) {
	t.Parallel()
	for _, pkg := range []string{"percolator", "percolator/admin"} {
		for name, doc := range aliasesOf(t, pkg) {
			for _, field := range fieldsOf(t, doc.of) {
				if !regexp.MustCompile(`\b` + field + `\b`).MatchString(doc.text) {
					t.Errorf("%s.%s = %s: its doc comment does not name the field %s", pkg, name, doc.of, field)
				}
			}
		}
	}
}

type alias struct{ of, text string }

// aliasesOf are the aliases of a package for types of package internal/PKG, as PKG.TYPE.
func aliasesOf(t *testing.T, pkg string) map[string]alias {
	out := map[string]alias{}
	for _, decl := range typesOf(t, pkg) {
		spec := decl.Specs[0].(*ast.TypeSpec)
		if of, ok := spec.Type.(*ast.SelectorExpr); ok && spec.Assign.IsValid() {
			out[spec.Name.Name] = alias{of.X.(*ast.Ident).Name + "." + of.Sel.Name, decl.Doc.Text()}
		}
	}
	return out
}

// fieldsOf are the exported fields of PKG.TYPE, if that is a struct.
func fieldsOf(t *testing.T, of string) (names []string) {
	pkg, name, _ := strings.Cut(of, ".")
	for _, decl := range typesOf(t, "internal/"+pkg) {
		for _, spec := range decl.Specs {
			ts := spec.(*ast.TypeSpec)
			st, ok := ts.Type.(*ast.StructType)
			if !ok || ts.Name.Name != name {
				continue
			}
			for _, f := range st.Fields.List {
				for _, n := range f.Names {
					if n.IsExported() {
						names = append(names, n.Name)
					}
				}
			}
		}
	}
	return names
}

// typesOf are the declarations of types of a package, tests aside.
func typesOf(t *testing.T, pkg string) (decls []*ast.GenDecl) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", pkg, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		src, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, src, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.TYPE {
				decls = append(decls, g)
			}
		}
	}
	return decls
}
