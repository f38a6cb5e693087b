package observers_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestDocumentedCodeIsTested: every piece of Go in docs/OBSERVERS.md is part of an example that runs.
func TestDocumentedCodeIsTested(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../docs/OBSERVERS.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	spaces := regexp.MustCompile(`\s+`)
	tested := spaces.ReplaceAllString(string(source), " ")
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(doc), -1)
	if len(blocks) < 5 {
		t.Fatalf("found %d pieces of code", len(blocks))
	}
	for _, b := range blocks {
		if code := strings.TrimSpace(spaces.ReplaceAllString(b[1], " ")); !strings.Contains(tested, code) {
			t.Errorf("not in example_test.go:\n%s", b[1])
		}
	}
}
