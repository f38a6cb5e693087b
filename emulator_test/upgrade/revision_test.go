//go:build unix

package upgrade

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/internal/testing/fixture"
)

const root = "../.."

// harness are the packages that make and record transactions. They are of this revision in the
// programs of the other one as well: what is compared is what a program imports.
var harness = []string{"emulator_test/internal/history", "emulator_test/internal/workload", "emulator_test/upgrade"}

// programs are those of one revision.
type programs struct {
	name       string
	percolator string // cmd/percolator
	member     string // a test binary with TestMember
}

func (p programs) String() string { return p.name }

// ours builds those of this revision, of which the running test is one.
func ours(t *testing.T) programs {
	t.Helper()
	member, err := os.Executable()
	must(t, err)
	dir, err := fixture.Programs(t.Context(), root, "./cmd/percolator")
	must(t, err)
	return programs{"new", filepath.Join(dir, "percolator"), member}
}

// predates says that a revision is older than the oldest that this one runs beside, which the file
// oldest names; "" if it is not, or where the file names none.
func predates(t *testing.T, revision string) string {
	t.Helper()
	text, err := os.ReadFile("oldest")
	must(t, err)
	oldest := strings.TrimSpace(string(text))
	if oldest == "" {
		return ""
	}
	if out, err := command(t, root, "git", "merge-base", "--is-ancestor", oldest, revision); err != nil {
		return fmt.Sprintf("%s is older than %s, the oldest revision that this one runs beside: %v %s", revision, oldest, err, out)
	}
	return ""
}

// theirs builds those of another revision, in a tree of its own.
func theirs(t *testing.T, revision string) programs {
	t.Helper()
	tree := fixture.BuildDir(t)
	archive := filepath.Join(t.TempDir(), "tree.tar")
	run(t, root, "git", "archive", "--output", archive, revision)
	run(t, tree, "tar", "-xf", archive)
	p := programs{"old", filepath.Join(tree, "old-percolator"), filepath.Join(tree, "old-member")}
	run(t, tree, "go", "build", "-o", p.percolator, "./cmd/percolator")
	own := filepath.Join(tree, "own")
	must(t, os.Mkdir(own, 0o700))
	for _, dir := range harness {
		replace(t, filepath.Join(root, dir), filepath.Join(tree, dir), filepath.Join(own, dir))
	}
	build := []string{"go", "test", "-c", "-o", p.member, "./emulator_test/upgrade"}
	if _, err := command(t, tree, build...); err == nil {
		return p
	}
	// This harness needs something that the other revision lacks: so it has to do with its own.
	for _, dir := range harness {
		replace(t, filepath.Join(own, dir), filepath.Join(tree, dir), "")
	}
	run(t, tree, build...)
	return p
}

// replace puts the files of from in the place of those of to, which go to aside, if there is one.
func replace(t *testing.T, from, to, aside string) {
	t.Helper()
	if aside != "" {
		if err := copyFiles(to, aside); !errors.Is(err, fs.ErrNotExist) {
			must(t, err)
		}
	}
	must(t, os.RemoveAll(to))
	must(t, copyFiles(from, to))
}

func copyFiles(from, to string) error {
	if _, err := os.Stat(from); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	return os.CopyFS(to, os.DirFS(from))
}

func run(t *testing.T, dir string, words ...string) string {
	t.Helper()
	out, err := command(t, dir, words...)
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(words, " "), err, out)
	}
	return out
}

func command(t *testing.T, dir string, words ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), stalled)
	defer cancel()
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Dir = dir
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}
