package internal

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestOneBridge: of all exported functions, methods, fields and aliases of public packages,
// Client.Engine alone has an internal type, so that go doc shows whatever users see.
func TestOneBridge(t *testing.T) {
	t.Parallel()
	for _, pkg := range []string{"tso", "tso/spannerstore", "percolator", "percolator/admin", "percolator/backup", "percolator/console",
		"percolator/loader", "percolator/model", "percolator/percolatortest", "percolator/emulator", "observers", "observers/combinequeue", "observers/exportqueue"} {
		files, err := filepath.Glob(filepath.Join("..", pkg, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatal(pkg, err)
		}
		for _, name := range files {
			if !strings.HasSuffix(name, "_test.go") {
				checkSignatures(t, pkg, name)
			}
		}
	}
}

func checkSignatures(t *testing.T, pkg, name string) {
	t.Helper()
	src, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	f, err := parser.ParseFile(token.NewFileSet(), name, src, 0)
	if err != nil {
		t.Fatal(err)
	}
	internals := map[string]bool{}
	for _, im := range f.Imports {
		if p, _ := strconv.Unquote(im.Path.Value); strings.Contains(p, "/internal/") {
			internals[path.Base(p)] = true
		}
	}
	check := func(name string, what ast.Node) {
		ast.Inspect(what, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := sel.X.(*ast.Ident); ok && internals[x.Name] {
					t.Errorf("%s: %s has %s.%s in its signature", pkg, name, x.Name, sel.Sel.Name)
				}
			}
			return true
		})
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && (d.Recv == nil || exportedReceiver(d)) && (pkg != "percolator" || d.Name.Name != "Engine") {
				check(d.Name.Name, d.Type)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if ts, ok := spec.(*ast.TypeSpec); ok && ts.Name.IsExported() {
					if ts.Assign.IsValid() {
						check(ts.Name.Name, ts.Type)
					}
					for _, field := range exportedFields(ts.Type) {
						check(ts.Name.Name, field)
					}
				}
			}
		}
	}
}

// exportedFields are the types of what a struct's or an interface's users see.
func exportedFields(of ast.Expr) (types []ast.Expr) {
	var fields *ast.FieldList
	switch of := of.(type) {
	case *ast.StructType:
		fields = of.Fields
	case *ast.InterfaceType:
		fields = of.Methods
	default:
		return nil
	}
	for _, f := range fields.List {
		if len(f.Names) == 0 || slices.ContainsFunc(f.Names, (*ast.Ident).IsExported) {
			types = append(types, f.Type)
		}
	}
	return types
}

func exportedReceiver(fn *ast.FuncDecl) bool {
	exported := false
	ast.Inspect(fn.Recv.List[0].Type, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && !exported {
			exported = id.IsExported()
			return false
		}
		return true
	})
	return exported
}
