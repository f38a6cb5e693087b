// Package docs_test keeps the documentation true: Go in it compiles, commands in it print what is
// shown, links lead somewhere, and every error, limit and alert that the code has is explained.
package docs_test

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// update replaces the outputs of commands in the pages by what they print now. Read the difference
// afterwards.
var update = flag.Bool("update", false, "replace the outputs of commands in the pages")

const (
	root   = ".." // the directory of the module, seen from this one
	module = "github.com/gopercolator/percolator"
)

// page is one file of Markdown.
type page struct {
	path   string // from the root of the module
	lines  []string
	blocks []block
	from   string // "<!-- snippets: from=FILE -->": all Go of the page is part of that file
}

// block is what stands between two fences.
type block struct {
	page        *page
	language    string
	directive   map[string]string // what "<!-- snippet: key=value … -->" before it says
	first, last int               // the lines between the fences, as a half-open range of indexes
	indent      string
}

// text is the block without the indentation of its fence.
func (b block) text() string {
	var s strings.Builder
	for _, line := range b.page.lines[b.first:b.last] {
		s.WriteString(strings.TrimPrefix(line, b.indent))
		s.WriteByte('\n')
	}
	return s.String()
}

var (
	fence       = regexp.MustCompile("^(\\s*)```(\\S*)\\s*$")
	directive   = regexp.MustCompile(`^\s*<!-- (?:snippet|console): (.*) -->\s*$`)
	wholePage   = regexp.MustCompile(`^<!-- snippets: from=(\S+) -->\s*$`)
	assignments = regexp.MustCompile(`([a-z]+)(?:=("[^"]*"|\S+))?`)
)

// pages reads README.md, CONTRIBUTING.md and everything in docs and docs/internals.
func pages(t *testing.T) []*page {
	t.Helper()
	paths := []string{"README.md", "CONTRIBUTING.md", "emulator_test/README.md"}
	for _, pattern := range []string{"*.md", "internals/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range found {
			paths = append(paths, "docs/"+name)
		}
	}
	var list []*page
	for _, path := range paths {
		list = append(list, readPage(t, path))
	}
	return list
}

func readPage(t *testing.T, path string) *page {
	t.Helper()
	p := &page{path: path, lines: strings.Split(read(t, path), "\n")}
	p.parse(t)
	return p
}

func (p *page) parse(t *testing.T) {
	t.Helper()
	var open *block
	said := map[string]string{}
	for i, line := range p.lines {
		switch m := fence.FindStringSubmatch(line); {
		case m != nil && open == nil:
			open = &block{page: p, language: m[2], directive: said, first: i + 1, indent: m[1]}
			said = map[string]string{}
		case m != nil:
			open.last = i
			p.blocks = append(p.blocks, *open)
			open = nil
		case open != nil:
		case wholePage.MatchString(line):
			p.from = wholePage.FindStringSubmatch(line)[1]
		case directive.MatchString(line):
			for _, a := range assignments.FindAllStringSubmatch(directive.FindStringSubmatch(line)[1], -1) {
				said[a[1]] = strings.Trim(a[2], `"`)
			}
		case strings.TrimSpace(line) != "":
			said = map[string]string{}
		}
	}
	if open != nil {
		t.Fatalf("%s:%d: the fence is never closed", p.path, open.first)
	}
}

// read returns a file of the module; path is from its root.
func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
