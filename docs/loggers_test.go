package docs_test

import (
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/internal/ordered"
)

// configs are where the configurations of clients and workers begin.
var configs = regexp.MustCompile(`(?:NewWorker\(env\.Client, .*)?\b(?:percolator|observers)\.Config\{`)

// TestExamplesLog: a program copied from an example says what fails. Without a logger a client says
// nothing, and a worker has its client's.
func TestExamplesLog(t *testing.T) {
	t.Parallel()
	units := map[string]string{} // Go that belongs together
	for _, p := range pages(t) {
		for _, b := range p.blocks {
			if b.language == "go" {
				units[p.path] += b.text()
			}
		}
	}
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		text, dir := read(t, strings.TrimPrefix(path, root+"/")), filepath.Dir(path)
		switch isTest := strings.HasSuffix(path, "_test.go"); {
		case isTest && strings.Contains(text, "\nfunc Example"):
			units[path] = text
		case !isTest && strings.HasPrefix(dir, root+"/docs/examples/"):
			units[dir] += text
		case !isTest:
			units[path+", comments"] = strings.Join(ordered.Map(comment.FindAllString(text, -1), func(l string) string { return l[2:] }), "\n")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for name, text := range units {
		clients := strings.Contains(text, "percolator.Config{")
		for _, at := range configs.FindAllStringIndex(text, -1) {
			found++
			begin, config := text[at[0]:at[1]], literal(text[at[1]:])
			ofTest := strings.HasPrefix(begin, "NewWorker")
			ofClient := clients && strings.HasPrefix(begin, "observers")
			if !strings.Contains(config, "Logger:") && !ofTest && !ofClient {
				t.Errorf("%s: %s%s has no Logger", name, begin, config)
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d configurations were found", found)
	}
}

// comment is a line of a comment.
var comment = regexp.MustCompile(`(?m)^//.*$`)

// literal is what stands before the bracket that closes one.
func literal(text string) string {
	open := 1
	for i, c := range text {
		switch c {
		case '{':
			open++
		case '}':
			open--
		}
		if open == 0 {
			return text[:i+1]
		}
	}
	return text
}
