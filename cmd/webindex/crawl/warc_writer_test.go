package crawl

import (
	"bytes"
	"compress/gzip"
	"crypto/sha1" //nolint:gosec // the digest that WARC files usually have
	"encoding/base32"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"
)

// Writer writes a WARC file (version 1.0). The same records make the same bytes: record ids are
// derived from them. A Writer must not be used concurrently.
type Writer struct {
	w     io.Writer
	plain bool
}

// NewWriter returns a Writer that makes every record a gzip member of its own, as is usual.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// NewPlainWriter returns a Writer that does not compress.
func NewPlainWriter(w io.Writer) *Writer { return &Writer{w: w, plain: true} }

// Record is a WARC record to be written.
type Record struct {
	// Type is warcinfo, request, response, resource, metadata or revisit.
	Type string
	// URL is the record's target; "" for warcinfo.
	URL string
	// Time is when it was recorded, written in whole seconds.
	Time time.Time
	// ContentType is that of Block: application/http; msgtype=response for a response.
	ContentType string
	// Block is what was recorded; for a response with its status line and header.
	Block []byte
}

// recordIDs is the name space of the record ids.
var recordIDs = uuid.NewSHA1(uuid.NameSpaceURL, []byte("urn:webindex:warc-record"))

// Write writes one record.
func (w *Writer) Write(rec Record) error {
	digest := sha1.Sum(rec.Block) //nolint:gosec // see the import
	when := rec.Time.UTC().Format("2006-01-02T15:04:05Z")
	id := uuid.NewSHA1(recordIDs, fmt.Appendf(nil, "%s %s %s %x", rec.Type, rec.URL, when, digest))

	var b bytes.Buffer
	field := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%s: %s\r\n", name, value)
		}
	}
	b.WriteString("WARC/1.0\r\n")
	field("WARC-Type", rec.Type)
	field("WARC-Target-URI", rec.URL)
	field("WARC-Date", when)
	field("WARC-Record-ID", "<"+id.URN()+">")
	field("WARC-Block-Digest", "sha1:"+base32.StdEncoding.EncodeToString(digest[:]))
	field("Content-Type", rec.ContentType)
	field("Content-Length", fmt.Sprint(len(rec.Block)))
	b.WriteString("\r\n")
	b.Write(rec.Block)
	b.WriteString("\r\n\r\n")
	return w.writeMember(b.Bytes())
}

// WriteResponse writes resp, whose body has no encodings, as it was received at the given time.
// Source and Offset play no part.
func (w *Writer) WriteResponse(resp *Response, at time.Time) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\n", resp.Status, http.StatusText(resp.Status))
	for _, name := range slices.Sorted(maps.Keys(resp.Header)) {
		for _, value := range resp.Header[name] {
			fmt.Fprintf(&b, "%s: %s\r\n", name, value)
		}
	}
	fmt.Fprintf(&b, "Content-Length: %d\r\n\r\n", len(resp.Body))
	b.Write(resp.Body)
	return w.Write(Record{
		Type: "response", URL: resp.URL, Time: at, ContentType: "application/http; msgtype=response", Block: b.Bytes(),
	})
}

func (w *Writer) writeMember(record []byte) error {
	if w.plain {
		_, err := w.w.Write(record)
		return err
	}
	gz, err := gzip.NewWriterLevel(w.w, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := gz.Write(record); err != nil {
		return err
	}
	return gz.Close()
}
