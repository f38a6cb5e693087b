package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/gopercolator/percolator/cmd/webindex/load"
	"github.com/gopercolator/percolator/internal/text"
)

const (
	barInterval  = 100 * time.Millisecond
	lineInterval = 5 * time.Second
)

// showProgress shows how far an input has been read and what the workers do about it: as bars on a
// terminal, as lines now and then elsewhere. The returned function ends that. w may be nil.
func (a *app) showProgress(input string, l *load.Loader, w *workers) (done func()) {
	input = text.Line(input)
	if isTerminal(a.stderr) {
		return a.showBars(input, l, w)
	}
	return a.showLines(input, l, w)
}

func (a *app) showBars(input string, l *load.Loader, w *workers) (done func()) {
	p := mpb.New(mpb.WithOutput(a.stderr), mpb.WithAutoRefresh())
	loading := p.AddBar(0,
		mpb.PrependDecorators(decor.Name("load  "), decor.Name(input+" ")),
		mpb.AppendDecorators(decor.CountersKibiByte("% .1f / % .1f")))
	working := p.New(0, mpb.NopStyle(), mpb.PrependDecorators(decor.Any(func(decor.Statistics) string { return "index  " + working(w) })))
	stop := every(barInterval, func() {
		read, total := l.Progress()
		loading.SetTotal(total, false)
		loading.SetCurrent(read)
	})
	return func() {
		stop()
		loading.SetTotal(-1, true)
		working.SetTotal(-1, true)
		p.Wait()
	}
}

func (a *app) showLines(input string, l *load.Loader, w *workers) (done func()) {
	return every(lineInterval, func() {
		percent := 0.0
		if read, total := l.Progress(); total > 0 {
			percent = 100 * float64(read) / float64(total)
		}
		fmt.Fprintf(a.stderr, "load %s: %.0f %%, %d pages", input, percent, l.Counts().Pages())
		if w != nil {
			fmt.Fprintf(a.stderr, "; index: %s", working(w))
		}
		fmt.Fprintln(a.stderr)
	})
}

// showWork says now and then what the workers have done, if that has changed, until the returned
// function is called. Then it says so a last time.
func (a *app) showWork(w *workers, interval time.Duration) (done func()) {
	said := int64(0)
	say := func() {
		if runs := w.runs().ObserverRuns; runs != said {
			said = runs
			fmt.Fprintf(a.stderr, "worker: %s\n", working(w))
		}
	}
	stop := every(interval, say)
	return func() { stop(); say() }
}

// working says what the workers are doing.
func working(w *workers) string {
	if w == nil {
		return "by workers elsewhere"
	}
	return fmt.Sprintf("%d observer runs, %d cells waiting", w.runs().ObserverRuns, w.queued())
}

// every calls f again and again until stop is called, which waits for the last call to end.
func every(interval time.Duration, f func()) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				f()
			}
		}
	})
	return func() { cancel(); running.Wait() }
}

// isTerminal reports whether f is a terminal, or at least a device: a progress bar does no harm in
// /dev/null.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
