package index

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/gopercolator/percolator/percolator"
)

// Account is what has come in for a URL, crawled or not, and what it has passed on if it is a
// document.
type Account struct {
	// Rank is the document's PageRank in units, as it has passed it on; see [Unit].
	Rank int64 `json:"rank,omitempty"`
	// Received is what all documents that link here have passed on to this URL.
	Received int64 `json:"received,omitempty"`
	// Shared says that the document shares its cluster with others, or has done so: they compare
	// their ranks. Who makes a document share a cluster queues that with the same transaction. Only
	// folds write accounts, so the one that changes the rank and the one that hears of the others
	// are not blind to each other.
	Shared bool `json:"shared,omitempty"`
}

// Accounts are kept in blocks, rows of many URLs, each with two columns of its own: a fold writes
// those of thousands of URLs with few requests.
const (
	accountPrefix  = "account:"
	passedToPrefix = "to:"
	blocks         = 256
)

// Block is the row that has the account of a URL.
func Block(url string) string { return fmt.Sprintf("%03x", partOf(url, blocks)) }

// AccountOf is the account of a URL, in the row of its [Block].
func AccountOf(url string) percolator.Column[Account] {
	return percolator.JSON[Account](RankAccounts, accountPrefix+url)
}

// PassedTo are the URLs to which the document has passed its rank on, to each its [Share]; in
// order, none twice. They are in the row of its [Block].
func PassedTo(url string) percolator.Column[[]string] {
	return percolator.JSON[[]string](RankAccounts, passedToPrefix+url)
}

// AccountURL is the inverse of AccountOf and PassedTo.
func AccountURL(column string) (url string, passedTo bool) {
	if url, ok := strings.CutPrefix(column, passedToPrefix); ok {
		return url, true
	}
	return strings.TrimPrefix(column, accountPrefix), false
}

// ReadAccounts reads the accounts of some URLs.
func ReadAccounts(ctx context.Context, r percolator.Scanner, urls ...string) ([]Account, error) {
	found, err := readAccounts(ctx, r, urls, accountPrefix)
	accounts := make([]Account, len(urls))
	for i, url := range urls {
		accounts[i] = found[url].Account
	}
	return accounts, err
}

// readAccounts reads the columns with some prefixes of the accounts of URLs, of many with one
// request, and hardly any block with two.
func readAccounts(ctx context.Context, r percolator.Scanner, urls []string, prefixes ...string) (map[string]account, error) {
	var scans []percolator.ScanOptions
	bytes := accountsBytes
	byBlock := slices.SortedFunc(slices.Values(urls), func(a, b string) int { return cmp.Compare(Block(a), Block(b)) })
	for _, url := range byBlock {
		for _, prefix := range prefixes {
			size := 6*len(prefix+url) + 64 // in a filter
			if bytes += size; bytes > accountsBytes || len(scans[len(scans)-1].ColumnRanges) == percolator.MaxColumnRanges {
				scans, bytes = append(scans, percolator.ScanOptions{}), size
			}
			o := &scans[len(scans)-1]
			o.Rows, o.ColumnRanges = append(o.Rows, percolator.Row(Block(url))), append(o.ColumnRanges, percolator.Row(prefix+url))
		}
	}
	parts := make([]map[string]account, len(scans))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(accountScans)
	for i, o := range scans {
		parts[i] = map[string]account{}
		group.Go(func() error { return scanAccounts(ctx, r, o, parts[i]) })
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	found := map[string]account{}
	for _, part := range parts {
		for url, a := range part {
			found[url] = found[url].with(a)
		}
	}
	return found, nil
}

// accountsBytes bounds the filter of one request, below what a scan allows.
const accountsBytes = 15 << 10

// accountScans is how many such requests are in flight at once.
const accountScans = 8

func scanAccounts(ctx context.Context, r percolator.Scanner, o percolator.ScanOptions, found map[string]account) error {
	for e, err := range r.ScanWith(ctx, RankAccounts, o) {
		if err != nil {
			return err
		}
		url, passedTo := AccountURL(e.Cell.Column)
		a := found[url]
		if passedTo {
			a.to, err = PassedTo(url).Decode(e.Cell.Row, e.Value)
		} else {
			a.Account, err = AccountOf(url).Decode(e.Cell.Row, e.Value)
		}
		if err != nil {
			return err
		}
		found[url] = a
	}
	return nil
}

// account is an account with where the rank was passed on to.
type account struct {
	Account
	to []string // in order, each once
}

// with adds what another scan has read of the account.
func (a account) with(b account) account {
	if b.Account != (Account{}) {
		a.Account = b.Account
	}
	if b.to != nil {
		a.to = b.to
	}
	return a
}

// settle is the account after a contribution. to is where the links lead; it is ignored for a URL
// that is no document. A rank that is right within Epsilon stays as it is.
func (a account) settle(c Contribution, document bool, to []string) account {
	after := account{Account: Account{Received: a.Received + c.Rank}}
	if !document {
		return after
	}
	after.Rank, after.to, after.Shared = RankFor(after.Received), to, a.Shared || c.Shared
	if Settled(a.Rank, after.Rank) {
		after.Rank = a.Rank
	}
	return after
}

// differences adds to out what has to be sent, by target, when the account changes from a to after.
func (a account) differences(after account, out Contributions) {
	if a.Rank == after.Rank && slices.Equal(a.to, after.to) {
		return
	}
	share := Share(after.Rank, len(after.to))
	for _, url := range after.to {
		out.add(url, Contribution{Rank: share})
	}
	share = Share(a.Rank, len(a.to))
	for _, url := range a.to {
		out.add(url, Contribution{Rank: -share})
	}
}

// fetchDocuments fetches what pass needs of the documents of all its URLs.
func fetchDocuments(ctx context.Context, tx *percolator.Txn, urls []string, in Contributions) *Fetched {
	var cells []percolator.Cell
	for _, url := range urls {
		cells = append(cells, Hash.Cell(url))
		if in[url].Links {
			cells = append(cells, OutLinks.Cell(url))
		}
	}
	return Fetch(ctx, tx, cells...)
}

// writeAccount writes what has changed; nothing is not stored. A document with another rank, or one
// that has just come to share its cluster, may become canonical, or cease to be. The account is
// written in any case: so folds of the same URL conflict, of which one might have missed what the
// other has seen. (A lock would do, but its record stays on the cell and makes all readers look
// further back for the value.)
func writeAccount(tx *percolator.Txn, url string, before, after account) error {
	errs := []error{setOrDelete(tx, AccountOf(url), Block(url), after.Account, after.Account == Account{})}
	if after.Shared && (before.Rank != after.Rank || !before.Shared) {
		errs = append(errs, Rerank.Notify(tx, url))
	}
	if !slices.Equal(before.to, after.to) {
		errs = append(errs, setOrDelete(tx, PassedTo(url), Block(url), after.to, len(after.to) == 0))
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
