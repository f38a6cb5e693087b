package internal

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestCommentsFitIntoALine: a line that is only a comment has at most 100 characters.
func TestCommentsFitIntoALine(t *testing.T) {
	t.Parallel()
	const most = 100
	lines := 0
	for dir, names := range goFiles(t) {
		for _, name := range names {
			if strings.HasSuffix(name, ".pb.go") {
				continue
			}
			text, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			for i, line := range strings.Split(string(text), "\n") {
				comment := strings.TrimLeft(line, "\t")
				if !strings.HasPrefix(comment, "//") || strings.HasPrefix(comment, "//go:") {
					continue
				}
				if lines++; utf8.RuneCountInString(line) > most {
					t.Errorf("%s:%d: the comment is longer than %d characters", filepath.Join(dir, name), i+1, most)
				}
			}
		}
	}
	if lines < 1000 {
		t.Errorf("%d lines of comments", lines)
	}
}
