package index

import (
	"context"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/gopercolator/percolator/observers/combinequeue"
	"github.com/gopercolator/percolator/percolator"
)

// Limits of a fold. What is left when it reaches one goes back into the queue.
const (
	maxFoldURLs  = 20_000   // whose accounts it settles
	maxFoldBytes = 16 << 20 // of the names to which these pass rank on; a document has twice MaxTargetBytes at most
	maxReadURLs  = 4_000    // whose accounts it reads at once
	maxFoldReads = 16       // how often it does so; each time rank gets one step further at least
	maxSettles   = 100      // of each account after each time
)

// urgency is how many times smaller than the largest contribution another may be for its account to
// be read at the same time. Smaller ones wait, and more is added to them meanwhile: what moves a
// rank by much should go first, because it makes others move, and looking at a page for every bit
// of a rank would be several times the work.
const urgency = 8

// fold is the accounts of one fold. A rank takes some fifty steps to settle. Were each a fold of its
// own, it would cost fifty transactions, so a fold takes all the steps it can among the accounts
// that it has read, in memory, and writes each of them once.
type fold struct {
	tx       *percolator.Txn
	pending  Contributions // what no account has received yet
	bytes    int           // of the names to which the settled accounts pass rank on
	accounts map[string]*folded
}

// folded is an account as it was, and as it is to be.
type folded struct {
	before, after account
	settled       bool
	document      bool
	to            []string // where its links lead
}

// pass folds the queue: it adds to each URL what it has received and, where a document's rank has
// moved by more than Epsilon or its links lead elsewhere, passes the differences on. Of all that
// concerns the rank of a URL this is the only writer, and two folds that have the same URL
// conflict. So each decides from the outcome of the one before, and in the snapshot of a fold
// everything is visible that the contribution was queued for.
func pass(ctx context.Context, tx *percolator.Txn, sums []combinequeue.Sum[Contributions]) error {
	f := fold{tx: tx, pending: Contributions{}, accounts: map[string]*folded{}}
	for _, s := range sums {
		for url, c := range s.Value {
			f.pending.add(url, c)
		}
	}
	for range maxFoldReads {
		urls := f.pending.urgent(f.accounts, min(maxReadURLs, maxFoldURLs-len(f.accounts)))
		if len(urls) == 0 || f.bytes > maxFoldBytes {
			break
		}
		if err := f.read(ctx, urls); err != nil {
			return err
		}
		f.settle()
	}
	return f.write()
}

// read reads the accounts of some URLs, and what it takes to settle them.
func (f *fold) read(ctx context.Context, urls []string) error {
	var accounts map[string]account
	var docs *Fetched
	var group errgroup.Group
	group.Go(func() (err error) {
		accounts, err = readAccounts(ctx, f.tx, urls, accountPrefix, passedToPrefix)
		return err
	})
	group.Go(func() error {
		docs = fetchDocuments(ctx, f.tx, urls, f.pending)
		return docs.Err()
	})
	if err := group.Wait(); err != nil {
		return err
	}
	if err := readRedirects(ctx, f.tx, docs, urls, f.pending); err != nil {
		return err
	}
	for _, url := range urls {
		if err := f.add(ctx, docs, url, accounts[url]); err != nil {
			return err
		}
	}
	return nil
}

// add adds an account that was read.
func (f *fold) add(ctx context.Context, docs *Fetched, url string, before account) (err error) {
	a := &folded{before: before, after: before, document: Get(docs, Hash, url) != "", to: before.to}
	f.accounts[url] = a
	if a.document && f.pending[url].Links {
		links := Get(docs, OutLinks, url)
		if docs.Err() == nil {
			a.to, err = destinations(ctx, f.tx, url, links)
		}
	}
	if docs.Err() != nil {
		return docs.Err()
	}
	return err
}

// settle adds what is pending to the accounts that were read, until none of it is theirs.
func (f *fold) settle() {
	urls := slices.Sorted(maps.Keys(f.accounts))
	for range maxSettles {
		still := true
		for _, url := range urls {
			c, ok := f.pending[url]
			if !ok {
				continue
			}
			a := f.accounts[url]
			if !a.settled && f.bytes > maxFoldBytes {
				continue
			}
			if !a.settled {
				f.bytes += bytesOf(a.before.to) + bytesOf(a.to)
			}
			delete(f.pending, url)
			after := a.after.settle(c, a.document, a.to)
			a.after.differences(after, f.pending)
			a.after, a.settled, still = after, true, false
		}
		if still {
			return
		}
	}
}

func bytesOf(names []string) (n int) {
	for _, s := range names {
		n += len(s)
	}
	return n
}

// write writes the accounts, and puts what is still pending into the queue.
func (f *fold) write() error {
	for _, url := range slices.Sorted(maps.Keys(f.accounts)) {
		if a := f.accounts[url]; a.settled {
			if err := writeAccount(f.tx, url, a.before, a.after); err != nil {
				return err
			}
		}
	}
	return enqueue(f.tx, f.pending)
}
