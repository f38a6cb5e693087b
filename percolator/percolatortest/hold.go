package percolatortest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/ordered"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// waitLimit bounds how long a test waits for a request to arrive.
const waitLimit = 30 * time.Second

// Hold stops requests until Release or Drop. As an action it keeps the request back; its methods
// Answer and Copy are the variants. A caller that gives up meanwhile gets its context's error; the
// request stays and is delivered by Release, late. Once released or dropped, a Hold lets everything
// pass. Its methods are safe for concurrent use.
type Hold struct {
	mu      sync.Mutex
	kept    []*kept
	over    bool
	arrived chan struct{} // closed at the next arrival
}

// NewHold returns a Hold that holds nothing yet.
func NewHold() *Hold { return &Hold{arrived: make(chan struct{})} }

func (h *Hold) action() {}

// Answer is the action that delivers the request at once and keeps the answer back.
func (h *Hold) Answer() Action { return heldAnswer{h} }

// Copy is the action that lets the request pass and keeps a copy of it, which Release delivers in
// addition.
func (h *Hold) Copy() Action { return heldCopy{h} }

type (
	heldAnswer struct{ *Hold }
	heldCopy   struct{ *Hold }
)

// kept is one request in a Hold.
type kept struct {
	request Request
	finish  func() answer // delivers the request, or returns the answer that was kept back
	result  chan answer   // with room for one
}

// keep adds a request, unless the hold has ended.
func (h *Hold) keep(r Request, finish func() answer) (*kept, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		return nil, false
	}
	k := &kept{request: r, finish: finish, result: make(chan answer, 1)}
	h.kept = append(h.kept, k)
	close(h.arrived)
	h.arrived = make(chan struct{})
	return k, true
}

// Requests returns the requests that are held, in order of arrival.
func (h *Hold) Requests() []Request {
	h.mu.Lock()
	defer h.mu.Unlock()
	return ordered.Map(h.kept, func(k *kept) Request { return k.request })
}

// Wait waits until at least n requests are held and returns all that are. It ends the test if they
// have not arrived after 30 s.
func (h *Hold) Wait(t testing.TB, n int) []Request {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	for {
		h.mu.Lock()
		arrived := h.arrived
		h.mu.Unlock()
		rs := h.Requests()
		if len(rs) >= n {
			return rs
		}
		select {
		case <-arrived:
		case <-ctx.Done():
			t.Fatalf("waited for %d requests to be held; after %v there are %v", n, waitLimit, rs)
		}
	}
}

// Release delivers what is held, in order of arrival, and holds nothing from now on. It returns
// when the store has answered all of it.
func (h *Hold) Release() {
	for _, k := range h.end() {
		k.result <- k.finish()
	}
}

// Drop loses what is held: it is never delivered, and callers that still wait see Unavailable.
// Nothing is held from now on.
func (h *Hold) Drop() {
	for _, k := range h.end() {
		k.result <- answer{err: status.Error(codes.Unavailable, "percolatortest: the request was dropped")}
	}
}

func (h *Hold) end() []*kept {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := h.kept
	h.kept, h.over = nil, true
	return all
}
