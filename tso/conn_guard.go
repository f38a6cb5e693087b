package tso

import (
	"net"
	"sync"
	"time"
)

// maxHandshakes is how many connections may have their handshake, with TLS and without, before them
// at once: one that stays silent costs its peer a place here, and others nothing.
const maxHandshakes = 512

// connGuard is a listener that closes new connections of peers that have their share already, of
// all or of those in their handshake. A peer is an address here: nobody has proven an identity yet.
type connGuard struct {
	net.Listener
	open, shaking *quota
}

func newConnGuard(l net.Listener, most, share int) *connGuard {
	return &connGuard{Listener: l, open: newQuota(most, share), shaking: newQuota(min(most, maxHandshakes), share)}
}

// Accept implements [net.Listener].
func (g *connGuard) Accept() (net.Conn, error) {
	for {
		conn, err := g.Listener.Accept()
		if err != nil {
			return nil, err
		}
		peer := hostOf(conn.RemoteAddr())
		if !g.open.take(peer, 1) {
			_ = conn.Close()
			continue
		}
		if !g.shaking.take(peer, 1) {
			g.open.release(peer, 1)
			_ = conn.Close()
			continue
		}
		return &guardedConn{
			Conn:   conn,
			shaken: sync.OnceFunc(func() { g.shaking.release(peer, 1) }),
			closed: sync.OnceFunc(func() { g.open.release(peer, 1) }),
		}, nil
	}
}

// guardedConn gives back what its peer has taken.
type guardedConn struct {
	net.Conn
	shaken, closed func()
}

// SetDeadline implements [net.Conn]. The gRPC server lifts the deadline when it is done with the
// handshake, and nothing else tells when that is.
func (c *guardedConn) SetDeadline(t time.Time) error {
	if t.IsZero() {
		c.shaken()
	}
	return c.Conn.SetDeadline(t)
}

// Close implements [net.Conn].
func (c *guardedConn) Close() error {
	c.shaken()
	c.closed()
	return c.Conn.Close()
}
