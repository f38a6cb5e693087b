package docs_test

import (
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// COMPATIBILITY.md says of each package that others can import what it promises.
func TestCompatibilityNamesEveryPackage(t *testing.T) {
	t.Parallel()
	page, packages := read(t, "docs/COMPATIBILITY.md"), 0
	for _, tree := range []string{"percolator", "observers", "tso"} {
		err := filepath.WalkDir(filepath.Join(root, tree), func(dir string, d fs.DirEntry, err error) error {
			if err != nil || !d.IsDir() {
				return err
			}
			if d.Name() == "internal" || d.Name() == "testdata" {
				return fs.SkipDir
			}
			if files, _ := filepath.Glob(filepath.Join(dir, "*.go")); len(files) == 0 {
				return nil
			}
			path, err := filepath.Rel(root, dir)
			if packages++; !strings.Contains(page, "`"+filepath.ToSlash(path)+"`") {
				t.Errorf("package %s is not named", path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if packages < 15 {
		t.Errorf("found %d packages", packages)
	}
}

// The changelog has the release that changes are compared with.
func TestReleaseStandsInTheChangelog(t *testing.T) {
	t.Parallel()
	version, _, _ := strings.Cut(read(t, ".ci/release"), " ")
	if !strings.Contains(read(t, "CHANGELOG.md"), "\n## "+version+" ") {
		t.Errorf("CHANGELOG.md has no section for %s, which .ci/release names", version)
	}
}
