// Package bundled holds the crawl that comes with webindex: a small web of three hosts, and a
// mirror, about the lighthouses, harbours and bakeries of an invented coast, all of it written for
// this program. It has what makes the real web hard: copies of pages, chains and circles of
// redirects, links of every form, several charsets, compressed and chunked responses, malformed
// pages, files that are no pages, and errors.
//
// The crawl is kept as a WARC file with a gzip member per record. Its sources are those of the test
// that compares it with them, and that writes it anew with -update.
package bundled

import (
	"bytes"
	_ "embed"

	"github.com/gopercolator/percolator/internal/webindex/crawl"
)

// Name is the Source of the bundled crawl's responses.
const Name = "bundled crawl"

//go:embed crawl.warc.gz
var warc []byte

// WARC returns the WARC file. The caller must not change it.
func WARC() []byte { return warc }

// Open returns the bundled crawl as an input, named Name. It needs no closing.
func Open() *crawl.Input {
	return crawl.NewInput(Name, bytes.NewReader(warc), int64(len(warc)))
}
