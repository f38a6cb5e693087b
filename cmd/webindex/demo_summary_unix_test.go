//go:build unix

package main

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestSummaryToAPipeThatNobodyReads: the command says so instead of waiting for a reader.
func TestSummaryToAPipeThatNobodyReads(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	status, _, stderr := webindex(t, "demo", "--exit", "--summary", pipe)
	if status == 0 || !strings.Contains(stderr, pipe) {
		t.Errorf("exit status %d, %q; want an error that names the pipe", status, stderr)
	}
}
