package internal

import (
	"go/ast"
	"strings"
	"testing"
)

// TestWarningsNameTheCause: what fails below percolator and observers is logged by telemetry.Warn.
// A warning by hand that is followed by the error at level Debug lacks the cause, and one with the
// error itself may name a row.
func TestWarningsNameTheCause(t *testing.T) {
	t.Parallel()
	called := 0
	for path, file := range productionFiles(t, "..") {
		below := strings.HasPrefix(path, "internal/engine/") || strings.HasPrefix(path, "percolator/") || strings.HasPrefix(path, "observers/")
		if !below || path == "internal/engine/telemetry/warn.go" || strings.HasPrefix(path, "percolator/loader/") || strings.HasPrefix(path, "percolator/console/") {
			continue // a loader has a warn of its own, and a page of the console none of the users' rows
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BlockStmt:
				checkWarnings(t, path, n.List)
			case *ast.CaseClause:
				checkWarnings(t, path, n.Body)
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && x.Name == "telemetry" && n.Sel.Name == "Warn" {
					called++
				}
			}
			return true
		})
	}
	if called == 0 {
		t.Error("nobody calls telemetry.Warn: the search is wrong")
	}
}

func checkWarnings(t *testing.T, path string, statements []ast.Stmt) {
	t.Helper()
	for i, s := range statements {
		warn := logCall(s, "Warn", "Error")
		if warn == nil {
			continue
		}
		debug := (*ast.CallExpr)(nil)
		if i+1 < len(statements) {
			debug = logCall(statements[i+1], "Debug")
		}
		if hasError(warn) || debug != nil && hasError(debug) {
			t.Errorf("%s: %s is logged by hand; use telemetry.Warn", path, warn.Args[0].(*ast.BasicLit).Value)
		}
	}
}

// logCall is the call of a logger that a statement is.
func logCall(s ast.Stmt, methods ...string) *ast.CallExpr {
	e, ok := s.(*ast.ExprStmt)
	if !ok {
		return nil
	}
	call, ok := e.X.(*ast.CallExpr)
	if !ok || len(call.Args) == 0 {
		return nil
	}
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if _, text := call.Args[0].(*ast.BasicLit); !ok || !text {
		return nil
	}
	for _, m := range methods {
		if sel.Sel.Name == m {
			return call
		}
	}
	return nil
}

func hasError(call *ast.CallExpr) bool {
	for _, a := range call.Args {
		if lit, ok := a.(*ast.BasicLit); ok && (lit.Value == `"err"` || lit.Value == `"error"`) {
			return true
		}
	}
	return false
}
