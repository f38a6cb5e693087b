package main

import (
	"os"
	"sync/atomic"

	"github.com/spf13/cobra"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"
)

// statusLine shows on a terminal what goes on, for work whose end is not known, and nothing
// elsewhere.
func statusLine(cmd *cobra.Command) (say func(text string), end func()) {
	stderr, ok := cmd.ErrOrStderr().(*os.File)
	if !ok || !term.IsTerminal(int(stderr.Fd())) {
		return func(string) {}, func() {}
	}
	var text atomic.Pointer[string]
	text.Store(new(string))
	bars := mpb.New(mpb.WithOutput(stderr), mpb.WithWidth(1))
	bar := bars.AddSpinner(0, mpb.BarRemoveOnComplete(), mpb.AppendDecorators(
		decor.Any(func(decor.Statistics) string { return " " + *text.Load() + " " }), decor.Elapsed(decor.ET_STYLE_MMSS)))
	return func(now string) { text.Store(&now) }, func() {
		bar.SetTotal(-1, true)
		bars.Wait()
	}
}
