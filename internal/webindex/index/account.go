package index

import (
	"context"
	"errors"
	"slices"

	"github.com/gopercolator/percolator/percolator"

	"github.com/gopercolator/percolator/internal/webindex/page"
)

// account is what has come in for a URL, and what it has passed on if it is a document.
type account struct {
	received int64
	rank     int64    // 0 if it has passed on nothing
	to       []string // in order, each once
}

// settle is the account after a contribution. to is where the links lead; it is ignored for a URL
// that is no document. A rank that is right within Epsilon stays as it is.
func (a account) settle(c Contribution, document bool, to []string) account {
	after := account{received: a.received + c.Rank}
	if !document {
		return after
	}
	after.rank, after.to = RankFor(after.received), to
	if Settled(a.rank, after.rank) {
		after.rank = a.rank
	}
	return after
}

// differences adds to out what has to be sent, by target, when the account changes from a to after.
func (a account) differences(after account, out Contributions) {
	if a.rank == after.rank && slices.Equal(a.to, after.to) {
		return
	}
	share := Share(after.rank, len(after.to))
	for _, url := range after.to {
		out.add(url, Contribution{Rank: share})
	}
	share = Share(a.rank, len(a.to))
	for _, url := range a.to {
		out.add(url, Contribution{Rank: -share})
	}
}

// fetchAccounts fetches what pass needs of all its URLs.
func fetchAccounts(ctx context.Context, tx *percolator.Txn, urls []string, in Contributions) *Fetched {
	var cells []percolator.Cell
	for _, url := range urls {
		cells = append(cells, Hash.Cell(url), Rank.Cell(url), Received.Cell(url), PassedTo.Cell(url))
		if in[url].Links {
			cells = append(cells, OutLinks.Cell(url))
		}
	}
	return Fetch(ctx, tx, cells...)
}

// readRedirects fetches where the links lead of all documents whose links count anew, as far as
// that is one step: for most of them that is all there is to know. destinations goes further where
// it has to.
func readRedirects(ctx context.Context, tx *percolator.Txn, f *Fetched, urls []string, in Contributions) error {
	var cells []percolator.Cell
	asked := map[string]bool{}
	for _, url := range urls {
		if !in[url].Links || len(cells) > maxDifferences {
			continue
		}
		for _, l := range Get(f, OutLinks, url) {
			if !asked[l.Target] {
				asked[l.Target] = true
				cells = append(cells, Redirect.Cell(l.Target))
			}
		}
	}
	if f.Err() != nil || len(cells) == 0 {
		return f.Err()
	}
	_, err := tx.GetMulti(ctx, cells...)
	return err
}

// passOne settles the account of one URL, and adds to out what it passes on.
func passOne(ctx context.Context, tx *percolator.Txn, f *Fetched, url string, c Contribution, out Contributions) error {
	before := account{received: Get(f, Received, url), rank: Get(f, Rank, url), to: Get(f, PassedTo, url)}
	document := Get(f, Hash, url) != ""
	var links []page.Link
	if c.Links && document {
		links = Get(f, OutLinks, url)
	}
	if f.Err() != nil {
		return f.Err()
	}
	to := before.to
	if c.Links && document {
		var err error
		if to, err = destinations(ctx, tx, url, links); err != nil {
			return err
		}
	}
	after := before.settle(c, document, to)
	before.differences(after, out)
	return writeAccount(tx, url, before, after)
}

// writeAccount writes what has changed; nothing is not stored. A document with another rank may
// become canonical, or cease to be. What was received is written in any case: so folds of the same
// URL conflict, of which one might have missed what the other has seen. (A lock would do, but its
// record stays on the cell and has everybody look further back for the value.)
func writeAccount(tx *percolator.Txn, url string, before, after account) error {
	errs := []error{setOrDelete(tx, Received, url, after.received, after.received == 0)}
	if before.rank != after.rank {
		errs = append(errs, setOrDelete(tx, Rank, url, after.rank, after.rank == 0), Rerank.Notify(tx, url))
	}
	if !slices.Equal(before.to, after.to) {
		errs = append(errs, setOrDelete(tx, PassedTo, url, after.to, len(after.to) == 0))
	}
	return errors.Join(errs...)
}

// setOrDelete writes a value, unless that is nothing: then the cell is to be absent.
func setOrDelete[T any](tx *percolator.Txn, col percolator.Column[T], row string, v T, nothing bool) error {
	if nothing {
		return col.Delete(tx, row)
	}
	return col.Set(tx, row, v)
}
