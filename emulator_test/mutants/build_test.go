package mutants

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// build is the module with an overlay (go help build). What is built of it is built once.
type build struct {
	overlay, dir string

	mu    sync.Mutex
	built map[string]func() error // by path
}

// newBuild has these texts in the place of files, by their absolute names.
func newBuild(t *testing.T, texts map[string][]byte) *build {
	t.Helper()
	b := &build{dir: t.TempDir(), built: map[string]func() error{}}
	replace := map[string]string{}
	for original, text := range texts {
		replace[original] = filepath.Join(b.dir, fmt.Sprintf("%d.go", len(replace)))
		if err := os.WriteFile(replace[original], text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	encoded, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	b.overlay = filepath.Join(b.dir, "overlay.json")
	if err := os.WriteFile(b.overlay, encoded, 0o644); err != nil {
		t.Fatal(err)
	}
	return b
}

// environ has the overlay, so that what is built is the mutant, also by a test, and makes tests run
// every case.
func (b *build) environ() []string {
	return append(os.Environ(), "PERCOLATOR_TEST_EVERY_CASE=1", fmt.Sprintf("GOFLAGS=%s '-overlay=%s'", os.Getenv("GOFLAGS"), b.overlay))
}

// once makes a file of this name by a command, unless it is there, and returns its path.
func (b *build) once(t *testing.T, name string, command func(path string) (dir string, args []string)) (path string) {
	t.Helper()
	path = filepath.Join(b.dir, name)
	b.mu.Lock()
	make := b.built[path]
	if make == nil {
		make = sync.OnceValue(func() error {
			ctx, cancel := context.WithTimeout(context.Background(), buildLimit)
			defer cancel()
			dir, args := command(path)
			cmd := exec.CommandContext(ctx, args[0], args[1:]...)
			cmd.Dir, cmd.Env = dir, b.environ()
			if out, err := cmd.CombinedOutput(); err != nil {
				return fmt.Errorf("%v: %w\n%s", args, err, out)
			}
			return nil
		})
		b.built[path] = make
	}
	b.mu.Unlock()
	if err := make(); err != nil {
		t.Fatal(err)
	}
	return path
}

// tests returns the program of the tests of a package.
func (b *build) tests(t *testing.T, pkg string) string {
	t.Helper()
	return b.once(t, strings.ReplaceAll(pkg[len("./"):], "/", "_")+".test", func(path string) (string, []string) {
		return root, []string{"go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-o", path, pkg}
	})
}

// program is what was built, with one mutant in it that is active, or none.
type program struct {
	*build
	active string
}

// variable names the mutant in a metamutant that is active.
const variable = "PERCOLATOR_MUTANT"

func (p program) environ() []string { return append(p.build.environ(), variable+"="+p.active) }
