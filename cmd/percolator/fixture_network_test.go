package main

import (
	"context"
	"fmt"
	"net"
	"sync"
	"syscall"

	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"

	"github.com/gopercolator/percolator/tso"
)

// network is a loopback interface in memory.
type network struct {
	mu        sync.Mutex
	listeners map[string]*bufconn.Listener
}

// placed is a listener that knows its place in a network.
type placed struct {
	*bufconn.Listener
	at net.TCPAddr
}

func (l placed) Addr() net.Addr { return &l.at }

func (n *network) listen() net.Listener {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listeners == nil {
		n.listeners = map[string]*bufconn.Listener{}
	}
	l := placed{bufconn.Listen(1 << 16), net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7070 + len(n.listeners)}}
	n.listeners[l.at.String()] = l.Listener
	return l
}

func (n *network) dial(ctx context.Context, address string) (net.Conn, error) {
	n.mu.Lock()
	l := n.listeners[address]
	n.mu.Unlock()
	if l == nil {
		return nil, fmt.Errorf("dial tcp %s: %w", address, syscall.ECONNREFUSED)
	}
	return l.DialContext(ctx)
}

// option has a client of the oracle dial in n.
func (n *network) option() tso.DialOption {
	return tso.WithGRPCDialOptions(grpc.WithContextDialer(n.dial))
}
