package index

import (
	"context"
	"errors"
	"slices"

	"github.com/gopercolator/percolator/percolator"
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

// readAccounts fetches what pass needs in one request; the typed reads after it are answered by the
// transaction's cache.
func readAccounts(ctx context.Context, tx *percolator.Txn, urls []string, in Contributions) error {
	var cells []percolator.Cell
	for _, url := range urls {
		cells = append(cells, Hash.Cell(url), Rank.Cell(url), Received.Cell(url), PassedTo.Cell(url))
		if in[url].Links {
			cells = append(cells, OutLinks.Cell(url))
		}
	}
	_, err := tx.GetMulti(ctx, cells...)
	return err
}

// readAccount reads the account of a URL.
func readAccount(ctx context.Context, tx *percolator.Txn, url string) (a account, document bool, err error) {
	if a.received, err = Received.GetOr(ctx, tx, url, 0); err != nil {
		return a, false, err
	}
	if a.rank, err = Rank.GetOr(ctx, tx, url, 0); err != nil {
		return a, false, err
	}
	if a.to, err = PassedTo.GetOr(ctx, tx, url, nil); err != nil {
		return a, false, err
	}
	hash, err := Hash.GetOr(ctx, tx, url, "")
	return a, hash != "", err
}

// readRedirects fetches where the links lead of all documents whose links count anew, as far as
// that is one step: for most of them that is all there is to know. destinations goes further where
// it has to.
func readRedirects(ctx context.Context, tx *percolator.Txn, urls []string, in Contributions) error {
	var cells []percolator.Cell
	asked := map[string]bool{}
	for _, url := range urls {
		if !in[url].Links || len(cells) > maxDifferences {
			continue
		}
		links, err := OutLinks.GetOr(ctx, tx, url, nil)
		if err != nil {
			return err
		}
		for _, l := range links {
			if !asked[l.Target] {
				asked[l.Target] = true
				cells = append(cells, Redirect.Cell(l.Target))
			}
		}
	}
	if len(cells) == 0 {
		return nil
	}
	_, err := tx.GetMulti(ctx, cells...)
	return err
}

// passOne settles the account of one URL, and adds to out what it passes on.
func passOne(ctx context.Context, tx *percolator.Txn, url string, c Contribution, out Contributions) error {
	before, document, err := readAccount(ctx, tx, url)
	if err != nil {
		return err
	}
	to := before.to
	if c.Links && document {
		links, err := OutLinks.GetOr(ctx, tx, url, nil)
		if err != nil {
			return err
		}
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

func setOrDelete[T any](tx *percolator.Txn, col percolator.Column[T], row string, v T, nothing bool) error {
	if nothing {
		return col.Delete(tx, row)
	}
	return col.Set(tx, row, v)
}
