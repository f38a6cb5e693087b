package crawl_test

import (
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/gopercolator/percolator/cmd/webindex/crawl"
)

// The hosts. The mirror holds copies of some of the lights' pages.
const (
	lightsHost   = "lights.example"
	harboursHost = "harbours.example"
	galleyHost   = "galley.example"
	mirrorHost   = "mirror.example"
)

// recorded is when the first response was recorded; the others follow at intervals of a second.
var recorded = time.Date(2025, time.March, 1, 6, 0, 0, 0, time.UTC)

// site is what a crawler would have recorded of three small hosts, the register of lights, the
// harbour book and the galley, about an invented coast: everything that was retrieved, in the order
// of retrieval. No two responses have the same URL.
type site struct {
	book      *book
	responses []*crawl.Response
	encodings map[string]string // of the bodies of some responses, by URL: how they went over the wire
}

func newSite() (*site, error) {
	b, err := newBook()
	if err != nil {
		return nil, err
	}
	s := &site{book: b, encodings: make(map[string]string)}
	s.addRegister()
	s.addHarbourBook()
	s.addGalley()
	if err := s.addOddPages(); err != nil {
		return nil, err
	}
	if err := s.addCopies(); err != nil {
		return nil, err
	}
	s.addRedirects()
	s.addOtherTypes()
	if err := s.book.unresolved(); err != nil {
		return nil, err
	}
	return s, nil
}

// Responses returns the responses as a reader of the WARC file sees them, apart from Source and
// Offset.
func (s *site) Responses() []*crawl.Response { return s.responses }

// Write writes the crawl as a WARC file with a gzip member per record.
func (s *site) Write(w io.Writer) error {
	out := crawl.NewWriter(w)
	if err := out.Write(crawl.Record{
		Type: "warcinfo", Time: recorded, ContentType: "application/warc-fields",
		Block: []byte("software: generate\r\nformat: WARC File Format 1.0\r\ndescription: an invented coast\r\n"),
	}); err != nil {
		return err
	}
	for i, resp := range s.responses {
		at := recorded.Add(time.Duration(i) * time.Second)
		block, err := onTheWire(resp, s.encodings[resp.URL])
		if err != nil {
			return fmt.Errorf("%s: %w", resp.URL, err)
		}
		if err := out.Write(crawl.Record{
			Type: "response", URL: resp.URL, Time: at, ContentType: "application/http; msgtype=response", Block: block,
		}); err != nil {
			return err
		}
	}
	return nil
}

// add adds a response with status 200; charset is "" for one that is stated nowhere or in the body.
func (s *site) add(url, charset string, body []byte) {
	contentType := "text/html"
	if charset != "" {
		contentType += "; charset=" + charset
	}
	s.addResponse(url, http.StatusOK, http.Header{"Content-Type": {contentType}}, body)
}

func (s *site) addResponse(url string, status int, header http.Header, body []byte) {
	header.Set("Server", "tidewater/1.4")
	s.responses = append(s.responses, &crawl.Response{URL: url, Status: status, Header: header, Body: body})
}

// addHTML adds a page in UTF-8.
func (s *site) addHTML(url, body string) { s.add(url, "utf-8", []byte(body)) }

// find returns the response of url, nil if there is none.
func (s *site) find(url string) *crawl.Response {
	for _, resp := range s.responses {
		if resp.URL == url {
			return resp
		}
	}
	return nil
}
