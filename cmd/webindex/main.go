// Command webindex keeps a searchable index of crawled web pages up to date, page by page. It is
// the example of what Percolator is for, see section 1 of the paper: pages are loaded in any order,
// by transactions; observers find duplicates, turn links around and publish what the search page
// shows; and no one ever computes the index as a whole.
//
// The packages below internal, in the order in which to read them:
//
//	index   the tables, the observers, loading and deleting a page
//	search  the search page
//	verify  recomputes an index from the raw pages and compares
//	load    whole crawls
//	crawl, page   reading archives, one of which is part of the program; reading HTML
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/gopercolator/percolator/internal/text"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is the whole program; it returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr *os.File) int {
	a := &app{stdout: stdout, stderr: stderr}
	root := newRoot(a)
	root.SetArgs(args)
	err := errors.Join(root.ExecuteContext(ctx), a.closeSummary())
	if err == nil {
		return 0
	}
	fmt.Fprintln(stderr, "webindex:", text.Lines(err.Error()))
	return 1
}
