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
			if code := <-ended; code != exitFailure || !strings.Contains(log.String(), pipe+": context canceled") {
				t.Errorf("exit status %d, %q", code, log.String())
			}
		})
	}
}

// What is read again, or written, is a file: commands refuse a pipe, and do not wait for who is at
// its other end.
func TestPipesAreRefused(t *testing.T) {
	t.Parallel()
	data := func(pipe string) error {
		_, err := openDataFile(strings.TrimSuffix(strings.TrimSuffix(pipe, ".lock"), ".tmp"))
		return err
	}
	for name, open := range map[string]func(pipe string) error{
		"rows.jsonl": func(pipe string) error {
			_, _, err := (&importSource{from: pipe}).openFile()
			return err
		},
		"data": data, "data.lock": data, "data.tmp": data,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pipe := filepath.Join(t.TempDir(), name)
			if err := syscall.Mkfifo(pipe, 0o600); err != nil {
				t.Fatal(err)
			}
			refused := make(chan error, 1)
			go func() { refused <- open(pipe) }()
			select {
			case err := <-refused:
				if err == nil || exitCode(err) != exitUsage || !strings.Contains(err.Error(), name+" is not a file") {
					t.Error(err)
				}
			case <-fixture.Context(t).Done():
				t.Error("it waits for the other end")
			}
		})
	}
}

// A pipe with a writer is as good as a file, within the same limit.
func TestReadInput(t *testing.T) {
	t.Parallel()
	const most = 100_000 // more than a pipe holds
	for _, n := range []int{0, most, most + 1} {
		want := strings.Repeat("x", n)
		pipe := newPipe(t)
		w := make(chan error, 1)
		go func() { w <- os.WriteFile(pipe, []byte(want), 0) }()
		fromPipe := readInput(t.Context(), pipe, nil, most, equals(want))
		if err := <-w; err != nil && n <= most {
			t.Error(err)
		}
		for name, err := range map[string]error{
			"a pipe":             fromPipe,
			"the standard input": readInput(t.Context(), "-", strings.NewReader(want), most, equals(want)),
		} {
			if (err != nil) != (n > most) || err != nil && exitCode(err) != exitUsage {
				t.Errorf("%d bytes of %s: %v", n, name, err)
			}
		}
	}
}

func equals(want string) func([]byte) error {
	return func(text []byte) error {
		if string(text) != want {
			return errors.New("something else was read")
		}
		return nil
	}
}
