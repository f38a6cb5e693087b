package search

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/gopercolator/percolator/cmd/webindex/crawl"
	"github.com/gopercolator/percolator/cmd/webindex/index"
	"github.com/gopercolator/percolator/cmd/webindex/page"
	"github.com/gopercolator/percolator/internal/serve/origin"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/tso"
)

const (
	maxForms = 4                      // pages that are in a form at once, here; further ones wait
	maxForm  = crawl.MaxPage + 64<<10 // bytes of a form: the largest page, and what is around it
)

// changes is there if pages may be changed.
type changes struct {
	work  func() (runs map[string]int64, waiting int)
	forms chan struct{}          // a slot for each of maxForms
	last  atomic.Pointer[change] // that was made here
}

type change struct {
	at   tso.Timestamp
	runs map[string]int64 // of the observers, before it
}

// AllowChanges lets people on this machine change pages in the browser. work says how often each
// observer of this process has run, and how many cells wait for one.
func (s *Server) AllowChanges(work func() (runs map[string]int64, waiting int)) {
	s.changes = &changes{work: work, forms: make(chan struct{}, maxForms)}
	s.mux.HandleFunc("GET /change", s.local(s.form(s.changeForm)))
	s.mux.HandleFunc("POST /change", s.local(s.form(s.change)))
	s.mux.HandleFunc("GET /changed", s.local(s.changed))
	s.mux.HandleFunc("GET /follow.js", func(w http.ResponseWriter, r *http.Request) { http.ServeFileFS(w, r, files, "templates/follow.js") })
}

// changeLink is the address of the form that changes a page.
func (s *Server) changeLink(u, query string) string {
	if s.changes == nil {
		return ""
	}
	return link("/change", "url", u, "q", query)
}

// local refuses requests that are not from this machine.
func (s *Server) local(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Referrer-Policy", "same-origin") // without it, no form says where it comes from
		w.Header().Set("Cache-Control", "no-store")
		if why := origin.NotLocal(r); why != "" {
			s.say(w, http.StatusForbidden, "Not from elsewhere", why+" Pages can be changed on this machine only.")
			return
		}
		h(w, r)
	}
}

// form bounds how many pages are in memory for their forms.
func (s *Server) form(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case s.changes.forms <- struct{}{}:
			defer func() { <-s.changes.forms }()
			h(w, r)
		case <-r.Context().Done():
			s.fail(w, r, errBusy)
		}
	}
}

// changePage is what change.html shows: a page in a form.
type changePage struct {
	Query, URL string
	Version    string // digest of what was stored when the form was made
	HTML       string
	Stored     string // the page as it was crawled
}

func (s *Server) changeForm(w http.ResponseWriter, r *http.Request) {
	u, query, ok := s.pageOf(w, r)
	if !ok {
		return
	}
	p := &changePage{Query: query, URL: u, Stored: storedLink(u, query)}
	err := s.view(r.Context(), func(ctx context.Context, snap *percolator.Snapshot) error {
		capture, err := readCapture(ctx, snap, u)
		if err != nil {
			return err
		}
		p.HTML = editable(capture)
		p.Version, err = index.Digest.Get(ctx, snap, u)
		return err
	})
	switch {
	case errors.Is(err, percolator.ErrNotFound), errors.Is(err, errNoDocument):
		s.notStored(w, u, query)
	case err != nil:
		s.fail(w, r, err)
	default:
		s.show(w, http.StatusOK, "change.html", p)
	}
}

var lineEnds = strings.NewReplacer("\r\n", "\n", "\r", "\n")

// editable is the text of a page as a form has it, with line ends of one kind.
func editable(c *index.Capture) string {
	return lineEnds.Replace(string(page.Decode(c.Header, c.Body)))
}

// errVersion says that a page has changed since its form was made.
var errVersion = errors.New("another version")

// change stores what a form says, and leads to the page that shows how the index follows.
func (s *Server) change(w http.ResponseWriter, r *http.Request) {
	if !origin.OwnForm(r) {
		s.say(w, http.StatusForbidden, "Not from another page", "This request does not come from a page of this server, so nothing was changed.")
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	err := r.ParseMultipartForm(maxForm)
	u, urlErr := page.Identity(r.PostFormValue("url"))
	query, html := r.PostFormValue("q"), lineEnds.Replace(r.PostFormValue("html"))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large), len(html) > crawl.MaxPage:
		s.say(w, http.StatusRequestEntityTooLarge, "Too large", "A page has at most 10 MiB. Nothing was changed.")
		return
	case err != nil, urlErr != nil, len(query) > maxQuery:
		s.say(w, http.StatusBadRequest, "Not readable", "The form cannot be read. Nothing was changed.")
		return
	}
	runs, _ := s.changes.work()
	at, changed, err := s.store(r.Context(), u, r.PostFormValue("version"), html)
	again := message{Query: query, Link: s.changeLink(u, query), LinkText: "Back to the form"}
	switch {
	case errors.Is(err, errVersion):
		again.Title, again.Text = "Changed meanwhile", "This page was changed or deleted after its form was made. Nothing was overwritten."
		s.show(w, http.StatusConflict, "message.html", again)
	case err != nil:
		s.fail(w, r, err)
	case !changed:
		again.Title, again.Text = "Nothing to change", "The page is stored as the form has it."
		s.show(w, http.StatusOK, "message.html", again)
	default:
		s.changes.last.Store(&change{at, runs})
		w.Header().Set("Location", link("/changed", "url", u, "q", query))
		w.WriteHeader(http.StatusSeeOther)
	}
}

// store brings a text into the store as a crawl does that finds it at u, if the page is still the
// version that the reader saw.
func (s *Server) store(ctx context.Context, u, version, html string) (at tso.Timestamp, changed bool, err error) {
	at, err = s.client.Update(ctx, func(ctx context.Context, tx *percolator.Txn) error {
		changed = false
		if digest, err := index.Digest.GetOr(ctx, tx, u, ""); err != nil {
			return err
		} else if digest == "" || digest != version {
			return errVersion
		}
		capture, err := readCapture(ctx, tx, u)
		if err != nil || editable(capture) == html {
			return err
		}
		header := capture.Header.Clone()
		media, _, _ := strings.Cut(header.Get("Content-Type"), ";")
		header.Set("Content-Type", media+"; charset=utf-8") // as the form sends it
		p := index.NewPage(u, index.NewCapture(&crawl.Response{URL: u, Status: capture.Status, Header: header, Body: []byte(html)}))
		err = index.Load(ctx, tx, []*index.Page{p})
		changed = p.Changed
		return err
	})
	return at, changed, err
}
