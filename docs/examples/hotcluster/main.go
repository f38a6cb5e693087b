// Hotcluster shows what a hotspot costs and how it is taken apart (end of section 2.4 of the
// paper): many documents with the same content belong to one cluster, whose row lists them.
//
//   - Directly: the observer of a document reads the list, changes it and writes it back. All
//     documents of a cluster write one cell, so of the runs that are in flight at the same time one
//     commits, and the others have done their work for nothing.
//   - Split in two: the observer of a document writes a cell of its own beside the cluster, which
//     no other observer writes, and notifies the cluster weakly, which conflicts with nothing. The
//     observer of the weak column builds the list, once for all documents that have come meanwhile.
//
// It runs both on an emulator in this process, with several workers, and counts conflicts:
//
//	go run ./docs/examples/hotcluster
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"text/tabwriter"
	"time"
)

func main() {
	documents := flag.Int("documents", 200, "how many documents there are, 1 to 100,000")
	workers := flag.Int("workers", 4, "how many workers run the observers, 1 to 64")
	flag.Parse()
	if *documents < 1 || *documents > 100_000 || *workers < 1 || *workers > 64 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	var results []*result
	for _, v := range versions {
		r, err := run(ctx, v, *documents, *workers)
		if err != nil {
			log.Fatal(err)
		}
		results = append(results, r)
	}
	if err := printTable(os.Stdout, results); err != nil {
		log.Fatal(err)
	}
}

// printTable prints what the versions cost.
func printTable(out io.Writer, results []*result) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "version\tdocument changes\tobserver commits\tconflicts\tconflicts per commit\tcluster rewritten\t")
	for _, r := range results {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%.3f\t%d\t\n", r.version, r.changes, r.commits, r.conflicts, r.rate(), r.rewritten)
	}
	return w.Flush()
}
