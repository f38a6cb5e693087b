package index

import (
	"context"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
)

const (
	MergeLeast = mergeLeast
	DeepestRow = deepestRow
)

// MergePart runs merge for a part, and reports whether it merges anything.
func MergePart(ctx context.Context, tx *percolator.Txn, part string) (merged bool, err error) {
	segments, err := listSegments(ctx, tx, []string{part})
	if err != nil {
		return false, err
	}
	return len(segments[part]) >= mergeLeast, merge(ctx, tx, []observers.Change{{Cell: Merge.Cell(part)}})
}

// WritePostings writes a segment with the difference between two versions of a document's terms.
func WritePostings(tx *percolator.Txn, url string, before, after map[string]int) error {
	p := Postings{}
	p.move(url, before, after)
	return p.write(tx, Segment{ID: tx.StartTimestamp()})
}

// Publish is the observer, for tests that decide themselves when it runs.
var Publish = publish
