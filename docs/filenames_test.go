package docs_test

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"testing"
)

// TestLinkedFilesHaveTheirNames: a link whose text is the name of a Go file leads to that file.
func TestLinkedFilesHaveTheirNames(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	link := regexp.MustCompile(`\[([\w/.-]+\.go)\]\(([\w/.-]+\.go)\)`)
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if path.Base(m[1]) != path.Base(m[2]) {
				t.Errorf("%s: a link called %s leads to %s", page, m[1], m[2])
			}
		}
	}
}
