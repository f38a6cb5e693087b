package cli

import (
	"cmp"
	"fmt"
	"sync/atomic"

	"github.com/spf13/cobra"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/backup"
)

// StatusLine shows on a terminal what goes on, for work whose end is not known, and nothing
// elsewhere.
func StatusLine(cmd *cobra.Command) (say func(text string), end func()) { return waitingLine(cmd, nil) }

// WaitingLine is StatusLine with a countdown, which stands in the line while the command waits until
// something is so.
func WaitingLine(cmd *cobra.Command, until string) (wait *Countdown, say func(text string), end func()) {
	wait = NewCountdown(cmd, until)
	say, end = waitingLine(cmd, wait)
	return wait, say, end
}

func waitingLine(cmd *cobra.Command, wait *Countdown) (say func(text string), end func()) {
	stderr := Terminal(cmd.ErrOrStderr())
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

// ShowBar shows on a terminal how far a backup or a restore is, with a countdown before it begins
// (nil: it does not wait), and elsewhere the countdown alone.
func ShowBar(cmd *cobra.Command, what string, wait *Countdown) (show func(backup.Progress), end func()) {
	stderr := Terminal(cmd.ErrOrStderr())
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
		return fmt.Sprintf(" %d rows, %s", last.Load().Rows, Bytes(last.Load().Bytes))
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

// WalkBar shows how far a walk has come, on a terminal; elsewhere report is nil.
func WalkBar(cmd *cobra.Command) (report func(admin.ObserverProgress), done func()) {
	stderr := Terminal(cmd.ErrOrStderr())
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
