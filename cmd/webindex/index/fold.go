package index

import (
	"context"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/gopercolator/percolator/cmd/webindex/page"
	"github.com/gopercolator/percolator/observers/combinequeue"
	"github.com/gopercolator/percolator/percolator"
)

// Limits of a fold. What is left when it reaches one goes back into the queue.
const (
	maxFoldURLs  = 14_000   // accounts to read: all may be in one block, two columns each
	maxFoldBytes = 16 << 20 // of names, as JSON, that it has or passes on, before the last page
	maxReadURLs  = 4_000    // whose accounts it reads at once
	maxReadPages = 400      // whose links it reads at once, and has new,
	maxReadLinks = 20_000   // unless one page has more
	maxFoldReads = 40       // how often it reads; each time rank gets one step further at least
	maxSettles   = 100      // of each account after each time
)

// urgency is how many times smaller than the largest contribution another may be for its account to
// be read at the same time. Smaller ones wait, and more is added to them meanwhile: what moves a
// rank by much should go first, because it makes others move, and looking at a page for every bit
// of a rank would be several times the work.
const urgency = 8

// fold is the accounts of one fold. A rank takes some fifty steps to settle. Were each a fold of
// its own, it would cost fifty transactions, so a fold takes all the steps it can among the
// accounts that it has read, in memory, and writes each of them once.
type fold struct {
	tx       *percolator.Txn
	pending  Contributions // what no account has received yet
	accounts map[string]*folded
	room     int // bytes of names that may still come; below 0 after one that did not fit
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
	// A fold settles at least one account.
	f.room = max(1, maxFoldBytes-bytesOf(slices.Collect(maps.Keys(f.pending))))
	for range maxFoldReads {
		urls := f.next()
		if len(urls) == 0 {
			break
		}
		if err := f.read(ctx, urls); err != nil {
			return err
		}
		f.settle()
	}
	return f.write()
}

// next are the URLs whose accounts the fold reads next. Without room these are no pages with new
// links, for which it would only wait.
func (f *fold) next() []string {
	pages := 0
	return f.pending.urgent(min(maxReadURLs, maxFoldURLs-len(f.accounts)), func(url string, c Contribution) bool {
		if f.accounts[url] != nil || c == (Contribution{}) {
			return false
		}
		if c.Links {
			pages++
		}
		return !c.Links || f.room > 0 && pages <= maxReadPages
	})
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
	var targets []string
	links := map[string][]page.Link{} // of documents whose links are new
	for _, url := range urls {
		a := &folded{before: accounts[url], after: accounts[url], document: Get(docs, Hash, url) != "", to: accounts[url].to}
		if a.document && f.pending[url].Links {
			found := Get(docs, OutLinks, url)
			if len(targets) > 0 && len(targets)+len(found) > maxReadLinks {
				continue // next time
			}
			links[url] = found
			for _, l := range found {
				targets = append(targets, l.Target)
			}
		}
		f.accounts[url] = a
	}
	if docs.Err() != nil {
		return docs.Err()
	}
	next, err := redirectsFrom(ctx, f.tx, targets)
	for url, found := range links {
		f.accounts[url].to = ends(next, url, found)
	}
	return err
}

// settle adds what is pending to the accounts that were read, until none of it is theirs or there
// is no room.
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
			if !a.settled {
				names := bytesOf(a.before.to) + bytesOf(a.to)
				if names > 0 && f.room <= 0 {
					continue
				}
				f.room -= names
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

// bytesOf is how long names are in JSON, which escapes some characters with six, and with what is
// stored beside each.
func bytesOf(names []string) (n int) {
	const beside = 40
	for _, s := range names {
		n += len(s) + beside
		for _, c := range []byte(s) {
			if c == '&' || c == '<' || c == '>' {
				n += 5
			}
		}
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
