package load

import (
	"context"
	"crypto/sha256"
	"fmt"

	"github.com/gopercolator/percolator/cmd/webindex/internal/crawl"
	"github.com/gopercolator/percolator/cmd/webindex/internal/index"
	"github.com/gopercolator/percolator/cmd/webindex/internal/page"
)

// urlKey stands for a URL: 16 bytes, so that the survey of ten million pages fits in memory.
type urlKey [16]byte

func keyOf(url string) urlKey {
	sum := sha256.Sum256([]byte(url))
	return urlKey(sum[:16])
}

// survey reads an input once and says, for each URL, which of its responses is the last: the n-th in the input, counting
// from 1. A crawl may hold a URL several times, and only its last response counts. Loading each of them in turn would end
// with the same page, but it would make the observers work, also when the same crawl is loaded again.
//
// What is wrong with the input is not reported: whoever reads it next meets it again.
func survey(ctx context.Context, src Source) (map[urlKey]int, error) {
	latest := map[urlKey]int{}
	in, err := src.open()
	if err != nil {
		return latest, nil
	}
	defer in.Close() //nolint:errcheck // it was only read
	n := 0
	for r, err := range in.Responses(ctx) {
		if err != nil {
			continue
		}
		if url, err := identity(r); err == nil {
			n++
			latest[keyOf(url)] = n
		}
	}
	return latest, ctx.Err()
}

// identity is the URL under which a response is stored; page.ErrURL if there is none.
func identity(r *crawl.Response) (string, error) {
	url, err := page.Identity(r.URL)
	if err == nil && len(url) > index.MaxURL {
		err = fmt.Errorf("%w: %d bytes are more than %d", page.ErrURL, len(url), index.MaxURL)
	}
	if err != nil {
		return "", fmt.Errorf("%s: at byte %d: skipped %.100q: %w", r.Source, r.Offset, r.URL, err)
	}
	return url, nil
}
