package main

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

var (
	jsonKey = regexp.MustCompile(`(?m)^ *"([^"/]+)": `) // names of modules have slashes
	// The others are names, of checks and of requests, under which a number stands.
	camelCase = regexp.MustCompile(`^[a-z][a-zA-Z0-9]*$|^missing-row$|^scratch-tables$|^[A-Z][A-Za-z]+Rows?$`)
)

// Keys of JSON that commands print are in one style: no golden file has another one.
func TestJSONKeysAreInOneStyle(t *testing.T) {
	t.Parallel()
	var files []string
	for _, pattern := range []string{"testdata/*.txt", "internal/*/testdata/*.*"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	if len(files) < 20 {
		t.Fatalf("%d files", len(files))
	}
	keys := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range jsonKey.FindAllStringSubmatch(string(text), -1) {
			if keys++; !camelCase.MatchString(m[1]) {
				t.Errorf("%s: %q", file, m[1])
			}
		}
	}
	if keys < 200 {
		t.Errorf("%d keys", keys)
	}
}
