package docs_test

import (
	"os"
	"regexp"
	"slices"
	"testing"
)

// TestArchitectureListsTheFoldersOfInternal: the paragraph that begins with `internal/` names each
// folder there once, in order, and no other.
func TestArchitectureListsTheFoldersOfInternal(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("internals/ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	paragraph := regexp.MustCompile("(?s)\n`internal/` beside the `engine`: (.*?)\n\n").FindSubmatch(text)
	if paragraph == nil {
		t.Fatal("ARCHITECTURE.md has no list of the folders of internal/")
	}
	listed := []string{"engine"}
	for _, m := range regexp.MustCompile("`([a-z]+)` \\(").FindAllSubmatch(paragraph[1], -1) {
		listed = append(listed, string(m[1]))
	}
	entries, err := os.ReadDir("../internal")
	if err != nil {
		t.Fatal(err)
	}
	var folders []string
	for _, e := range entries {
		if e.IsDir() {
			folders = append(folders, e.Name())
		}
	}
	if slices.Sort(listed); !slices.Equal(listed, folders) {
		t.Errorf("ARCHITECTURE.md lists %q, and internal/ has %q", listed, folders)
	}
}
