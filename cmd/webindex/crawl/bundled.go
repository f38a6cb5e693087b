package crawl

import (
	"bytes"
	_ "embed"
)

// BundledName is the Source of the bundled crawl's responses.
const BundledName = "bundled crawl"

//go:embed bundled.warc.gz
var bundled []byte

// OpenBundled returns the crawl that comes with webindex, as an input named BundledName that needs
// no closing. It is a small web of three hosts, and a mirror, about the lighthouses, harbours and
// bakeries of an invented coast, all of it written for this program. It has what makes the real web
// hard: copies of pages, chains and circles of redirects, links of every form, several charsets,
// compressed and chunked responses, malformed pages, files that are no pages, and errors.
//
// The crawl is a WARC file with a gzip member per record. The tests hold its sources, compare it
// with them, and write it anew with -update.
func OpenBundled() *Input {
	return NewInput(BundledName, bytes.NewReader(bundled), int64(len(bundled)))
}
