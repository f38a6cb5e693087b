package docs_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Pages write cells as commands print them: a line that says that something was retried or dropped
// is one that `percolator notify` or `percolator exports` prints today.
func TestPagesWriteCellsAsCommandsDo(t *testing.T) {
	t.Parallel()
	printed := regexp.MustCompile(`^(?:retried|dropped): (?:observer \S+ on [a-z_]+/".*"/".*"|[a-z_]+/[0-9a-f.]+)$`)
	for _, p := range pages(t) {
		for _, b := range p.blocks {
			for line := range strings.Lines(b.text()) {
				line = strings.TrimSpace(line)
				if (strings.HasPrefix(line, "retried: ") || strings.HasPrefix(line, "dropped: ")) && !printed.MatchString(line) {
					t.Errorf("%s: no command prints %q", filepath.Base(p.path), line)
				}
			}
		}
	}
}
