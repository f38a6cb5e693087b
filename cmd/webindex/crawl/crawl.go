// Package crawl reads crawls: WARC files (a gzip member per record, one gzip stream around
// everything, or plain) and directories of HTML files. One crawl is part of it, see OpenBundled.
//
// Archives of the real web are often damaged, so reading never stops at the first bad byte. What
// cannot be read is yielded as an *InputError that names the file and the offset in it, and reading
// goes on at the next record or gzip member that can be read. The package keeps at most one record
// in memory.
package crawl

import (
	"context"
	"io"
	"iter"
	"net/http"
	"os"
	"sync/atomic"
)

// Limits of what is read from an input. Whatever exceeds them is reported, not cut short.
const (
	// MaxPage is the largest body of a page in bytes (10 MB), measured after transfer and content
	// decoding.
	MaxPage = 10 << 20
	// MaxRecordHeader is the largest header of a WARC record in bytes, all lines together.
	MaxRecordHeader = 64 << 10
	// MaxHTTPHeader is the largest head of a recorded HTTP response in bytes, status line included.
	MaxHTTPHeader = 256 << 10
	// MaxFiles is the largest number of HTML files in a directory.
	MaxFiles = 1_000_000
)

// DirectoryBase is the URL that stands for the top of a directory of HTML files: the file a/b.html
// in it becomes http://localhost/a/b.html.
const DirectoryBase = "http://localhost/"

// Response is one recorded HTTP response. The caller may keep and change it.
type Response struct {
	// URL is the absolute http or https URL as recorded.
	URL string
	// Status is the HTTP status; 200 for resource records and for files.
	Status int
	// Header is the HTTP header. Content-Encoding, Transfer-Encoding and Content-Length are
	// removed, because they describe the body as it was sent and not Body.
	Header http.Header
	// Body is decoded of transfer and content encodings, but not of its charset. At most MaxPage
	// bytes.
	Body []byte
	// Source is the path of the file, or the name given to NewInput.
	Source string
	// Offset is where the record starts in Source, in bytes. In a file with several records in a
	// gzip member it is the start of the member. 0 for the files of a directory.
	Offset int64
}

// Input is a crawl opened for reading.
type Input struct {
	name  string
	file  io.ReaderAt
	close io.Closer
	total int64
	files []htmlFile // of a directory; file is nil then
	bad   []error    // found while listing a directory

	offset atomic.Int64
}

// Open opens the WARC file or the directory of HTML files at path. Its error is an *InputError.
func Open(path string) (*Input, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, &InputError{Path: path, Err: withoutPath(err)}
	}
	if info.IsDir() {
		return openDirectory(path)
	}
	if !info.Mode().IsRegular() {
		return nil, &InputError{Path: path, Err: ErrNotRegular}
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, &InputError{Path: path, Err: withoutPath(err)}
	}
	return &Input{name: path, file: f, close: f, total: info.Size()}, nil
}

// NewInput is the WARC file of size bytes in r; name stands for its path in responses and errors.
func NewInput(name string, r io.ReaderAt, size int64) *Input {
	return &Input{name: name, file: r, total: size}
}

// Name returns the path or name that the input was opened with.
func (in *Input) Name() string { return in.name }

// Total returns the size of the input in bytes: of the WARC file, or of all HTML files of the
// directory together.
func (in *Input) Total() int64 { return in.total }

// Offset returns how many of the Total bytes have been read. It never decreases, reaches Total when
// Responses has ended by itself, and may be called at any time from any goroutine.
func (in *Input) Offset() int64 { return in.offset.Load() }

// Close closes the file behind the input.
func (in *Input) Close() error {
	if in.close == nil {
		return nil
	}
	return in.close.Close()
}

// Responses yields every recorded response in the order of the input (files of a directory: in
// lexical order of their paths), whatever its status and type. What could not be read is yielded as
// an error in its place, with a nil Response: an *InputError for damage, a *SkippedError for a body
// over MaxPage. Reading goes on after both. When ctx ends, its error is yielded and the sequence
// ends. Only one sequence of an Input may be used at a time.
//
// In a WARC file these records count: response records of http and https URLs, and resource records
// of such URLs (status 200, the record's Content-Type). All other records (warcinfo, request,
// metadata, revisit, …) are passed over.
func (in *Input) Responses(ctx context.Context) iter.Seq2[*Response, error] {
	if in.file == nil {
		return in.directoryResponses(ctx)
	}
	return in.warcResponses(ctx)
}

// advance reports progress.
func (in *Input) advance(to int64) {
	if to > in.total {
		to = in.total
	}
	if to > in.offset.Load() {
		in.offset.Store(to)
	}
}
