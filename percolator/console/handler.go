package console

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
)

// Handler serves the console. It is safe for concurrent use.
type Handler struct {
	c       *percolator.Client
	admin   *admin.Admin
	cfg     Config
	log     *slog.Logger
	guard   *guard
	poll    *poller
	views   *views
	streams chan struct{} // a slot for each page that is kept live
	mux     *http.ServeMux

	lifetime context.Context
	end      context.CancelFunc
	mu       sync.Mutex // orders the beginning of requests and Close
	closed   bool
	serving  sync.WaitGroup
}

var _ http.Handler = (*Handler)(nil)

// NewHandler returns the console of the client's instance, for a program's own server:
//
//	http.Handle("/percolator/", handler) // with Config.PathPrefix "/percolator/"
//
// The client must stay open until Close returns. Errors: percolator.ErrInvalidArgument for a Config
// that cannot work.
func NewHandler(c *percolator.Client, cfg Config) (*Handler, error) {
	if c == nil {
		return nil, fmt.Errorf("console: %w: no client", percolator.ErrInvalidArgument)
	}
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	return newHandler(c, cfg, newClientSource(c, cfg)), nil
}

func newHandler(c *percolator.Client, cfg Config, src source) *Handler {
	h := &Handler{
		c: c, admin: admin.New(c), cfg: cfg, log: cfg.Logger, poll: newPoller(src, cfg.PollInterval), views: newViews(),
		guard: &guard{
			username: sha256.Sum256([]byte(cfg.Username)), password: sha256.Sum256([]byte(cfg.Password)),
			basic: cfg.Password != "",
		},
		streams: make(chan struct{}, MaxStreams),
	}
	h.lifetime, h.end = context.WithCancel(context.Background())
	h.mux = h.routes()
	return h
}

// Close ends the poll and the live pages, and waits for them. Later requests get the status 503.
// The error is always nil.
func (h *Handler) Close() error {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.end()
	h.poll.close()
	h.serving.Wait()
	return nil
}

// enter counts a request, unless the handler is closed.
func (h *Handler) enter() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return false
	}
	h.serving.Add(1)
	return true
}

func (h *Handler) routes() *http.ServeMux {
	mux := http.NewServeMux()
	for _, page := range []string{pageOverview, pageLocks, pageContention, pageObservers, pageWorkers, pageOracle, pageJournal, pageStorage} {
		at := page
		if page == pageOverview {
			at = "{$}"
		}
		mux.HandleFunc("GET /"+at, func(w http.ResponseWriter, r *http.Request) { h.showPage(w, r, page) })
	}
	mux.HandleFunc("GET /"+pageRow, h.showRow)
	mux.HandleFunc("GET /events", h.stream)
	mux.HandleFunc("GET /assets/{version}/{name...}", h.views.serveAsset)
	mux.HandleFunc("POST /resolve-lock", h.change(h.resolveLock))
	mux.HandleFunc("POST /retry-parked", h.change(h.endParked("retried", observers.Retry)))
	mux.HandleFunc("POST /drop-parked", h.change(h.endParked("dropped", observers.Drop)))
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		h.fail(w, r, http.StatusNotFound, "There is no such page.", "The pages are in the bar at the top.")
	})
	return mux
}

// ServeHTTP serves one request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	setSecurityHeaders(w.Header())
	if !h.enter() {
		http.Error(w, "The console has been closed.", http.StatusServiceUnavailable)
		return
	}
	defer h.serving.Done()
	if !h.guard.admit(w, r) {
		return
	}
	inside, ok := h.inside(r.URL.Path)
	if r.URL.Path+"/" == h.cfg.PathPrefix && r.URL.Path != "" {
		// A relative location is right behind a proxy, too.
		w.Header().Set("Location", path.Base(h.cfg.PathPrefix)+"/")
		w.WriteHeader(http.StatusPermanentRedirect)
		return
	}
	if !ok {
		http.NotFound(w, r)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer h.endWithHandler(w, cancel)()
	inner := r.WithContext(ctx)
	inner.URL = &url.URL{Path: inside, RawQuery: r.URL.RawQuery}
	h.mux.ServeHTTP(w, inner)
}

// closeWrite is how long Close waits for a client that does not read.
const closeWrite = time.Second

// endWithHandler lets Close end a request, also one whose answer the client does not read. The
// caller calls served when the request is done.
func (h *Handler) endWithHandler(w http.ResponseWriter, cancel context.CancelFunc) (served func()) {
	ended := make(chan struct{})
	stop := context.AfterFunc(h.lifetime, func() {
		defer close(ended)
		cancel() // first: a stream sets its deadline and then looks whether it has been cancelled
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(closeWrite))
	})
	return func() {
		if !stop() {
			<-ended
		}
	}
}

// inside strips the prefix from a path. It refuses a path that the mux would clean, because that
// redirection would lose the prefix.
func (h *Handler) inside(p string) (string, bool) {
	rest, ok := strings.CutPrefix(p, h.cfg.PathPrefix)
	return "/" + rest, ok && path.Clean("/"+rest) == "/"+rest
}

// hurry bounds a request that is not a stream.
func hurry(r *http.Request) (context.Context, context.CancelFunc) {
	return context.WithTimeout(r.Context(), requestLimit+5*time.Second)
}
