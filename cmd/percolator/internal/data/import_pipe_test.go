//go:build unix

package data

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/internal/testing/fixture"
)

// What is read again is a file: import refuses a pipe, and does not wait for who is at its other
// end.
func TestImportRefusesAPipe(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "rows.jsonl")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	refused := make(chan error, 1)
	go func() {
		_, _, err := (&importSource{from: pipe}).openFile()
		refused <- err
	}()
	select {
	case err := <-refused:
		if err == nil || cli.ExitCode(err) != cli.ExitUsage || !strings.Contains(err.Error(), "rows.jsonl is not a file") {
			t.Error(err)
		}
	case <-fixture.Context(t).Done():
		t.Error("it waits for the other end")
	}
}
