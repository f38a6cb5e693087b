package docs_test

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
)

// TestGoOfPagesCompiles compiles and vets every piece of Go in the documentation. A piece is
//
//   - a complete file, if it begins with a package clause;
//   - a part of a file that is tested elsewhere, after "<!-- snippet: from=FILE -->", or in a page
//     with "<!-- snippets: from=FILE -->";
//   - otherwise a fragment, put into testdata/snippets/NAME.go in place of the line "// SNIPPET".
//     The NAME is that of "<!-- snippet: in=NAME -->", or "function".
func TestGoOfPagesCompiles(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	dir := fixture.BuildDir(t)
	places, parts := map[string]string{}, 0
	for _, p := range pages(t) {
		for _, b := range p.blocks {
			if b.language != "go" {
				continue
			}
			if from := b.from(); from != "" {
				checkPart(t, b, from)
				parts++
				continue
			}
			name := fmt.Sprintf("%s_%d", strings.ToLower(strings.TrimSuffix(filepath.Base(p.path), ".md")), b.first+1)
			places[name] = fmt.Sprintf("%s:%d", p.path, b.first+1)
			write(t, filepath.Join(dir, name, "snippet.go"), b.source(t))
		}
	}
	if len(places) < 15 || parts < 8 {
		t.Errorf("found %d pieces of Go and %d parts of files", len(places), parts)
	}
	vet(t, dir, places)
}

// vet runs go vet on the packages in dir, which it makes a module that has what this one has.
func vet(t *testing.T, dir string, places map[string]string) {
	t.Helper()
	here, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	mod := strings.Replace(read(t, "go.mod"), "module "+module, "module snippets", 1)
	mod += fmt.Sprintf("\nrequire %[1]s v0.0.0\n\nreplace %[1]s => %[2]s\n", module, here)
	write(t, filepath.Join(dir, "go.mod"), mod)
	write(t, filepath.Join(dir, "go.sum"), read(t, "go.sum"))
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute) // it may compile all there is
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "vet", "./...")
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err == nil {
		return
	}
	names := regexp.MustCompile(`[a-z-]+_\d+`)
	t.Errorf("%v\n%s", err, names.ReplaceAllStringFunc(string(out), func(name string) string {
		if place := places[name]; place != "" {
			return name + " (" + place + ")"
		}
		return name
	}))
}

func (b block) from() string {
	if from := b.directive["from"]; from != "" {
		return from
	}
	return b.page.from
}

var spaces = regexp.MustCompile(`\s+`)

// checkPart: the block, but for white space, stands in the file.
func checkPart(t *testing.T, b block, file string) {
	t.Helper()
	code := strings.TrimSpace(spaces.ReplaceAllString(b.text(), " "))
	if !strings.Contains(spaces.ReplaceAllString(read(t, file), " "), code) {
		t.Errorf("%s:%d: not in %s:\n%s", b.page.path, b.first+1, file, b.text())
	}
}

// source is the block as a file of its own.
func (b block) source(t *testing.T) string {
	t.Helper()
	text := b.text()
	if strings.HasPrefix(text, "package ") {
		return text
	}
	name := b.directive["in"]
	if name == "" {
		name = "function"
	}
	frame := read(t, "docs/testdata/snippets/"+name+".go")
	before, after, ok := strings.Cut(frame, "\t// SNIPPET\n")
	if !ok {
		before, after, ok = strings.Cut(frame, "// SNIPPET\n")
	}
	if !ok {
		t.Fatalf("testdata/snippets/%s.go has no line // SNIPPET", name)
	}
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if strings.HasPrefix(lines[len(lines)-1], "return ") { // what the frame returns would never be reached
		after = strings.TrimPrefix(after, "\treturn nil\n")
	}
	return before + text + after
}
