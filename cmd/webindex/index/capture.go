package index

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/gopercolator/percolator/cmd/webindex/crawl"
	"github.com/gopercolator/percolator/cmd/webindex/page"
)

// keptHeaders decide what a response means; the others (dates, cookies, …) change with every
// crawl and are left out.
var keptHeaders = []string{"Content-Type", "Location"}

// Capture is what the store keeps of a crawled response.
type Capture struct {
	Status int         `json:"status"`
	Header http.Header `json:"header,omitempty"` // only Content-Type and Location
	// Only of documents, not of pictures, errors or redirects.
	Body []byte `json:"-"`
}

// NewCapture keeps the parts of a response that matter to the index.
func NewCapture(r *crawl.Response) *Capture {
	c := &Capture{Status: r.Status, Header: http.Header{}}
	for _, name := range keptHeaders {
		if v := r.Header.Get(name); v != "" {
			c.Header.Set(name, v)
		}
	}
	if c.IsDocument() {
		c.Body = r.Body
	}
	return c
}

// IsDocument reports whether the capture is a document, that is, something that can be found.
func (c *Capture) IsDocument() bool { return page.IsDocument(c.Status, c.Header) }

// Encode returns the stored form: one line of JSON, then the body. Equal captures have equal
// encodings.
func (c *Capture) Encode() []byte {
	head, err := json.Marshal(c)
	if err != nil {
		panic(err) // a number and strings always marshal
	}
	return append(append(head, '\n'), c.Body...)
}

var errCapture = errors.New("the stored response has no readable first line")

// DecodeCapture is the inverse of [Capture.Encode].
func DecodeCapture(stored []byte) (*Capture, error) {
	line, body, ok := bytes.Cut(stored, []byte{'\n'})
	c := &Capture{Body: body}
	if !ok || json.Unmarshal(line, c) != nil {
		return nil, errCapture
	}
	return c, nil
}

// Fingerprint identifies an encoded capture; it is what [Digest] holds.
func Fingerprint(stored []byte) string {
	sum := sha256.Sum256(stored)
	return hex.EncodeToString(sum[:16])
}
