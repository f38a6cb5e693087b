package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/tso"
)

// TestNamedMethodsExist: what comments, messages and pages call Client.Something is a method of a
// client. Most of what a client had is admin.Admin's now.
func TestNamedMethodsExist(t *testing.T) {
	t.Parallel()
	have := map[string]bool{}
	for _, client := range []reflect.Type{reflect.TypeFor[*percolator.Client](), reflect.TypeFor[*tso.Client]()} {
		for i := range client.NumMethod() {
			have[client.Method(i).Name] = true
		}
	}
	named := regexp.MustCompile(`(?:^|[^.\w*])(?:percolator\.)?Client\.([A-Z]\w*)`)
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(path, "_test.go") || filepath.Base(path) == "CHANGELOG.md" || !strings.Contains(".go.md.html.txt", filepath.Ext(path)) || filepath.Ext(path) == "" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range named.FindAllStringSubmatch(string(text), -1) {
			if !have[m[1]] {
				t.Errorf("%s names Client.%s, which no client has", path, m[1])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
