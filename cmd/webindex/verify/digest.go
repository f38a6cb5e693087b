package verify

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gopercolator/percolator/cmd/webindex/index"
)

// digestSum is the digest of a set that does not depend on the order of its elements. It lets a
// scan in the order of terms be compared, document by document, without keeping the terms.
type digestSum struct{ a, b, n uint64 }

func (s *digestSum) add(term string, frequency int64) {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s", frequency, term))
	s.a += binary.BigEndian.Uint64(sum[:8])
	s.b += binary.BigEndian.Uint64(sum[8:16])
	s.n++
}

func digestOfTerms(terms map[string]int) (s digestSum) {
	for term, n := range terms {
		s.add(term, int64(n))
	}
	return s
}

// digestOf identifies a content.
func digestOf(c index.Content) [32]byte {
	b, err := json.Marshal(c)
	if err != nil {
		panic(err) // strings always marshal
	}
	return sha256.Sum256(b)
}

// compareContent reports which parts of two contents differ.
func (c *check) compareContent(what, url string, want, got index.Content) {
	c.compare("title in "+what, url, want.Title, got.Title)
	c.compare("text in "+what, url, want.Excerpt, got.Excerpt)
}

// compareTerms reports the first few terms that differ.
func (c *check) compareTerms(what, url string, want, got map[string]int) {
	if !maps.Equal(want, got) {
		c.differ(what, url, onlyIn(want, got), onlyIn(got, want))
	}
}

// onlyIn prints the first few terms of a that b lacks or counts differently.
func onlyIn(a, b map[string]int) string {
	var differ []string
	for term, n := range a {
		if b[term] != n {
			differ = append(differ, fmt.Sprintf("%q×%d", term, n))
		}
	}
	slices.Sort(differ)
	if len(differ) > 5 {
		differ = append(differ[:5], "…")
	}
	return strings.Join(differ, " ")
}
