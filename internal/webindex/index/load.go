package index

import (
	"context"
	"errors"
	"fmt"

	"github.com/gopercolator/percolator/percolator"
)

// Page is a crawled page that is to be stored.
type Page struct {
	URL    string
	stored []byte // the encoded capture
	digest string
}

// NewPage encodes a capture.
func NewPage(url string, c *Capture) *Page {
	stored := c.Encode()
	return &Page{URL: url, stored: stored, digest: Fingerprint(stored)}
}

// Bytes is how much the page stores.
func (p *Page) Bytes() int { return len(p.stored) }

// Load brings one crawled page into the store, in a transaction of its own. It reports whether
// anything changed: a page that is stored already, byte for byte, is not written again, so nobody
// processes it again.
func Load(ctx context.Context, client *percolator.Client, url string, c *Capture) (changed bool, err error) {
	page := NewPage(url, c)
	_, err = client.Update(ctx, func(ctx context.Context, tx *percolator.Txn) error {
		written, err := LoadInto(ctx, tx, page)
		changed = err == nil && written[0]
		return err
	})
	return changed, err
}

// LoadInto brings pages into the store as a part of tx, and reports of each whether it changed. One
// read tells for all of them.
func LoadInto(ctx context.Context, tx *percolator.Txn, pages ...*Page) (changed []bool, err error) {
	urls := make([]string, len(pages))
	for i, p := range pages {
		urls[i] = p.URL
	}
	known, err := Values(ctx, tx, Digest, urls)
	if err != nil {
		return nil, err
	}
	changed = make([]bool, len(pages))
	for i, p := range pages {
		if changed[i] = known[i] != p.digest; !changed[i] {
			continue
		}
		if err := Digest.Set(tx, p.URL, p.digest); err != nil {
			return nil, err
		}
		if err := Response.Set(tx, p.URL, p.stored); err != nil { // observed: from here on, the index is the observers' work
			return nil, err
		}
	}
	return changed, nil
}

// Delete takes a page out of the store. The observers take it out of the index, as if it had never
// been crawled. A URL that is not in the store is percolator.ErrNotFound.
func Delete(ctx context.Context, client *percolator.Client, url string) error {
	_, err := client.Update(ctx, func(ctx context.Context, tx *percolator.Txn) error {
		if _, err := Digest.Get(ctx, tx, url); err != nil {
			if errors.Is(err, percolator.ErrNotFound) {
				err = fmt.Errorf("it is not in the store: %w", percolator.ErrNotFound)
			}
			return fmt.Errorf("delete %s: %w", url, err)
		}
		if err := Digest.Delete(tx, url); err != nil {
			return err
		}
		return Response.Delete(tx, url)
	})
	return err
}
