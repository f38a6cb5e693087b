package exporters

import (
	"net"
	"sync"

	"github.com/gopercolator/percolator/internal/hosts"
)

// shared is a listener that closes new connections of peers that have each of them already. A peer
// is an address: one that keeps its connections silent must not keep others out.
type shared struct {
	net.Listener
	each int

	mu sync.Mutex
	of map[string]int // open connections by the peer
}

func newShared(l net.Listener, each int) *shared {
	return &shared{Listener: l, each: each, of: make(map[string]int)}
}

// Accept implements [net.Listener].
func (s *shared) Accept() (net.Conn, error) {
	for {
		conn, err := s.Listener.Accept()
		if err != nil {
			return nil, err
		}
		host := hosts.Of(conn.RemoteAddr())
		if s.take(host) {
			return &sharedConn{Conn: conn, closed: sync.OnceFunc(func() { s.release(host) })}, nil
		}
		_ = conn.Close()
	}
}

func (s *shared) take(host string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of[host] == s.each {
		return false
	}
	s.of[host]++
	return true
}

func (s *shared) release(host string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of[host]--; s.of[host] == 0 {
		delete(s.of, host)
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
