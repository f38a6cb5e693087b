// Package search is the search page: it reads the serving tables and the ranks of documents, and
// shows them to people. It needs no script in the browser, and writes nothing unless AllowChanges
// is called.
//
// Results are in the order of a score: for each term of the query 1 and the logarithm of how often
// the document has it, and the logarithm of how many times the least rank the document's rank is.
// The best of them are ordered again with 2 more for each term in the document's title. Ranks are
// those of the snapshot that answers the query, so a rank that has just changed changes the order
// at once, and nothing has to be exported for it.
package search

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"html/template"
	"log/slog"
	"net/http"
	"time"

	"github.com/gopercolator/percolator/percolator"
)

// requestTimeout is how long one request may take.
const requestTimeout = 10 * time.Second

// maxViews is how many snapshots are read at once; further requests wait.
const maxViews = 16

// errBusy ends a request that has waited in vain.
var errBusy = errors.New("too many requests are being answered")

// policy forbids scripts, and all that comes from elsewhere.
const policy = "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

//go:embed templates
var files embed.FS

var pages = template.Must(template.New("").Funcs(template.FuncMap{
	"original": original,
	"second":   func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") },
	"clock":    func(t time.Time) string { return t.UTC().Format("15:04:05.000 UTC") },
	"date":     func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000 UTC") },
}).ParseFS(files, "templates/*.html"))

// Server answers requests. It is an http.Handler and may be used concurrently.
type Server struct {
	client *percolator.Client
	log    *slog.Logger
	mux    *http.ServeMux
	views  chan struct{} // a slot for each snapshot that is read

	overviews overviews
	changes   *changes // nil: none are allowed
}

// NewServer returns a search page for the index that client reads.
func NewServer(client *percolator.Client, log *slog.Logger) *Server {
	s := &Server{client: client, log: log, mux: http.NewServeMux(), views: make(chan struct{}, maxViews)}
	s.mux.HandleFunc("GET /{$}", s.results)
	s.mux.HandleFunc("GET /document", s.document)
	s.mux.HandleFunc("GET /stored", s.stored)
	s.mux.HandleFunc("GET /raw", s.raw)
	s.mux.HandleFunc("GET /style.css", s.style)
	s.mux.HandleFunc("GET /", s.notFound)
	return s
}

// ServeHTTP answers one request, in at most 10 seconds.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
	defer cancel()
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer") // the pages found need not know what was searched for
	s.mux.ServeHTTP(w, r.WithContext(ctx))
}

// view reads a snapshot. The slot is free again before the answer is sent: who reads that slowly
// keeps no one else waiting.
func (s *Server) view(ctx context.Context, read func(ctx context.Context, snap *percolator.Snapshot) error, opts ...percolator.ReadOption) error {
	select {
	case s.views <- struct{}{}:
		defer func() { <-s.views }()
		return s.client.View(ctx, read, opts...)
	case <-ctx.Done():
		return errBusy
	}
}

// show renders a page completely before anything is sent, so that an error is never half a page.
func (s *Server) show(w http.ResponseWriter, status int, name string, data any) {
	var buf bytes.Buffer
	if err := pages.ExecuteTemplate(&buf, name, data); err != nil {
		s.log.Error("rendering failed", "page", name, "reason", err)
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	w.Write(buf.Bytes()) //nolint:errcheck // the reader has gone
}

type message struct {
	Query          string
	Title, Text    string
	Link, LinkText string // where to go on; "": nowhere
}

func (s *Server) say(w http.ResponseWriter, status int, title, text string) {
	s.show(w, status, "message.html", message{Title: title, Text: text})
}

// fail shows that a request could not be answered. What exactly went wrong is for the log.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil && !errors.Is(r.Context().Err(), context.DeadlineExceeded) {
		return // the reader has gone
	}
	if errors.Is(err, errBusy) {
		w.Header().Set("Retry-After", "10")
		s.say(w, http.StatusServiceUnavailable, "Too many searches", "Others are being answered first. Try again in a moment.")
		return
	}
	s.log.Error("request failed", "path", r.URL.Path, "reason", err)
	s.say(w, http.StatusServiceUnavailable, "The index does not answer", "Reading the index failed. Try again in a moment.")
}

func (s *Server) notFound(w http.ResponseWriter, _ *http.Request) {
	s.say(w, http.StatusNotFound, "Not found", "There is no such page.")
}

func (s *Server) style(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "max-age=3600")
	http.ServeFileFS(w, r, files, "templates/style.css")
}
