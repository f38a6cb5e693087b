package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"

	"github.com/gopercolator/percolator/internal/text"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/backup"
)

// terminal is w if it is one, else nil.
func terminal(w io.Writer) *os.File {
	for o, ok := w.(*stickyWriter); ok; o, ok = w.(*stickyWriter) {
		w = o.Writer
	}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return f
	}
	return nil
}

// statusLine shows on a terminal what goes on, for work whose end is not known, and nothing
// elsewhere.
func statusLine(cmd *cobra.Command) (say func(text string), end func()) { return waitingLine(cmd, nil) }

// waitingLine is statusLine with a countdown, which stands in the line while the command waits.
func waitingLine(cmd *cobra.Command, wait *countdown) (say func(text string), end func()) {
	stderr := terminal(cmd.ErrOrStderr())
	if stderr == nil {
		return func(string) {}, wait.end
	}
	var text atomic.Pointer[string]
	text.Store(new(string))
	bars := mpb.New(mpb.WithOutput(stderr), mpb.WithWidth(1))
	bar := bars.AddSpinner(0, mpb.BarRemoveOnComplete(), mpb.AppendDecorators(
		decor.Any(func(decor.Statistics) string { return " " + cmp.Or(wait.text(), *text.Load()) + " " }), decor.Elapsed(decor.ET_STYLE_MMSS)))
	return func(now string) { text.Store(&now) }, func() {
		wait.end()
		bar.SetTotal(-1, true)
		bars.Wait()
	}
}

// showBar shows on a terminal how far a backup or a restore is, with a countdown before it begins
// (nil: it does not wait), and elsewhere the countdown alone.
func showBar(cmd *cobra.Command, what string, wait *countdown) (show func(backup.Progress), end func()) {
	stderr := terminal(cmd.ErrOrStderr())
	if stderr == nil {
		return func(backup.Progress) {}, wait.end
	}
	bars := mpb.New(mpb.WithOutput(stderr), mpb.WithWidth(48))
	var last atomic.Pointer[backup.Counts]
	last.Store(new(backup.Counts))
	counts := decor.Any(func(decor.Statistics) string {
		if text := wait.text(); text != "" {
			return " " + text
		}
		return fmt.Sprintf(" %d rows, %s", last.Load().Rows, bytesShown(last.Load().Bytes))
	})
	bar := bars.AddBar(0, mpb.PrependDecorators(decor.Name(what+" ")), mpb.AppendDecorators(decor.CountersNoUnit("%d/%d"), counts, decor.Elapsed(decor.ET_STYLE_MMSS, decor.WCSyncSpace)))
	show = func(p backup.Progress) {
		last.Store(&p.Counts)
		bar.SetTotal(int64(p.All), false)
		bar.SetCurrent(int64(p.Done))
	}
	return show, func() {
		wait.end()
		bar.Abort(false)
		bars.Wait()
	}
}

// walkBar shows how far a walk has come, on a terminal; elsewhere report is nil.
func walkBar(cmd *cobra.Command) (report func(admin.ObserverProgress), done func()) {
	stderr := terminal(cmd.ErrOrStderr())
	if stderr == nil {
		return nil, func() {}
	}
	bars := mpb.New(mpb.WithOutput(stderr), mpb.WithWidth(48))
	bar := bars.AddBar(0, mpb.AppendDecorators(decor.CountersNoUnit("%d/%d rows"), decor.Elapsed(decor.ET_STYLE_MMSS, decor.WCSyncSpace)))
	return func(p admin.ObserverProgress) {
			bar.SetTotal(max(p.Total, p.Rows), false)
			bar.SetCurrent(p.Rows)
		}, func() {
			bar.SetTotal(-1, true)
			bars.Wait()
		}
}

// style is how a piece of text stands out on a terminal. What it says must be clear without it.
type style string

// Styles, as the parameters of ANSI's "select graphic rendition".
const (
	plain  style = ""
	bold   style = "1"
	dim    style = "2"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
)

// painter puts styles on text, where what is written is seen by a person.
type painter bool

// painterFor paints on terminals, unless NO_COLOR is set (https://no-color.org).
func painterFor(w io.Writer) painter {
	return painter(os.Getenv("NO_COLOR") == "" && terminal(w) != nil)
}

func (p painter) paint(s style, text string) string {
	if !bool(p) || s == plain || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}

// ask returns an error unless the user agrees to what cannot be undone.
func ask(ctx context.Context, cmd *cobra.Command, yes bool, format string, args ...any) error {
	if yes {
		return nil
	}
	_, _ = fmt.Fprint(cmd.ErrOrStderr(), text.Line(fmt.Sprintf(format, args...)), " [y/N] ")
	line, err := await(ctx, func() (string, error) {
		line, _ := bufio.NewReader(cmd.InOrStdin()).ReadString('\n') // no answer is no
		return line, nil
	})
	if err != nil {
		_, _ = fmt.Fprintln(cmd.ErrOrStderr())
		return fmt.Errorf("not confirmed: %w", err)
	}
	if answer := strings.ToLower(strings.TrimSpace(line)); answer == "y" || answer == "yes" {
		return nil
	}
	_, _ = fmt.Fprintln(cmd.ErrOrStderr())
	return usagef("not confirmed; --yes does without the question")
}
