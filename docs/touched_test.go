package docs_test

import (
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestArchitectureNamesWhatAChangeTouches: a row of "What a change touches" names each file in
// which grep finds what has to follow the change, and no other.
func TestArchitectureNamesWhatAChangeTouches(t *testing.T) {
	t.Parallel()
	signs := map[string]*regexp.Regexp{
		"add a column type":                 regexp.MustCompile(`\bTypeBool\b|\bDecodeBool\(`),
		"change the rule for dead locks":    regexp.MustCompile(`(?m)^func \(l \*?Lock\w*\) (Dead|AliveUntil)\(`),
		"change what a journal entry holds": regexp.MustCompile(`JournalName\{Table|type JournalName struct|func newLoggedJSON\(`),
	}
	elsewhere := []string{".git", "bin", "emulator_test", "cmd/webindex", "cmd/percolator-bench"}
	found := map[string][]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		rel := filepath.ToSlash(strings.TrimPrefix(path, root+string(filepath.Separator)))
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains(elsewhere, rel):
			return fs.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text := read(t, rel)
		for change, sign := range signs {
			if sign.MatchString(text) {
				found[change] = append(found[change], rel)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	text := read(t, "docs/internals/ARCHITECTURE.md")
	link := regexp.MustCompile(`\]\(\.\./\.\./([^)]*\.go)\)`)
	for change, files := range found {
		row := regexp.MustCompile(`(?m)^\| ` + change + ` \| .*$`).FindString(text)
		var named []string
		for _, m := range link.FindAllStringSubmatch(row, -1) {
			named = append(named, m[1])
		}
		slices.Sort(files)
		if slices.Sort(named); !slices.Equal(named, files) {
			t.Errorf("to %s: ARCHITECTURE.md names %q, and grep finds %q", change, named, files)
		}
	}
	if len(found) != len(signs) {
		t.Errorf("grep finds the signs of %d changes, of %d", len(found), len(signs))
	}
}
