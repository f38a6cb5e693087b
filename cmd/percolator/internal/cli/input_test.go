//go:build unix

package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A pipe with a writer is as good as a file, within the same limit.
func TestReadInput(t *testing.T) {
	t.Parallel()
	const most = 100_000 // more than a pipe holds
	for _, n := range []int{0, most, most + 1} {
		want := strings.Repeat("x", n)
		pipe := filepath.Join(t.TempDir(), "pipe")
		if err := syscall.Mkfifo(pipe, 0o600); err != nil {
			t.Fatal(err)
		}
		w := make(chan error, 1)
		go func() { w <- os.WriteFile(pipe, []byte(want), 0) }()
		fromPipe := ReadInput(t.Context(), pipe, nil, most, equals(want))
		if err := <-w; err != nil && n <= most {
			t.Error(err)
		}
		for name, err := range map[string]error{
			"a pipe":             fromPipe,
			"the standard input": ReadInput(t.Context(), "-", strings.NewReader(want), most, equals(want)),
		} {
			if (err != nil) != (n > most) || err != nil && ExitCode(err) != ExitUsage {
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
