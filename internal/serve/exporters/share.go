package exporters

import (
	"net"
	"sync"

	"github.com/gopercolator/percolator/internal/serve"
)

// shared is a listener that closes new connections of peers that have their share already. A peer
// is an address: one that keeps its connections silent must not keep others out.
type shared struct {
	net.Listener
	open *serve.Quota
}

// Accept implements [net.Listener].
func (s *shared) Accept() (net.Conn, error) {
	for {
		conn, err := s.Listener.Accept()
		if err != nil {
			return nil, err
		}
		host := serve.Host(conn.RemoteAddr())
		if s.open.Take(host, 1) {
			return &sharedConn{Conn: conn, closed: sync.OnceFunc(func() { s.open.Release(host, 1) })}, nil
		}
		_ = conn.Close()
	}
}

// sharedConn gives back what its peer has taken.
type sharedConn struct {
	net.Conn
	closed func()
}

// Close implements [net.Conn].
func (c *sharedConn) Close() error {
	err := c.Conn.Close()
	c.closed()
	return err
}
