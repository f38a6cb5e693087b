//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/internal/testing/fixture"
)

func newPipe(t *testing.T) string {
	t.Helper()
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	return pipe
}

// writer opens a pipe once someone reads it.
func writer(t *testing.T, pipe string) *os.File {
	t.Helper()
	var w *os.File
	fixture.Eventually(t, "a reader", func() (reads bool) {
		var err error
		w, err = os.OpenFile(pipe, os.O_WRONLY|syscall.O_NONBLOCK, 0)
		if err != nil && !errors.Is(err, syscall.ENXIO) {
			t.Fatal(err)
		}
		return err == nil
	})
	t.Cleanup(func() { _ = w.Close() })
	return w
}

// Every command that reads a file ends with its context while it waits for the writer of a pipe.
func TestReadingAPipeEnds(t *testing.T) {
	t.Parallel()
	store := []string{"--project", "p", "--instance", "i"}
	for _, args := range [][]string{
		{"schema", "diff", "PIPE"}, {"schema", "apply", "PIPE"}, {"init", "--schema", "PIPE"}, {"check", "--schema", "PIPE"},
		{"set", "t", "r", "c", "--file", "PIPE"}, {"capacity", "--file", "PIPE"}, {"capacity", "--inputs", "PIPE"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			t.Parallel()
			pipe := newPipe(t)
			for i, arg := range args {
				args[i] = strings.ReplaceAll(arg, "PIPE", pipe)
			}
			if args[0] != "capacity" {
				args = append(args, store...)
			}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan int, 1)
			var log bytes.Buffer
			go func() { ended <- execute(ctx, args, strings.NewReader(""), io.Discard, &log) }()
			writer(t, pipe) // and it writes nothing
			cancel()
			if code := <-ended; code != cli.ExitFailure || !strings.Contains(log.String(), pipe+": context canceled") {
				t.Errorf("exit status %d, %q", code, log.String())
			}
		})
	}
}
