package load

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"

	"github.com/gopercolator/percolator/cmd/webindex/crawl"
	"github.com/gopercolator/percolator/cmd/webindex/index"
	"github.com/gopercolator/percolator/cmd/webindex/page"
)

// urlKey stands for a URL: 16 bytes, so that the survey of ten million pages fits in memory.
type urlKey [16]byte

func keyOf(url string) urlKey {
	sum := sha256.Sum256([]byte(url))
	return urlKey(sum[:16])
}

// survey is what is known of an input before it is loaded.
type survey struct {
	// latest says, for each URL, which of its responses is the last: the n-th in the input,
	// counting from 1. A crawl may hold a URL several times, and only its last response counts.
	// Loading each of them in turn would end with the same page, but it would make the observers
	// work, also when the same crawl is loaded again.
	latest  map[urlKey]int
	content hash.Hash
}

// newSurvey reads an input once. What is wrong with the input is not reported: the caller that
// reads it next meets it again.
func newSurvey(ctx context.Context, src Source) (*survey, error) {
	s := &survey{latest: map[urlKey]int{}, content: sha256.New()}
	in, err := src.open()
	if err != nil {
		return s, nil
	}
	defer in.Close() //nolint:errcheck // it was only read
	n := 0
	for r, err := range in.Responses(ctx) {
		if err != nil {
			continue
		}
		if url, err := identity(r); err == nil {
			n++
			s.latest[keyOf(url)] = n
			s.add(url, r)
		}
	}
	return s, ctx.Err()
}

// add takes a response into the identity of the input.
func (s *survey) add(url string, r *crawl.Response) {
	c := index.NewCapture(r).Encode()
	for _, part := range [][]byte{[]byte(url), c} {
		s.content.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part)))) //nolint:errcheck // a hash takes everything
		s.content.Write(part)                                                  //nolint:errcheck
	}
}

// identity is the same for inputs that bring the same pages in the same order: one of them goes on
// where a load of another one was interrupted. Other pages, be it one at the end, make another
// identity: nothing of them is taken for loaded.
func (s *survey) identity() string { return hex.EncodeToString(s.content.Sum(nil)[:16]) }

// identity is the URL under which a response is stored; page.ErrURL if there is none.
func identity(r *crawl.Response) (string, error) {
	url, err := page.Identity(r.URL)
	if err != nil {
		return "", fmt.Errorf("%s: at byte %d: skipped %.100q: %w", r.Source, r.Offset, r.URL, err)
	}
	return url, nil
}
