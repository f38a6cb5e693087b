package crawl

import (
	"errors"
	"fmt"
	"io/fs"
)

// Causes of an InputError that callers may want to tell apart with errors.Is. Truncation is
// io.ErrUnexpectedEOF, and files that are absent or forbidden are fs.ErrNotExist and
// fs.ErrPermission.
var (
	// ErrNotWARC is the cause when no WARC record was found in a file.
	ErrNotWARC = errors.New("not a WARC file: no record found in it")
	// ErrEmpty is the cause when a file has no bytes.
	ErrEmpty = errors.New("the file is empty")
	// ErrNotRegular is the cause when a path is neither a file nor a directory.
	ErrNotRegular = errors.New("neither a regular file nor a directory")
	// ErrNoHTML is the cause when a directory has no HTML file.
	ErrNoHTML = errors.New("no .html or .htm file in the directory")
	// ErrDigest is the cause when a record's block does not have the digest that the record states.
	ErrDigest = errors.New("the block does not match the record's digest")
	// ErrEncoding is the cause when a body has a content encoding other than gzip, deflate and br.
	ErrEncoding = errors.New("unsupported content encoding")
)

// InputError is a part of an input that could not be read.
type InputError struct {
	// Path is the file.
	Path string
	// Offset is where in the file the unreadable record or gzip member starts, in bytes.
	Offset int64
	// Err is the cause.
	Err error
}

// Error names the file, the offset in it and the cause.
func (e *InputError) Error() string {
	return fmt.Sprintf("%s: at byte %d: %v", e.Path, e.Offset, e.Err)
}

// Unwrap returns the cause.
func (e *InputError) Unwrap() error { return e.Err }

// SkippedError is a response that was left out because its body is larger than MaxPage.
type SkippedError struct {
	// URL is the response's.
	URL string
	// Status and ContentType are those of the response, 0 and "" if its head cannot be read.
	Status      int
	ContentType string
	// Size is the recorded size of the body in bytes; for a compressed body that exceeds MaxPage
	// only when decoded, it is MaxPage+1.
	Size int64
	// Source and Offset are those of the Response that would have been yielded.
	Source string
	Offset int64
}

// Error names the page, its size and its place.
func (e *SkippedError) Error() string {
	if e.Size == MaxPage+1 {
		return fmt.Sprintf("%s: at byte %d: skipped %s: more than %d bytes", e.Source, e.Offset, e.URL, MaxPage)
	}
	return fmt.Sprintf("%s: at byte %d: skipped %s: %d bytes, more than %d", e.Source, e.Offset, e.URL, e.Size, MaxPage)
}

// withoutPath drops the path from err, because InputError names it already.
func withoutPath(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}
