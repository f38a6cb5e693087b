package simulation

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/test/bufconn"
)

// network is one within a bubble. Its connections are as fast as memory: what delays and loses
// calls is an interceptor.
type network struct {
	mu        sync.Mutex
	listening map[string]*listener
	clients   int
}

func newNetwork() *network { return &network{listening: map[string]*listener{}} }

// connBuffer is more than a call of the oracle's service takes.
const connBuffer = 64 << 10

// listen opens an address.
func (n *network) listen(address string) (*listener, error) {
	at, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listening[address] != nil {
		return nil, errors.New("address in use")
	}
	l := &listener{Listener: bufconn.Listen(connBuffer), network: n, at: at}
	n.listening[address] = l
	return l, nil
}

// dial connects to an address.
func (n *network) dial(ctx context.Context, address string) (net.Conn, error) {
	n.mu.Lock()
	l := n.listening[address]
	n.mu.Unlock()
	if l == nil {
		return nil, errors.New("connection refused")
	}
	c, err := l.DialContext(ctx)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// listener has an address as of TCP: an oracle hands it to clients.
type listener struct {
	*bufconn.Listener
	network  *network
	at       *net.TCPAddr
	accepted []net.Conn
}

func (l *listener) Addr() net.Addr { return l.at }

func (l *listener) Close() error {
	l.network.mu.Lock()
	if l.network.listening[l.at.String()] == l {
		delete(l.network.listening, l.at.String())
	}
	l.network.mu.Unlock()
	return l.Listener.Close()
}

// Accept names the far end as one of the loopback interface.
func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.network.mu.Lock()
	defer l.network.mu.Unlock()
	l.network.clients++
	l.accepted = append(l.accepted, c)
	return &accepted{c, &net.TCPAddr{IP: net.IPv4(127, 1, byte(l.network.clients>>8), byte(l.network.clients))}}, nil
}

// sever breaks all connections, as the end of a process does, and waits until everybody has seen
// it.
func (l *listener) sever() {
	_ = l.Close()
	l.network.mu.Lock()
	conns := l.accepted
	l.accepted = nil
	l.network.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
	}
	time.Sleep(time.Microsecond)
}

type accepted struct {
	net.Conn
	from net.Addr
}

func (c *accepted) RemoteAddr() net.Addr { return c.from }
