//go:build unix

package dev

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/internal/testing/fixture"
)

// What is read again, or written, is a file: dev refuses a pipe, and does not wait for who is at
// its other end.
func TestDevRefusesAPipe(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"data", "data.lock", "data.tmp"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pipe := filepath.Join(t.TempDir(), name)
			if err := syscall.Mkfifo(pipe, 0o600); err != nil {
				t.Fatal(err)
			}
			refused := make(chan error, 1)
			go func() {
				_, err := openDataFile(strings.TrimSuffix(strings.TrimSuffix(pipe, ".lock"), ".tmp"))
				refused <- err
			}()
			select {
			case err := <-refused:
				if err == nil || cli.ExitCode(err) != cli.ExitUsage || !strings.Contains(err.Error(), name+" is not a file") {
					t.Error(err)
				}
			case <-fixture.Context(t).Done():
				t.Error("it waits for the other end")
			}
		})
	}
}
