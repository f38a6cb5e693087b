package exporters

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener whose connections are pipes.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	close  sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error { p.close.Do(func() { close(p.closed) }); return nil }

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// dial returns the client's end of a connection, which may have to wait for the server.
func (p *pipes) dial() net.Conn {
	client, server := net.Pipe()
	p.conns <- server
	return client
}

// ask sends a request and returns its status, or 0 if the server has ended the connection.
func ask(c net.Conn) int {
	if _, err := fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: test\r\n\r\n"); err != nil {
		return 0
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

func serving(t *testing.T, s Server, test func(p *pipes)) {
	synctest.Test(t, func(t *testing.T) {
		p := &pipes{conns: make(chan net.Conn, 10), closed: make(chan struct{})}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Serve(ctx, p) }()
		test(p)
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func ok(http.ResponseWriter, *http.Request) {}

// Connections beyond the limit are served when others have ended.
func TestConnectionsAreLimited(t *testing.T) {
	t.Parallel()
	const most = 3
	serving(t, Server{Handler: http.HandlerFunc(ok), Connections: most, AnswerWithin: time.Second, StopWithin: time.Second}, func(p *pipes) {
		var first [most]net.Conn
		for i := range first {
			if first[i] = p.dial(); ask(first[i]) != http.StatusOK {
				t.Fatalf("connection %d is not served", i)
			}
		}
		one := p.dial()
		status := make(chan int, 1)
		go func() { status <- ask(one) }()
		synctest.Wait()
		select {
		case got := <-status:
			t.Errorf("connection %d got the answer %d", most, got)
		default:
		}
		_ = first[1].Close()
		if got := <-status; got != http.StatusOK {
			t.Errorf("when another had ended it got %d", got)
		}
		for _, c := range append(first[:], one) {
			_ = c.Close()
		}
	})
}

// Clients that send nothing, or read nothing, lose their connection, and give up its place.
func TestIdleConnectionsEnd(t *testing.T) {
	t.Parallel()
	const most = 1
	large := func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 1<<20)) }
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		client  func(net.Conn)
		within  time.Duration
	}{
		"no request":       {ok, func(net.Conn) {}, headerWithin},
		"half a header":    {ok, func(c net.Conn) { _, _ = fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: ") }, headerWithin},
		"one request":      {ok, func(c net.Conn) { ask(c) }, idleAfter},
		"an unread answer": {large, func(c net.Conn) { _, _ = fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: test\r\n\r\n") }, 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := Server{Handler: test.handler, Connections: most, AnswerWithin: 30 * time.Second, StopWithin: time.Second}
			serving(t, server, func(p *pipes) {
				began := time.Now()
				idle := p.dial()
				test.client(idle)
				next := p.dial()
				if _, err := fmt.Fprint(next, "GET / HTTP/1.1\r\n"); err != nil { // it is read once there is a place
					t.Fatal(err)
				}
				if took := time.Since(began); took > test.within+time.Second {
					t.Errorf("it kept its place for %v, want %v", took, test.within)
				}
				_, _ = idle.Close(), next.Close()
			})
		})
	}
}

// addressed is a listener whose connections come from these addresses, one after the other.
type addressed struct {
	*pipes
	from []string
}

func (a *addressed) Accept() (net.Conn, error) {
	conn, err := a.pipes.Accept()
	if err != nil {
		return nil, err
	}
	from := &net.TCPAddr{IP: net.ParseIP(a.from[0])}
	a.from = a.from[1:]
	return &hostConn{conn, from}, nil
}

type hostConn struct {
	net.Conn
	from net.Addr
}

func (c *hostConn) RemoteAddr() net.Addr { return c.from }

// A peer has its share of the connections. Further ones are closed, and others' are served.
func TestConnectionsAreShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const one, other = "192.0.2.1", "192.0.2.2"
		a := &addressed{&pipes{conns: make(chan net.Conn, 10), closed: make(chan struct{})}, []string{one, one, one, other, one}}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		server := Server{Handler: http.HandlerFunc(ok), Connections: 3, PerPeer: 2, AnswerWithin: time.Second, StopWithin: time.Second}
		go func() { ended <- server.Serve(ctx, a) }()
		began := time.Now()
		silent := []net.Conn{a.dial(), a.dial()}
		if got := ask(a.dial()); got != 0 {
			t.Errorf("a connection beyond the share got %d", got)
		}
		others := a.dial()
		if got := ask(others); got != http.StatusOK {
			t.Errorf("another peer got %d", got)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("that took %v", took)
		}
		for _, c := range append(silent, others) {
			_ = c.Close()
		}
		synctest.Wait()
		last := a.dial()
		if got := ask(last); got != http.StatusOK {
			t.Errorf("after the others had ended, it got %d", got)
		}
		_ = last.Close()
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
