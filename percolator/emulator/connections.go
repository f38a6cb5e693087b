package emulator

import (
	"github.com/gopercolator/percolator/internal/ordered"
	"net"
	"slices"
	"sync"
	"sync/atomic"
)

// Connection is a client's connection to the emulator, which fails as connections to Cloud Bigtable
// do. Its methods may be called concurrently, and do nothing to a connection that has ended.
// Clients that call the emulator as functions ([Server.InProcess]) notice nothing.
type Connection struct{ conn *conn }

// Connections returns the connections that are open, those that came first before others. The
// connections of a client's pool come in any order.
func (s *Server) Connections() []Connection {
	c := &s.listener.clients
	c.mu.Lock()
	defer c.mu.Unlock()
	return ordered.Map(c.open, func(conn *conn) Connection { return Connection{conn} })
}

// SilenceNext makes the next n connections swallow everything from their first byte, as after
// [Connection.Silence]. 0: none from now on.
func (s *Server) SilenceNext(n int) {
	c := &s.listener.clients
	c.mu.Lock()
	defer c.mu.Unlock()
	c.silent = n
}

// Silence makes the connection swallow everything in both directions, until its client closes it:
// no answer, no FIN and no RST, as from a host that has died or a NAT that has forgotten. Requests
// that had arrived are carried out; their answers are lost.
func (c Connection) Silence() { c.conn.silent.Store(true) }

// Reset ends the connection at once: by RST or, in memory, by an end. Requests that had arrived may
// be carried out.
func (c Connection) Reset() {
	if tcp, ok := c.conn.Conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.conn.Close()
}

// GoAway asks the client to make no further request on the connection (a GOAWAY of HTTP/2 without
// an error), as Cloud Bigtable does every hour. Requests in flight end as usual; then the client
// closes it.
func (c Connection) GoAway() { c.conn.goAway() }

// connections are those that are open.
type connections struct {
	mu     sync.Mutex
	open   []*conn
	silent int // so many of the next are silent
}

func (cs *connections) add(c net.Conn) *conn {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	added := &conn{Conn: c, of: cs}
	if cs.silent > 0 {
		cs.silent--
		added.silent.Store(true)
	}
	cs.open = append(cs.open, added)
	return added
}

func (cs *connections) remove(c *conn) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if i := slices.Index(cs.open, c); i >= 0 {
		cs.open = slices.Delete(cs.open, i, i+1)
	}
}

// conn is a connection that can fail.
type conn struct {
	net.Conn
	of     *connections
	silent atomic.Bool

	writing sync.Mutex
	frames  frames
	leave   bool // a GOAWAY waits for the end of a frame
}

// Read implements net.Conn.
func (c *conn) Read(b []byte) (n int, err error) {
	for {
		if n, err = c.Conn.Read(b); err != nil || !c.silent.Load() {
			return n, err
		}
	}
}

// Write implements net.Conn.
func (c *conn) Write(b []byte) (n int, err error) {
	if c.silent.Load() {
		return len(b), nil
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	n, err = c.Conn.Write(b)
	c.frames.pass(b[:n])
	if err == nil {
		err = c.writeGoAway()
	}
	return n, err
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.of.remove(c)
	return c.Conn.Close()
}

func (c *conn) goAway() {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.leave = true
	_ = c.writeGoAway()
}

// goAwayFrame is a GOAWAY without an error that leaves all requests in flight alone: 8 bytes, of
// the type 7, for no stream; then the last stream that is served, and the error.
var goAwayFrame = []byte{0, 0, 8, 7, 0, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0}

// writeGoAway writes what is due, if no frame is half written. The caller holds c.writing.
func (c *conn) writeGoAway() error {
	if !c.leave || !c.frames.between() || c.silent.Load() {
		return nil
	}
	c.leave = false
	_, err := c.Conn.Write(goAwayFrame)
	return err
}

// frames tells where in a stream of HTTP/2 frames one ends.
type frames struct {
	head []byte // of the next frame, as far as it has passed
	left int    // bytes of the frame
}

const frameHead = 9 // bytes, of which three are the length of what follows

func (f *frames) between() bool { return len(f.head) == 0 && f.left == 0 }

func (f *frames) pass(b []byte) {
	for len(b) > 0 {
		if f.left > 0 {
			n := min(f.left, len(b))
			f.left -= n
			b = b[n:]
			continue
		}
		n := min(frameHead-len(f.head), len(b))
		f.head = append(f.head, b[:n]...)
		b = b[n:]
		if h := f.head; len(h) == frameHead {
			f.left, f.head = int(h[0])<<16|int(h[1])<<8|int(h[2]), h[:0]
		}
	}
}
