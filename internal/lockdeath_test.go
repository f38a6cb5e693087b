package internal

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// agesOfLocks are the files that compare when a lock was placed with something else than its end.
var agesOfLocks = map[string]string{
	"percolator/internal/repair/resolve.go": "the greatest timestamp that is stored",
	"percolator/internal/sweep/rows.go":     "locks that are older than what the sweep checks",
}

// TestOnePlaceJudgesLocks: whether a lock is dead is decided in layout alone, by when the type says
// that its time is up. Others may copy when it was placed and its TTL; they neither compare nor
// calculate with them.
func TestOnePlaceJudgesLocks(t *testing.T) {
	t.Parallel()
	judging := 0
	for path, file := range productionFiles(t, "..") {
		found := comparedLockTimes(file)
		switch {
		case strings.HasPrefix(path, "internal/engine/layout/"), path == "percolator/model/lock.go":
			judging += len(found)
		case agesOfLocks[path] != "" && len(found) == 1:
		case agesOfLocks[path] != "" || len(found) > 0:
			t.Errorf("%s compares times of locks: %q; ask the lock (layout/lockdeath.go)", path, found)
		}
	}
	if judging == 0 {
		t.Error("layout compares none either: the search is wrong")
	}
}

// productionFiles are the Go files of the root module but for tests and testing, by path.
func productionFiles(t *testing.T, root string) map[string]*ast.File {
	t.Helper()
	files := map[string]*ast.File{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := filepath.ToSlash(strings.TrimPrefix(path, root+string(filepath.Separator)))
		switch {
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == ".git" || slices.Contains([]string{"emulator_test", "internal/testing", "cmd/webindex", "cmd/percolator-bench"}, name)):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, ".pb.go"):
			return nil
		}
		files[name], err = parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// comparedLockTimes are the times of locks that a file compares, or that it calculates with: when a
// lock was placed, or when its transaction began together with some TTL.
func comparedLockTimes(file *ast.File) (found []string) {
	ast.Inspect(file, func(n ast.Node) bool {
		if !calculates(n) {
			return true
		}
		names := namesIn(n)
		has := func(name string) bool { return slices.Contains(names, name) }
		if has("placed") || has("startts") && slices.ContainsFunc(names, func(name string) bool { return strings.HasSuffix(name, "ttl") }) {
			found = append(found, fmt.Sprint(names))
			return false
		}
		return true
	})
	return found
}

func calculates(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		return n.Op != token.LAND && n.Op != token.LOR
	case *ast.CallExpr:
		return slices.Contains([]string{"Add", "Sub", "Compare", "max", "min"}, calledName(n))
	}
	return false
}

// namesIn are the names in an expression in lower case, but for those in composite literals, which
// are copies, and in functions, which are looked at by themselves.
func namesIn(n ast.Node) (names []string) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CompositeLit, *ast.FuncLit:
			return false
		case *ast.Ident:
			names = append(names, strings.ToLower(n.Name))
		}
		return true
	})
	return names
}

func calledName(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}

// TestComparedLockTimes: the search finds every way in which locks have been judged, and no copies.
func TestComparedLockTimes(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]int{
		"now > l.Placed.Add(l.TTL) || hasEnded(l.Session)":         1,
		"now.Sub(l.Placed) > l.TTL":                                1,
		"now <= it.StartTS.Add(l.Config.LockTTL)":                  1,
		"now.Sub(l.StartTS) - l.TTL":                               1,
		"max(oldest, p.now.Sub(l.Placed)-l.TTL)":                   1,
		"LockInspection{Expires: by.Placed.Add(by.TTL)}":           1,
		"l.Placed.Sub(l.StartTS) > l.Age+l.TTL && other(l)":        1,
		"cmp.Compare(a.Placed, b.Placed)":                          1,
		"append(lives, lockLife{placed: l.Placed, ttl: l.TTL})":    0,
		"Lock{StartTS: l.StartTS, Placed: l.Placed, TTL: ttl}":     0,
		"Unplaced(it.StartTS, l.Config.LockTTL, it.Session)":       0,
		"l.Dead(now, hasEnded)":                                    0,
		"l.Overdue(now) > 2*l.TTL":                                 0,
		"catalog.CompareCells(l.Primary, cell) && l.StartTS == ts": 0,
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "", "package p\nvar _ = "+code, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if found := comparedLockTimes(file); len(found) != want {
			t.Errorf("%s: found %q, want %d", code, found, want)
		}
	}
}
