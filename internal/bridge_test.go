package internal

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestOneBridge: of all exported functions and methods of public packages, Client.Engine alone has
// an internal type in its signature.
func TestOneBridge(t *testing.T) {
	t.Parallel()
	for _, pkg := range []string{"tso", "tso/spannerstore", "percolator", "percolator/admin", "percolator/backup", "percolator/console",
		"percolator/loader", "percolator/percolatortest", "percolator/emulator", "observers", "observers/combinequeue", "observers/exportqueue"} {
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
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || !fn.Name.IsExported() || fn.Recv != nil && !exportedReceiver(fn) || pkg == "percolator" && fn.Name.Name == "Engine" {
			continue
		}
		ast.Inspect(fn.Type, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := sel.X.(*ast.Ident); ok && internals[x.Name] {
					t.Errorf("%s: %s has %s.%s in its signature", pkg, fn.Name.Name, x.Name, sel.Sel.Name)
				}
			}
			return true
		})
	}
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
