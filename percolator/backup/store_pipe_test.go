//go:build unix

package backup_test

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gopercolator/percolator/percolator/backup"
)

// A pipe in the place of an object, or of the directory, is an error: opening it would wait for a
// writer.
func TestPipeIsNoObject(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "object"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := backup.Dir(dir).Get(t.Context(), "object"); err == nil || !strings.Contains(err.Error(), "is not a file") {
		t.Errorf("Get of a pipe: %v", err)
	}
	if _, err := backup.Dir(filepath.Join(dir, "object")).Get(t.Context(), "plan.json"); err == nil {
		t.Error("Get from a pipe")
	}
}
