package crawl

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/andybalholm/brotli"
)

// errTooLarge means that a body grows beyond MaxPage when it is decoded.
var errTooLarge = errors.New("larger than a page may be")

var statusLine = regexp.MustCompile(`^HTTP/[0-9](?:\.[0-9])?[ \t]+([0-9]{3})(?:[ \t\r].*)?$`)

// parseHTTP divides a recorded response. The body is the rest of the block, whatever Content-Length
// says: the record knows how much was received, and recorders that decode a body keep the length
// that it had before.
func parseHTTP(block []byte) (status int, header http.Header, body []byte, err error) {
	for {
		head, rest, err := cutHead(block)
		if err != nil {
			return 0, nil, nil, err
		}
		first, fields, headErr := parseHead(head)
		m := statusLine.FindStringSubmatch(first)
		if m == nil {
			return 0, nil, nil, errors.New("malformed HTTP status line")
		}
		if status, err = strconv.Atoi(m[1]); err != nil {
			return 0, nil, nil, err
		}
		if status >= 100 && status < 200 && status != http.StatusSwitchingProtocols {
			block = rest // 100 Continue and its like come before the response
			continue
		}
		if headErr != nil {
			return 0, nil, nil, fmt.Errorf("HTTP header: %w", headErr)
		}
		return status, http.Header(fields), rest, nil
	}
}

var emptyLine = regexp.MustCompile(`(?m)^\r*\n`)

// cutHead returns the lines up to and with the first empty one, and what follows.
func cutHead(block []byte) (head, rest []byte, err error) {
	limit := min(len(block), MaxHTTPHeader)
	if line := emptyLine.FindIndex(block[:limit]); line != nil {
		return block[:line[1]], block[line[1]:], nil
	}
	if limit < len(block) {
		return nil, nil, fmt.Errorf("the HTTP header is longer than %d bytes", MaxHTTPHeader)
	}
	return nil, nil, fmt.Errorf("the HTTP header is cut off: %w", io.ErrUnexpectedEOF)
}

// decodeBody undoes the transfer and content encodings that header names, and removes from header
// what describes the body as it was sent. Some recorders keep the header of a body that they have
// decoded: a body that does not even begin like the encoding is taken for one of those.
func decodeBody(header http.Header, body []byte) ([]byte, error) {
	var err error
	if slices.Contains(splitList(header.Values("Transfer-Encoding")), "chunked") {
		if body, err = dechunk(body); err != nil {
			return nil, err
		}
	}
	encodings := splitList(header.Values("Content-Encoding"))
	slices.Reverse(encodings) // the last one was applied last
	for _, encoding := range encodings {
		if len(body) == 0 {
			break
		}
		if body, err = decodeContent(encoding, body); err != nil {
			return nil, err
		}
	}
	header.Del("Transfer-Encoding")
	header.Del("Content-Encoding")
	header.Del("Content-Length")
	return body, nil
}

// splitList returns the elements of a comma-separated header in lower case.
func splitList(values []string) []string {
	var list []string
	for _, element := range strings.Split(strings.Join(values, ","), ",") {
		if element = strings.ToLower(strings.TrimSpace(element)); element != "" {
			list = append(list, element)
		}
	}
	return list
}

var chunkLine = regexp.MustCompile(`^[0-9A-Fa-f]{1,16}[ \t]*(?:;[^\n]{0,1000})?\r?\n`)

func dechunk(body []byte) ([]byte, error) {
	if !chunkLine.Match(body) {
		return body, nil
	}
	decoded, err := io.ReadAll(httputil.NewChunkedReader(bytes.NewReader(body)))
	if err != nil {
		return nil, fmt.Errorf("chunked body: %w", err)
	}
	return decoded, nil
}

func decodeContent(encoding string, body []byte) ([]byte, error) {
	switch encoding {
	case "identity", "none", "utf-8": // the last two are mistakes that servers make
		return body, nil
	case "gzip", "x-gzip":
		if !bytes.HasPrefix(body, gzipMagic) {
			return body, nil
		}
		r, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			return nil, fmt.Errorf("gzip body: %w", err)
		}
		return readBody("gzip", r)
	case "deflate":
		// The name means zlib's format, but some servers send it without zlib's header.
		if r, err := zlib.NewReader(bytes.NewReader(body)); err == nil {
			return readBody(encoding, r)
		}
		decoded, err := readBody(encoding, flate.NewReader(bytes.NewReader(body)))
		if err != nil && bytes.HasPrefix(bytes.TrimSpace(body), []byte("<")) {
			return body, nil
		}
		return decoded, err
	case "br":
		return readBody(encoding, brotli.NewReader(bytes.NewReader(body)))
	}
	return nil, fmt.Errorf("%w %.40q", ErrEncoding, encoding)
}

// readBody reads what r decodes, but no more than MaxPage.
func readBody(encoding string, r io.Reader) ([]byte, error) {
	decoded, err := io.ReadAll(io.LimitReader(r, MaxPage+1))
	if len(decoded) > MaxPage {
		return nil, errTooLarge
	}
	if err != nil {
		return nil, fmt.Errorf("%s body: %w", encoding, err)
	}
	return decoded, nil
}
