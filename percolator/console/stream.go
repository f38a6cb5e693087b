package console

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/gopercolator/percolator/internal/serve/origin"
)

// Bounds of a stream.
const (
	streamLimit  = time.Hour        // then the browser connects again
	streamWrite  = 10 * time.Second // how long one event may take to get through
	reconnectMs  = 3000
	maxPageBytes = 4 << 20
)

// stream keeps a page up to date by server-sent events: "samples" with points of the charts, those
// after Last-Event-ID, and "main" with the page's content. All viewers get them from the same poll.
func (h *Handler) stream(w http.ResponseWriter, r *http.Request) {
	if origin.Foreign(r) { // also by a link: a window that another site opens would hold a slot
		http.Error(w, "Only the console's own pages are kept up to date.", http.StatusForbidden)
		return
	}
	name := r.URL.Query().Get("page")
	if !slices.ContainsFunc(tabs, func(t tab) bool { return t.Name == name && name != pageRow }) {
		http.Error(w, "There is nothing to keep up to date on such a page.", http.StatusNotFound)
		return
	}
	select {
	case h.streams <- struct{}{}:
		defer func() { <-h.streams }()
	default:
		w.Header().Set("Retry-After", "30")
		http.Error(w, fmt.Sprintf("%d pages are being kept up to date already.", MaxStreams), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // proxies should pass events on at once
	e := &events{r.Context(), w, http.NewResponseController(w)}
	if err := e.begin(); err != nil || r.Method == http.MethodHead {
		return
	}
	defer h.poll.watch(name)()
	h.follow(r, e, name, readQuery(r.URL.Query()))
}

// follow sends every snapshot until the client is gone, the handler is closed or the stream is old.
func (h *Handler) follow(r *http.Request, e *events, name string, q listQuery) {
	// Anything but a number counts as 0.
	seen, _ := strconv.ParseInt(r.Header.Get("Last-Event-ID"), 10, 64)
	old := time.Now().Add(streamLimit)
	last, first := int64(0), true
	for time.Now().Before(old) {
		s, err := h.poll.next(r.Context(), func(s *snapshot) bool { return s.Seq > last })
		if err != nil {
			return
		}
		last = s.Seq
		// The page is older than a restart of the server: its numbers name other samples.
		if seen > s.Seq {
			seen = 0
		}
		err = e.samples(first, after(s.Samples, seen), s.Seq)
		if err == nil {
			err = h.sendMain(e, s, name, q)
		}
		if err != nil {
			return
		}
		seen, first = s.Seq, false
	}
}

func (h *Handler) sendMain(e *events, s *snapshot, name string, q listQuery) error {
	content, err := s.rendered.of(name+"?"+q.encode(), func() ([]byte, error) {
		html, err := h.views.renderMain(h.newPage(name, s, q))
		if err != nil {
			return nil, err
		}
		return json.Marshal(html) // one line, whatever is in it
	})
	switch {
	case err != nil:
		h.log.Error("console: a page cannot be rendered", "page", name, "error", err)
		return err
	case len(content) > maxPageBytes:
		// The page says that it is too large to be kept live.
		return e.write([]byte("{}"), "event: large\ndata: ")
	}
	return e.write(content, "event: main\ndata: ")
}

// rendered is the content of the pages of one snapshot, each made once for all who watch it with
// the same query: at most MaxStreams of them.
type rendered struct {
	mu    sync.Mutex
	pages map[string][]byte
}

func (r *rendered) of(name string, render func() ([]byte, error)) ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if content, ok := r.pages[name]; ok {
		return content, nil
	}
	content, err := render()
	if err != nil {
		return nil, err
	}
	if r.pages == nil {
		r.pages = map[string][]byte{}
	}
	r.pages[name] = content
	return content, nil
}

// events writes server-sent events.
type events struct {
	ctx context.Context //nolint:containedctx // of the request
	w   http.ResponseWriter
	rc  *http.ResponseController
}

// begin sends the headers. The server's own deadlines are meant for answers that end; a stream has
// one for each event.
func (e *events) begin() error {
	// Servers without deadlines return an error, and have none to lift.
	_ = e.rc.SetReadDeadline(time.Time{})
	return e.write(nil, "retry: %d", reconnectMs)
}

// write sends a line and what it introduces.
func (e *events) write(data []byte, format string, args ...any) error {
	_ = e.rc.SetWriteDeadline(time.Now().Add(streamWrite))
	// This deadline may have replaced the one that Close set.
	if err := e.ctx.Err(); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(e.w, format+"%s\n\n", append(args, data)...); err != nil {
		return err
	}
	return e.rc.Flush()
}

// samples sends points of all series. whole says that they are all that there are.
func (e *events) samples(whole bool, list []sample, seq int64) error {
	b := []byte(`{"whole":` + strconv.FormatBool(whole) + `,"points":[`)
	for i, s := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = s.appendJSON(b)
	}
	return e.write(append(b, "]}"...), "event: samples\nid: %d\ndata: ", seq)
}
