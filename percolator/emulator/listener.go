package emulator

import (
	"context"
	"net"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
)

// listener accepts connections of this process at once, and those from the network only after open:
// a store that is being restored must not be read. Until then they wait.
type listener struct {
	network net.Listener // nil: none
	inside  *bufconn.Listener
	conns   chan net.Conn
	clients connections
	opened  sync.Once
	closed  chan struct{}
	close   sync.Once
}

// insideBuffer is the buffer of a connection of this process, in bytes and for each direction. It
// is allocated with the connection: in tests, which make many, it is most of what there is to
// collect.
const insideBuffer = 1 << 14

// listen opens an address; "" is none.
func listen(addr string) (l *listener, err error) {
	var network net.Listener
	if addr != "" {
		if network, err = net.Listen("tcp", addr); err != nil {
			return nil, err
		}
	}
	l = &listener{network: network, inside: bufconn.Listen(insideBuffer), conns: make(chan net.Conn), closed: make(chan struct{})}
	go l.accept(l.inside)
	return l, nil
}

// open lets connections from the network in.
func (l *listener) open() {
	if l.network != nil {
		l.opened.Do(func() { go l.accept(l.network) })
	}
}

// accept passes connections of one of the two on until the listener is closed.
func (l *listener) accept(from net.Listener) {
	for {
		conn, err := from.Accept()
		if err != nil {
			if temporary, ok := err.(net.Error); ok && temporary.Timeout() {
				continue
			}
			_ = l.Close()
			return
		}
		select {
		case l.conns <- l.clients.add(conn):
		case <-l.closed:
			_ = conn.Close()
			return
		}
	}
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Addr implements net.Listener: the address on the network, if there is one.
func (l *listener) Addr() net.Addr {
	if l.network == nil {
		return l.inside.Addr()
	}
	return l.network.Addr()
}

// Close implements net.Listener.
func (l *listener) Close() error {
	l.close.Do(func() {
		close(l.closed)
		if l.network != nil {
			_ = l.network.Close()
		}
		_ = l.inside.Close()
	})
	return nil
}

// dial opens a connection within the process.
func (l *listener) dial(ctx context.Context, _ string) (net.Conn, error) {
	return l.inside.DialContext(ctx)
}

// dialInside connects to the emulator within the process.
func (s *Server) dialInside() (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///emulator",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(s.listener.dial),
		grpc.WithDefaultCallOptions(grpc.MaxCallSendMsgSize(maxMessageSize), grpc.MaxCallRecvMsgSize(maxMessageSize)))
}
