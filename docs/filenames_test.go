package docs_test

import (
	"path"
	"regexp"
	"strings"
	"testing"
)

// TestLinkedFilesHaveTheirNames: a link whose text is the name of a Go file leads to that file.
func TestLinkedFilesHaveTheirNames(t *testing.T) {
	t.Parallel()
	link := regexp.MustCompile(`\[([\w/.-]+\.go)\]\(([\w/.-]+\.go)\)`)
	for _, page := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(strings.Join(page.lines, "\n"), -1) {
			if path.Base(m[1]) != path.Base(m[2]) {
				t.Errorf("%s: a link called %s leads to %s", page.path, m[1], m[2])
			}
		}
	}
}
