package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/gopercolator/percolator/internal/text"
)

// What a directory is called reaches the terminal only in a form that it does not obey.
func TestNamesOfInputsArePrintable(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "\x1b[2J\x1b]0;title\a")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "a.html"), []byte("<title>a</title>"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, stdout, stderr := webindex(t, "demo", "--exit", "--input", dir)
	for _, said := range []string{stdout, stderr} {
		if text.Lines(said) != said {
			t.Errorf("%q", said)
		}
	}
}
