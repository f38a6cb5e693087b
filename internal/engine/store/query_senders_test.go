package store_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/internal/engine/store"
)

// fields are those of a query that each shape uses, beside Shape and Variant.
var fields = map[store.Shape]string{
	store.ShapeNewest: "Columns At N", store.ShapeNewestIn: "Ranges At N", store.ShapeWholeRow: "At N", store.ShapeDataAt: "Versions",
	store.ShapeHeldLock: "Column At", store.ShapeRecord: "Column At", store.ShapePrimary: "Column At",
	store.ShapeConflict: "Columns At", store.ShapeConflictSpan: "Column Other At",
	store.ShapeAnyNotify: "Column", store.ShapePending: "", store.ShapePendingUpTo: "At N",
	store.ShapeWrittenSince: "At", store.ShapeLocks: "At", store.ShapeAllLocks: "", store.ShapeGarbage: "", store.ShapeHistory: "",
	store.ShapeExported: "At N", store.ShapeWeak: "At", store.ShapeRecords: "Column At N",
	store.ShapeInspected: "Columns N Cells", store.ShapeAnything: "", store.ShapeRecordsFrom: "From At", store.ShapeChanged: "Columns From At",
	store.ShapeCellsOf: "Column Cells", store.ShapeCellIs: "Column Value", store.ShapeCellBegins: "Column Value",
	store.ShapeCellAtLeast: "Column Value", store.ShapeEitherCell: "Column Other", store.ShapeJournalCells: "",
	store.ShapeSafepointRefused: "Column Other Value", store.ShapeHoldRefused: "Column Other Value",
}

// variants are the shapes of which there are several.
var variants = map[store.Variant][]store.Shape{
	store.WithoutValues: {store.ShapeDataAt}, store.FirstAttempt: {store.ShapeConflict, store.ShapeConflictSpan},
	store.WithLaterAcks: {store.ShapeExported}, store.WithData: {store.ShapeChanged},
	store.OnlyChanges: {store.ShapeNewest, store.ShapeWholeRow}, store.ChangeRecords: {store.ShapeNewest}, store.WithoutData: {store.ShapeNewest},
}

func TestQueriesSetTheFieldsOfTheirShapes(t *testing.T) {
	t.Parallel()
	seen := map[store.Shape]bool{}
	for name, q := range sizes(9) {
		used, known := fields[q.Shape]
		seen[q.Shape] = known
		for i, v := range reflect.VisibleFields(reflect.TypeOf(q)) {
			if v.Name != "Shape" && v.Name != "Variant" && !reflect.ValueOf(q).Field(i).IsZero() && !slices.Contains(strings.Fields(used), v.Name) {
				t.Errorf("%s: the shape %q does not use the field %s", name, q.Shape, v.Name)
			}
		}
		if q.Variant != store.Plain && !slices.Contains(variants[q.Variant], q.Shape) {
			t.Errorf("%s: the shape %q has no variant %d", name, q.Shape, q.Variant)
		}
	}
	for _, s := range store.Shapes() {
		if !seen[s] || s.String() == "" {
			t.Errorf("shape %d, %q, has no query or no fields", s, s)
		}
	}
}

// The comment of each query names the packages that send it, and no others.
func TestQueriesNameTheirSenders(t *testing.T) {
	t.Parallel()
	said := map[string]string{} // by the name of the function
	file, err := parser.ParseFile(token.NewFileSet(), "query.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	ends := regexp.MustCompile(`(?s)\nSent by ([^.:]*?)(, as a predicate|: the probe asks it)?\.\n$`)
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Recv != nil || f.Type.Results == nil || nameOf(f.Type.Results.List[0].Type) != "Query" {
			continue
		}
		said[f.Name.Name] = "without a sentence"
		if m := ends.FindStringSubmatch(f.Doc.Text()); m != nil {
			said[f.Name.Name] = strings.Join(strings.Fields(strings.ReplaceAll(m[1], " and ", ", ")), " ")
		}
	}
	senders := senders(t, said)
	for name, by := range said {
		want := strings.Join(slices.Compact(slices.Sorted(slices.Values(senders[name]))), ", ")
		if want == "" {
			want = "nobody"
		}
		if by != want {
			t.Errorf("%s says that it is sent by %s, and is sent by %s", name, by, want)
		}
	}
}

// senders are the packages of the module that call the functions of store, tests and the probe
// aside.
func senders(t *testing.T, functions map[string]string) map[string][]string {
	t.Helper()
	by := map[string][]string{}
	root := filepath.Join("..", "..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(root, path)
		switch rel {
		case "emulator_test", filepath.Join("internal", "probe"), filepath.Join("internal", "testing"):
			return filepath.SkipDir
		}
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		own := filepath.Dir(rel) == filepath.Join("internal", "engine", "store")
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			name, qualified := strings.CutPrefix(nameOf(call.Fun), "store.")
			if _, ok := functions[name]; ok && qualified != own {
				by[name] = append(by[name], filepath.Base(filepath.Dir(rel)))
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return by
}

// nameOf is the text of an identifier, or of one of a package.
func nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		if x, ok := e.X.(*ast.Ident); ok {
			return x.Name + "." + e.Sel.Name
		}
	}
	return ""
}
