package index

import (
	"context"
	"errors"
	"fmt"

	"github.com/gopercolator/percolator/percolator"
)

// Page is a crawled page that is to be stored.
type Page struct {
	URL     string
	Changed bool   // what Load has found last
	stored  []byte // the encoded capture
	digest  string
}

// NewPage encodes a capture.
func NewPage(url string, c *Capture) *Page {
	stored := c.Encode()
	return &Page{URL: url, stored: stored, digest: Fingerprint(stored)}
}

// Bytes is how much the page stores.
func (p *Page) Bytes() int { return len(p.stored) }

// Load brings pages into the store as a part of tx, and sets Changed: a page that is stored
// already, byte for byte, is not written again, and so not processed again. One read tells for
// all of them.
func Load(ctx context.Context, tx *percolator.Txn, pages []*Page) error {
	urls := make([]string, len(pages))
	for i, p := range pages {
		urls[i] = p.URL
	}
	known, err := Values(ctx, tx, Digest, urls)
	if err != nil {
		return err
	}
	for i, p := range pages {
		if p.Changed = known[i] != p.digest; !p.Changed {
			continue
		}
		// Response is observed: from here on, the index is the observers' work.
		if err := errors.Join(Digest.Set(tx, p.URL, p.digest), Response.Set(tx, p.URL, p.stored)); err != nil {
			return err
		}
	}
	return nil
}

// Delete takes a page out of the store as a part of tx. The observers take it out of the index, as
// if it had never been crawled. A URL that is not in the store is percolator.ErrNotFound.
func Delete(ctx context.Context, tx *percolator.Txn, url string) error {
	if _, err := Digest.Get(ctx, tx, url); errors.Is(err, percolator.ErrNotFound) {
		return fmt.Errorf("delete %s: it is not in the store: %w", url, percolator.ErrNotFound)
	} else if err != nil {
		return fmt.Errorf("delete %s: %w", url, err)
	}
	return errors.Join(Digest.Delete(tx, url), Response.Delete(tx, url))
}
