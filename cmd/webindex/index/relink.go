package index

import (
	"context"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
)

// relink runs when there are other links to some URLs. Of a document it has the page published that
// stands for its cluster, which says who links there. A redirect passes the news on to where it
// leads. A URL that was never crawled, but is linked to, needs nothing.
//
// It writes nothing. A document that moves to another cluster meanwhile has that published by its
// own transaction (see joinCluster), and whatever is published then sees the links.
func relink(ctx context.Context, tx *percolator.Txn, changes []observers.Change) error {
	urls := rowsOf(changes)
	hashes, err := Values(ctx, tx, Hash, urls)
	if err != nil {
		return err
	}
	var documents, others []string
	for i, url := range urls {
		if hashes[i] != "" {
			documents = append(documents, hashes[i])
		} else {
			others = append(others, url)
		}
	}
	canonical, err := Values(ctx, tx, Canonical, documents)
	if err != nil {
		return err
	}
	for _, url := range canonical {
		if url == "" { // recluster is about to choose one, and has it published
			continue
		}
		if err := Export.Notify(tx, url); err != nil {
			return err
		}
	}
	return passOn(ctx, tx, others)
}

// passOn notifies the ends of the redirects that begin at some URLs. It does so even if the links
// there look the same as last time: the end collects from all redirects itself, maybe in between,
// and has to be told of each change. A circle of redirects leads nowhere.
func passOn(ctx context.Context, tx *percolator.Txn, urls []string) error {
	next, err := redirectsFrom(ctx, tx, urls)
	if err != nil {
		return err
	}
	for _, url := range urls {
		if end := follow(next, url); end != "" && end != url {
			if err := Relink.Notify(tx, end); err != nil {
				return err
			}
		}
	}
	return nil
}

// rowsOf are the rows that have changed.
func rowsOf(changes []observers.Change) []string {
	rows := make([]string, len(changes))
	for i, ch := range changes {
		rows[i] = ch.Cell.Row
	}
	return rows
}
