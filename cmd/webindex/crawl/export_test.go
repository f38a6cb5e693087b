package crawl

import (
	"context"
	"io"
	"iter"
)

// BundledWARC is the file of the bundled crawl.
var BundledWARC = bundled

// Read yields the responses of the WARC file or directory at path, see Input.Responses. A path that
// cannot be opened is one *InputError.
func Read(ctx context.Context, path string) iter.Seq2[*Response, error] {
	return func(yield func(*Response, error) bool) {
		in, err := Open(path)
		if err != nil {
			yield(nil, err)
			return
		}
		defer in.Close() //nolint:errcheck // only read
		in.Responses(ctx)(yield)
	}
}

// ReadFrom yields the responses of the WARC file of size bytes in r, see Input.Responses; name
// stands for its path.
func ReadFrom(ctx context.Context, name string, r io.ReaderAt, size int64) iter.Seq2[*Response, error] {
	return NewInput(name, r, size).Responses(ctx)
}
