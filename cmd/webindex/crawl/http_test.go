package crawl

import (
	"bytes"
	"compress/flate"
	"compress/zlib"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/google/go-cmp/cmp"
)

// encode returns what a compressor makes of s.
func encode(t *testing.T, s string, compressor func(w io.Writer) io.WriteCloser) string {
	t.Helper()
	var b bytes.Buffer
	w := compressor(&b)
	if _, err := io.WriteString(w, s); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestResponsesAreDecoded(t *testing.T) {
	t.Parallel()
	const text = "<p>The light is shown from sunset to sunrise."
	gz := string(compress(t, []byte(text)))
	zl := encode(t, text, func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) })
	br := encode(t, text, func(w io.Writer) io.WriteCloser { return brotli.NewWriter(w) })
	fl := encode(t, text, func(w io.Writer) io.WriteCloser {
		fw, err := flate.NewWriter(w, flate.DefaultCompression)
		if err != nil {
			t.Fatal(err)
		}
		return fw
	})
	html := http.Header{"Content-Type": {"text/html"}}
	for name, c := range map[string]struct {
		block  string
		status int
		header http.Header
		body   string
	}{
		"plain":             {"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 45\r\n\r\n" + text, 200, html, text},
		"without length":    {"HTTP/1.0 200 OK\r\nContent-Type: text/html\r\n\r\n" + text, 200, html, text},
		"wrong length":      {"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 9\r\n\r\n" + text, 200, html, text},
		"bare line ends":    {"HTTP/1.1 200 OK\nContent-Type: text/html\n\n" + text, 200, html, text},
		"no reason":         {"HTTP/1.1 404\r\nContent-Type: text/html\r\n\r\n", 404, html, ""},
		"HTTP/2":            {"HTTP/2 200 \r\ncontent-type: text/html\r\n\r\n" + text, 200, html, text},
		"folded field":      {"HTTP/1.1 200 OK\r\nContent-Type:\r\n text/html\r\n\r\n" + text, 200, html, text},
		"after 100":         {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n" + text, 200, html, text},
		"redirect":          {"HTTP/1.1 301 Moved\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n", 301, http.Header{"Location": {"/x"}}, ""},
		"chunked":           {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n<p>Th\r\n28;x=y\r\n" + text[5:] + "\r\n0\r\nX: y\r\n\r\n", 200, http.Header{}, text},
		"no longer chunked": {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + text, 200, http.Header{}, text},
		"gzip":              {"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + gz, 200, http.Header{}, text},
		"X-GZIP":            {"HTTP/1.1 200 OK\r\ncontent-encoding: X-GZIP\r\n\r\n" + gz, 200, http.Header{}, text},
		"no longer gzip":    {"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + text, 200, http.Header{}, text},
		"zlib":              {"HTTP/1.1 200 OK\r\nContent-Encoding: deflate\r\n\r\n" + zl, 200, http.Header{}, text},
		"deflate":           {"HTTP/1.1 200 OK\r\nContent-Encoding: deflate\r\n\r\n" + fl, 200, http.Header{}, text},
		"no longer deflate": {"HTTP/1.1 200 OK\r\nContent-Encoding: deflate\r\n\r\n" + text, 200, http.Header{}, text},
		"br":                {"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\n\r\n" + br, 200, http.Header{}, text},
		"identity":          {"HTTP/1.1 200 OK\r\nContent-Encoding: identity\r\n\r\n" + text, 200, http.Header{}, text},
		"two encodings": {"HTTP/1.1 200 OK\r\nContent-Encoding: br, gzip\r\n\r\n" + string(compress(t, []byte(br))),
			200, http.Header{}, text},
		"encoded nothing": {"HTTP/1.1 304 Not Modified\r\nContent-Encoding: br\r\n\r\n", 304, http.Header{}, ""},
		"chunked gzip": {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Encoding: gzip\r\n\r\n" +
			encodeChunks(gz) + "0\r\n\r\n", 200, http.Header{}, text},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			responses, errs := readBlock(t, c.block)
			if len(errs) > 0 || len(responses) != 1 {
				t.Fatalf("%d responses, errors %v", len(responses), errs)
			}
			want := &Response{URL: "http://example.com/", Status: c.status, Header: c.header, Body: []byte(c.body), Source: "test.warc"}
			if diff := cmp.Diff(want, responses[0]); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func encodeChunks(s string) string {
	var b strings.Builder
	for len(s) > 0 {
		n := min(len(s), 15)
		b.WriteString(string("0123456789abcdef"[n]) + "\r\n" + s[:n] + "\r\n")
		s = s[n:]
	}
	return b.String()
}

// readBlock reads a file of one response record with the given block and another record behind it.
func readBlock(t *testing.T, block string) ([]*Response, []error) {
	t.Helper()
	var file bytes.Buffer
	w := NewWriter(&file)
	for _, rec := range []Record{
		{Type: "response", URL: "http://example.com/", Time: testTime, ContentType: "application/http", Block: []byte(block)},
		{Type: "resource", URL: "http://example.com/next", Time: testTime, ContentType: "text/html", Block: []byte("x")},
	} {
		if err := w.Write(rec); err != nil {
			t.Fatal(err)
		}
	}
	responses, errs := readBytes(t, file.Bytes())
	if len(responses) == 0 || responses[len(responses)-1].URL != "http://example.com/next" {
		t.Error("the next record was not read")
		return responses, errs
	}
	return responses[:len(responses)-1], errs
}

func TestUnreadableResponses(t *testing.T) {
	t.Parallel()
	gz := string(compress(t, []byte("some text to compress")))
	for name, c := range map[string]struct{ block, cause string }{
		"empty":               {"", "cut off"},
		"no HTTP":             {"<html>\n\n", "malformed HTTP status line"},
		"no status":           {"HTTP/1.1 OK\r\n\r\n", "malformed HTTP status line"},
		"long status":         {"HTTP/1.1 2000 OK\r\n\r\n", "malformed HTTP status line"},
		"no end of header":    {"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n", "the HTTP header is cut off"},
		"no colon":            {"HTTP/1.1 200 OK\r\nContent-Type text/html\r\n\r\n", "HTTP header: malformed line"},
		"long header":         {"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", MaxHTTPHeader) + "\r\n\r\n", "longer than"},
		"only 100":            {"HTTP/1.1 100 Continue\r\n\r\n", "cut off"},
		"cut chunks":          {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nx", "chunked body: unexpected EOF"},
		"damaged chunks":      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nxyz\r\n0\r\n\r\n", "chunked body: "},
		"cut gzip":            {"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + gz[:20], "gzip body: unexpected EOF"},
		"cut gzip header":     {"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + gz[:5], "gzip body: unexpected EOF"},
		"damaged deflate":     {"HTTP/1.1 200 OK\r\nContent-Encoding: deflate\r\n\r\n\xff\xff\xff", "deflate body: "},
		"damaged br":          {"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\n\r\n\xff\xff\xff", "br body: "},
		"unknown encoding":    {"HTTP/1.1 200 OK\r\nContent-Encoding: zstd\r\n\r\nx", "unsupported content encoding"},
		"unprintable garbage": {"HTTP/1.1 200 OK\r\n\x00\x01: \r\n\r\n", "HTTP header: malformed line"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			responses, errs := readBlock(t, c.block)
			var ie *InputError
			if len(responses) > 0 || len(errs) != 1 || !errors.As(errs[0], &ie) || ie.Offset != 0 {
				t.Fatalf("%d responses, errors %v", len(responses), errs)
			}
			if !strings.Contains(errs[0].Error(), c.cause) || !strings.Contains(errs[0].Error(), "http://example.com/") {
				t.Errorf("got %v, want something about %q", errs[0], c.cause)
			}
		})
	}
}

func TestSegmentsAreRefused(t *testing.T) {
	t.Parallel()
	file := []byte("WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: http://example.com/\r\nWARC-Segment-Number: 1\r\n" +
		"Content-Length: 19\r\n\r\nHTTP/1.1 200 OK\r\n\r\n\r\n\r\n")
	responses, errs := readBytes(t, file)
	if len(responses) > 0 || len(errs) != 1 || !strings.Contains(errs[0].Error(), "segment") {
		t.Errorf("%d responses, errors %v", len(responses), errs)
	}
}
