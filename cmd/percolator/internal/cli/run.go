package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"regexp"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/internal/serve/exporters"
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

// Listen opens the listener of a flag, unless refuse has something against its address.
func Listen(ctx context.Context, flag, address string, refuse func(ip net.IP) error) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, Usagef("--%s: %w", flag, err)
	}
	if err := refuse(l.Addr().(*net.TCPAddr).IP); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// StartTelemetry makes the exporters of a command; they tell a collector only where the environment
// names one. stop exports the rest; its failure is worth a line in the log, and not an exit status.
func StartTelemetry(ctx context.Context, service string, logger *slog.Logger) (e *exporters.Exporters, stop func(), err error) {
	e, err = exporters.Start(ctx, exporters.Service{Name: service, Version: ProgramVersion()})
	if err != nil {
		return nil, nil, Usagef("%w", err)
	}
	return e, func() {
		if err := e.Shutdown(ctx); err != nil {
			logger.Warn("the collector of metrics and traces did not take the last of them", "error", err)
		}
	}, nil
}

// LogFlags say how the log is written.
type LogFlags struct{ format string }

// Add adds --log-format.
func (f *LogFlags) Add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.format, "log-format", "text", "form of the log on the standard error: text or json [$PERCOLATOR_LOG_FORMAT]")
}

// Logger writes to the standard error.
func (f *LogFlags) Logger(cmd *cobra.Command) (*slog.Logger, error) {
	switch f.format {
	case "text":
		return slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(cmd.ErrOrStderr(), nil)), nil
	}
	return nil, Usagef("--log-format %q is neither text nor json", f.format)
}
