package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/cmd/webindex/load"
	"github.com/gopercolator/percolator/cmd/webindex/search"
)

// The whole store lives in this process, so most of its memory is in use and collecting garbage is
// expensive: it is done seldom, until the process has demoMemory bytes, and from there on as often
// as needed.
const (
	demoMemory    = 1750 << 20
	demoGCPercent = 300
)

// demo is the flags of the command.
type demo struct {
	inputs  []string
	workers int
	addr    string
	exit    bool
	verify  bool
}

func newDemoCommand(a *app) *cobra.Command {
	var d demo
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Index a crawl and search it, all in this process",
		Long: `Demo starts the official Bigtable emulator, a timestamp oracle and a worker in this process, loads a crawl, shows
what the observers make of it, and serves the search page until it is interrupted. Nothing is kept. On a loopback
address, pages can be changed in the browser, and the index follows.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			d.inputs = append(d.inputs, args...)
			if d.workers < 1 {
				return errors.New("--workers must be at least 1")
			}
			return a.demo(cmd.Context(), d)
		},
	}
	addInputFlag(cmd, &d.inputs)
	addAddrFlag(cmd, &d.addr)
	cmd.Flags().IntVar(&d.workers, "workers", 1, "`number` of workers, each with a client of its own")
	cmd.Flags().BoolVar(&d.exit, "exit", false, "end after the summary instead of serving the search page")
	cmd.Flags().BoolVar(&d.verify, "verify", false, "recompute the index from the raw pages after each input, and compare")
	return cmd
}

func (a *app) demo(ctx context.Context, d demo) error {
	debug.SetMemoryLimit(demoMemory)
	debug.SetGCPercent(demoGCPercent)
	var listener net.Listener
	if !d.exit { // an address that is taken is better known before the work
		var err error
		if listener, err = net.Listen("tcp", d.addr); err != nil {
			return err
		}
		defer listener.Close() //nolint:errcheck // closed already if it was used
	}
	store, err := startLocalStore(ctx, d.workers, a.log)
	if err != nil {
		return err
	}
	defer store.close()
	w, err := startWorkers(ctx, store.clients, a.log)
	if err != nil {
		return err
	}
	sources := sourcesOf(d.inputs)
	if len(sources) == 0 {
		sources = []load.Source{load.Bundled()}
	}
	var wrong error // what makes the exit status 1 in the end, but keeps nothing from being done
	for _, src := range sources {
		problem, err := a.demoInput(ctx, store, w, src, d.verify)
		if err != nil {
			return errors.Join(err, w.stop())
		}
		wrong = errors.Join(wrong, problem)
	}
	if !d.exit {
		pages := search.NewServer(store.clients[0], a.log)
		if listener.Addr().(*net.TCPAddr).IP.IsLoopback() {
			pages.AllowChanges(func() (map[string]int64, int) { return w.runs().Observers, w.queued() })
		}
		wrong = errors.Join(wrong, a.serve(ctx, listener, pages))
	}
	return errors.Join(wrong, w.stop())
}

// demoInput loads one input, waits until the observers are done with it, and says what that took. A
// problem is something wrong with the input or the index; the error is for what makes it impossible
// to go on.
func (a *app) demoInput(ctx context.Context, store *localStore, w *workers, src load.Source, check bool) (problem, err error) {
	began, err := store.clients[0].Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	m, runs := startMeter(store.clients...), w.runs()
	counts, err := a.loadOne(ctx, &load.Loader{Client: store.clients[0], Log: a.log}, src, w)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", src.Name, err)
	}
	s := loadedFrom(src, counts)
	s.Worked = w.runsSince(runs)
	done := m.stop(s)
	if counts.Bad > 0 {
		problem = errBadInput
	}
	problem = errors.Join(problem, w.failures(ctx))
	if err := describeIndex(ctx, store.clients[0], began.StartTimestamp(), done); err != nil {
		return problem, err
	}
	if check {
		var different error
		if done.Verified, different = a.verify(ctx, store.clients[0]); done.Verified == nil {
			return problem, different
		}
		problem = errors.Join(problem, different)
	}
	return problem, a.summarize(done)
}
