package docs_test

import (
	"path/filepath"
	"strings"
	"testing"
)

// mostWords bounds what the pages for users have, tables and commands included.
const mostWords = 45_000

// TestPagesForUsersStayShort: what auditors and contributors need stands in docs/internals, which
// does not count.
func TestPagesForUsersStayShort(t *testing.T) {
	t.Parallel()
	all := 0
	for _, pattern := range []string{"README.md", "CONTRIBUTING.md", "docs/*.md", "terraform/README.md", "emulator_test/README.md", "cmd/*/README.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range found {
			rel, err := filepath.Rel(root, path)
			if err != nil {
				t.Fatal(err)
			}
			all += len(strings.Fields(read(t, rel)))
		}
	}
	if all > mostWords || all < mostWords/2 {
		t.Errorf("the pages for users have %d words, and may have %d", all, mostWords)
	}
}
