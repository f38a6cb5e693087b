package tso

import (
	"context"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
	grpcpeer "google.golang.org/grpc/peer"

	"github.com/gopercolator/percolator/internal/serve"
)

const (
	// maxHandshakes is how many connections may be in their handshake at once, with TLS and
	// without: one that stays silent costs its peer a place here, and others nothing.
	maxHandshakes = 512

	// maxRequestRate is how many bytes the server reads in a second. A peer that sends more than
	// its share waits, not those who send less. While others are connected each call counts
	// callBytes more, for the work that it makes.
	maxRequestRate = 16 << 20
	callBytes      = 384

	// requestBurst is how much a peer may send at once, before that; it is more than one read
	// returns.
	requestBurst = 256 << 10

	// maxWrite is how long a peer may take to receive what one write sends: answers that no one
	// reads must not pile up.
	maxWrite = 10 * time.Second
)

// connGuard is a listener that closes new connections of peers that have their share already, of
// all or of those in their handshake, and slows down peers that send too much. A peer is an address
// here: no peer has proven an identity yet.
type connGuard struct {
	net.Listener
	open, shaking *serve.Quota
	pace          rate.Limit // of one peer

	mu    sync.Mutex
	peers map[string]*pacedPeer
	young map[*guardedConn]struct{} // in their handshake
	conns map[net.Addr]*guardedConn // by their own addresses, see ownAddr
}

// pacedPeer is a peer that has connections.
type pacedPeer struct {
	connections int
	limiter     *rate.Limiter
}

func newConnGuard(l net.Listener, most, share int) *connGuard {
	return &connGuard{
		Listener: l, open: serve.NewSharedQuota(most, share), shaking: serve.NewSharedQuota(min(most, maxHandshakes), share),
		pace: rate.Limit(maxRequestRate * share / 100), peers: make(map[string]*pacedPeer),
		young: make(map[*guardedConn]struct{}), conns: make(map[net.Addr]*guardedConn),
	}
}

// Accept implements [net.Listener].
func (g *connGuard) Accept() (net.Conn, error) {
	for {
		conn, err := g.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if guarded := g.admit(conn); guarded != nil {
			return guarded, nil
		}
		_ = conn.Close()
	}
}

// admit returns nil if conn's peer has its share.
func (g *connGuard) admit(conn net.Conn) net.Conn {
	host := serve.Host(conn.RemoteAddr())
	if !g.open.Take(host, 1) {
		return nil
	}
	if !g.shaking.Take(host, 1) {
		g.open.Release(host, 1)
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := &guardedConn{Conn: conn, ctx: ctx, addr: ownAddr(conn.RemoteAddr())}
	c.shaken = sync.OnceFunc(func() {
		g.grow(c)
		g.shaking.Release(host, 1)
	})
	c.closed = sync.OnceFunc(func() {
		cancel()
		g.leave(host, c)
		g.open.Release(host, 1)
	})
	g.join(host, c)
	return c
}

func (g *connGuard) join(host string, c *guardedConn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.peers[host]
	if p == nil {
		p = &pacedPeer{limiter: rate.NewLimiter(g.pace, requestBurst)}
		g.peers[host] = p
	}
	p.connections++
	c.limiter = p.limiter
	g.young[c] = struct{}{}
	g.conns[c.addr] = c
}

// grow notes that a connection has completed its handshake, or has been closed.
func (g *connGuard) grow(c *guardedConn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.young, c)
}

func (g *connGuard) leave(host string, c *guardedConn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.conns, c.addr)
	p := g.peers[host]
	if p.connections--; p.connections == 0 {
		delete(g.peers, host)
	}
}

// Close implements [net.Listener]. It closes the connections in their handshake too: a gRPC server
// that stops waits for them.
func (g *connGuard) Close() error {
	err := g.Listener.Close()
	g.mu.Lock()
	young := slices.Collect(maps.Keys(g.young))
	g.mu.Unlock()
	for _, c := range young {
		_ = c.Close()
	}
	return err
}

// closePeer closes the connection that has the address.
func (g *connGuard) closePeer(addr net.Addr) {
	g.mu.Lock()
	c := g.conns[addr]
	g.mu.Unlock()
	if c != nil {
		_ = c.Close()
	}
}

// called notes that a call has come from ctx's peer, which the next read from it waits for.
func (g *connGuard) called(ctx context.Context) {
	p, ok := grpcpeer.FromContext(ctx)
	if !ok {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if paced := g.peers[serve.Host(p.Addr)]; paced != nil && len(g.peers) > 1 {
		paced.limiter.ReserveN(time.Now(), callBytes)
	}
}

// guardedConn gives back what its peer has taken.
type guardedConn struct {
	net.Conn
	ctx            context.Context // ends when it is closed
	addr           net.Addr        // of the peer
	limiter        *rate.Limiter
	shaken, closed func()
}

// Read implements [net.Conn]. What it has read too early it keeps for a while, so that the peer
// fills its window and has to wait.
func (c *guardedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b[:min(len(b), requestBurst)])
	if delay := c.limiter.ReserveN(time.Now(), n).Delay(); delay > 0 {
		_ = sleep(c.ctx, delay)
	}
	return n, err
}

// RemoteAddr implements [net.Conn].
func (c *guardedConn) RemoteAddr() net.Addr { return c.addr }

// Write implements [net.Conn].
func (c *guardedConn) Write(b []byte) (int, error) {
	if err := c.Conn.SetWriteDeadline(time.Now().Add(maxWrite)); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
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

// ownAddr returns an address like addr that is equal to no other, so that a call, which knows no
// more of its connection, can tell which one it is.
func ownAddr(addr net.Addr) net.Addr {
	if tcp, ok := addr.(*net.TCPAddr); ok {
		own := *tcp
		return &own
	}
	return &struct{ net.Addr }{addr}
}
