package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/internal/text"
)

// secondSignal is how long after the first signal a second one is not taken for impatience.
const secondSignal = time.Second

// Main runs the command of the command line and returns its exit status.
func Main(root *cobra.Command) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A second signal ends the process at once, but not one that belongs to the first (timeout(1)
	// sends two).
	context.AfterFunc(ctx, func() {
		time.Sleep(secondSignal)
		stop()
	})
	return Run(ctx, root, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
}

// Run runs one command and returns its exit status.
func Run(ctx context.Context, root *cobra.Command, args []string, in io.Reader, out, log io.Writer) int {
	root.SetArgs(args)
	root.SetIn(in)
	printed := &stickyWriter{Writer: out}
	root.SetOut(printed)
	root.SetErr(log)
	err := cmp.Or(root.ExecuteContext(ctx), printed.failed)
	if err != nil {
		printError(log, err)
	}
	return ExitCode(err)
}

func printError(w io.Writer, err error) {
	_, _ = fmt.Fprintln(w, "percolator:", text.Lines(ownPrefix.ReplaceAllString(err.Error(), "$1")))
}

// ownPrefix is what the library's errors begin with, and those that they wrap, and what the path of
// a command begins with: one says enough.
var ownPrefix = regexp.MustCompile(`(^|\n|: )percolator: |^percolator `)

// stickyWriter remembers that it could not be written, so that a command need not look after each
// line.
type stickyWriter struct {
	io.Writer
	failed error
}

// Write implements io.Writer.
func (o *stickyWriter) Write(p []byte) (n int, err error) {
	n, err = o.Writer.Write(p)
	o.failed = cmp.Or(o.failed, err)
	return n, err
}
