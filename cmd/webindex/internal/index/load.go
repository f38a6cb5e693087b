package index

import (
	"context"
	"errors"
	"fmt"

	"github.com/gopercolator/percolator/percolator"
)

// Load brings one crawled page into the store, in a transaction of its own. It reports whether anything changed: a page
// that is stored already, byte for byte, is not written again, so nobody processes it again.
func Load(ctx context.Context, client *percolator.Client, url string, c *Capture) (changed bool, err error) {
	stored := c.Encode()
	digest := Fingerprint(stored)
	_, err = client.Update(ctx, func(ctx context.Context, tx *percolator.Txn) error {
		known, err := Digest.GetOr(ctx, tx, url, "")
		if err != nil {
			return err
		}
		if changed = known != digest; !changed {
			return nil
		}
		if err := Digest.Set(tx, url, digest); err != nil {
			return err
		}
		return Response.Set(tx, url, stored) // observed: from here on, the index is the observers' work
	})
	return changed, err
}

// Delete takes a page out of the store. The observers take it out of the index, as if it had never been crawled. A URL
// that is not in the store is percolator.ErrNotFound.
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
