package crawl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strings"
)

// warcReader reads the responses of a WARC file.
type warcReader struct {
	*source
	gzipFile bool // the file starts with a gzip member
	found    bool // there was a record
	rewinds  int
}

func (in *Input) warcResponses(ctx context.Context) iter.Seq2[*Response, error] {
	return func(yield func(*Response, error) bool) {
		if in.total == 0 {
			yield(nil, &InputError{Path: in.name, Err: ErrEmpty})
			return
		}
		r := &warcReader{source: newSource(ctx, in)}
		var resp *Response
		err := r.openFile()
		for r.report(resp, err, yield) {
			resp, err = r.next()
		}
		if ctx.Err() == nil && r.failure == nil {
			in.advance(in.total)
		}
	}
}

func (r *warcReader) openFile() error {
	err := r.open(0)
	r.gzipFile = r.compressed
	if err != nil {
		return r.damaged(place{}, err)
	}
	return nil
}

// report yields what next has returned. It is false when the file has ended, or the caller has
// enough.
func (r *warcReader) report(resp *Response, err error, yield func(*Response, error) bool) bool {
	var d *damage
	switch {
	case errors.Is(err, io.EOF):
		return false
	case r.failure != nil:
		yield(nil, r.failed())
		return false
	case errors.As(err, &d):
		return r.reportAndResume(d, yield)
	case resp == nil && err == nil: // a record that is passed over
		return true
	}
	return yield(resp, err)
}

// failed is the error of a file that can no longer be read, or of the context.
func (r *warcReader) failed() error {
	if r.ctx.Err() != nil {
		return r.ctx.Err()
	}
	return &InputError{Path: r.in.name, Offset: r.here().offset(), Err: withoutPath(r.failure)}
}

// reportAndResume yields d and goes to the next record that can be read. It is false when there is
// none.
func (r *warcReader) reportAndResume(d *damage, yield func(*Response, error) bool) bool {
	resumed := r.resume(d.from)
	at, now := d.at.offset(), r.here().offset()
	report := &InputError{Path: r.in.name, Offset: at, Err: d.err}
	switch {
	case r.failure != nil:
		if yield(nil, report) {
			yield(nil, r.failed())
		}
		return false
	case resumed && now > at:
		report.Err = fmt.Errorf("%w (reading goes on at byte %d)", d.err, now)
	case resumed:
		report.Err = fmt.Errorf("%w (reading goes on in the same gzip member)", d.err)
	case !r.found:
		report.Offset, report.Err = 0, fmt.Errorf("%w (%w)", ErrNotWARC, d.err)
	default:
		report.Err = fmt.Errorf("%w (nothing behind it can be read)", d.err)
	}
	return yield(nil, report) && resumed
}

// next reads the next record. It returns nil for a record that is passed over, and io.EOF at the
// end of the file.
func (r *warcReader) next() (*Response, error) {
	if r.failure = r.ctx.Err(); r.failure != nil {
		return nil, r.failure
	}
	if err := r.seekRecord(); err != nil {
		return nil, err
	}
	r.found = true
	rec, err := r.readHeader()
	if err != nil {
		return nil, err
	}
	kind, target := strings.ToLower(rec.header.Get("WARC-Type")), rec.target()
	limit := int64(0)
	if (kind == "response" || kind == "resource") && (isWeb(target) || target == "") {
		limit = maxBlock
		if rec.length > maxBlock {
			limit = MaxHTTPHeader // to see what it is
		}
	}
	if err := r.readBlock(rec, limit); errors.Is(err, ErrDigest) {
		return nil, &InputError{Path: r.in.name, Offset: rec.begin.offset(), Err: fmt.Errorf("record of %s: %w", target, err)}
	} else if err != nil {
		return nil, err
	}
	if limit == 0 {
		return nil, nil
	}
	if target == "" {
		return nil, &InputError{Path: r.in.name, Offset: rec.begin.offset(), Err: errors.New("record without WARC-Target-URI")}
	}
	resp := &Response{URL: target, Source: r.in.name, Offset: rec.begin.offset()}
	if kind == "resource" {
		return resp.resource(rec)
	}
	return resp.response(rec)
}

// resource makes resp of a resource record, whose block is the body.
func (resp *Response) resource(rec *record) (*Response, error) {
	resp.Status, resp.Header, resp.Body = http.StatusOK, http.Header{}, rec.block
	if contentType := rec.header.Get("Content-Type"); contentType != "" {
		resp.Header.Set("Content-Type", contentType)
	}
	if rec.length > MaxPage {
		return nil, resp.skipped(rec.length)
	}
	return resp, nil
}

// response makes resp of a response record, whose block is an HTTP response.
func (resp *Response) response(rec *record) (*Response, error) {
	damaged := func(err error) error {
		return &InputError{Path: resp.Source, Offset: resp.Offset, Err: fmt.Errorf("response of %s: %w", resp.URL, err)}
	}
	status, header, body, err := parseHTTP(rec.block)
	if left := rec.length - int64(len(rec.block)); left > 0 { // not all of the block was kept
		resp.Status, resp.Header = status, header
		return nil, resp.skipped(int64(len(body)) + left)
	}
	if err == nil && rec.header.Get("WARC-Segment-Number") != "" {
		err = errors.New("the record is only a segment of the response, which is not supported")
	}
	if err != nil {
		return nil, damaged(err)
	}
	resp.Status, resp.Header = status, header
	if resp.Body, err = decodeBody(header, body); errors.Is(err, errTooLarge) {
		return nil, resp.skipped(MaxPage + 1)
	} else if err != nil {
		return nil, damaged(err)
	}
	if len(resp.Body) > MaxPage {
		return nil, resp.skipped(int64(len(resp.Body)))
	}
	return resp, nil
}

func (resp *Response) skipped(size int64) error {
	return &SkippedError{
		URL: resp.URL, Status: resp.Status, ContentType: resp.Header.Get("Content-Type"),
		Size: size, Source: resp.Source, Offset: resp.Offset,
	}
}

// target is the URL of the record; some writers put it in angle brackets.
func (rec *record) target() string {
	uri := strings.TrimSpace(rec.header.Get("WARC-Target-URI"))
	if strings.HasPrefix(uri, "<") && strings.HasSuffix(uri, ">") {
		uri = uri[1 : len(uri)-1]
	}
	return uri
}

// isWeb reports whether uri is an http or https URL; archives have others, such as dns: and
// metadata: URLs.
func isWeb(uri string) bool {
	scheme, rest, ok := strings.Cut(uri, "://")
	return ok && rest != "" && (strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https"))
}
