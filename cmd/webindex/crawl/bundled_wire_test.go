package crawl_test

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"

	"github.com/gopercolator/percolator/cmd/webindex/crawl"
)

// onTheWire returns resp as the server sent it: with "gzip" or "deflate" encoding, "chunked", or as
// it is.
func onTheWire(resp *crawl.Response, encoding string) ([]byte, error) {
	header, body := resp.Header.Clone(), resp.Body
	var err error
	switch encoding {
	case "":
	case "chunked":
		header.Set("Transfer-Encoding", "chunked")
		body = chunked(body)
	case "gzip":
		header.Set("Content-Encoding", "gzip")
		body, err = compressed(body, func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) })
	case "deflate":
		header.Set("Content-Encoding", "deflate")
		body, err = compressed(body, func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) })
	default:
		err = fmt.Errorf("no such encoding: %s", encoding)
	}
	if err != nil {
		return nil, err
	}
	if encoding != "chunked" {
		header.Set("Content-Length", fmt.Sprint(len(body)))
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\n", resp.Status, http.StatusText(resp.Status))
	for _, name := range slices.Sorted(maps.Keys(header)) {
		fmt.Fprintf(&b, "%s: %s\r\n", name, header.Get(name))
	}
	b.WriteString("\r\n")
	b.Write(body)
	return b.Bytes(), nil
}

func compressed(body []byte, compressor func(io.Writer) io.WriteCloser) ([]byte, error) {
	var b bytes.Buffer
	w := compressor(&b)
	if _, err := w.Write(body); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// chunked returns body in chunks of a thousand bytes.
func chunked(body []byte) []byte {
	var b bytes.Buffer
	for chunk := range slices.Chunk(body, 1000) {
		fmt.Fprintf(&b, "%x\r\n%s\r\n", len(chunk), chunk)
	}
	b.WriteString("0\r\n\r\n")
	return b.Bytes()
}
