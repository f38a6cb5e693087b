package tso

import (
	"net"
	"testing"
	"time"
)

// endlessConn is a connection from an address whose peer sends without end.
type endlessConn struct {
	net.Conn
	host string
}

func (c endlessConn) RemoteAddr() net.Addr        { return &net.TCPAddr{IP: net.ParseIP(c.host), Port: 1} }
func (c endlessConn) Read(b []byte) (int, error)  { return len(b), nil }
func (c endlessConn) Close() error                { return nil }
func (c endlessConn) SetDeadline(time.Time) error { return nil }

// readIn reads bytes, and checks how long that took, by the clock of a bubble.
func readIn(t *testing.T, c net.Conn, bytes int, want time.Duration) {
	t.Helper()
	started := time.Now()
	for buf := make([]byte, 32<<10); bytes > 0; bytes -= len(buf) {
		if _, err := c.Read(buf); err != nil {
			t.Fatal(err)
		}
	}
	if d := time.Since(started); (d - want).Abs() > time.Millisecond {
		t.Errorf("read in %v, want %v", d, want)
	}
}

// A peer that sends more than its share is slowed down, over all of its connections, and nobody
// else.
func TestServerPacesPeers(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		guard := newConnGuard(nil, 100, 25)
		const share = maxRequestRate / 4
		one, two := guard.admit(endlessConn{host: "192.0.2.1"}), guard.admit(endlessConn{host: "192.0.2.1"})
		readIn(t, one, requestBurst, 0)
		readIn(t, two, share, time.Second)
		other := guard.admit(endlessConn{host: "192.0.2.2"})
		readIn(t, other, requestBurst, 0)
		readIn(t, one, share/2, time.Second/2)

		// Closing ends the wait.
		go func() {
			time.Sleep(time.Millisecond)
			_ = two.Close()
		}()
		readIn(t, two, 32<<10, time.Millisecond)
		_, _ = one.Close(), other.Close()
		if len(guard.peers) != 0 || guard.open.Used() != 0 || guard.shaking.Used() != 0 {
			t.Errorf("%d peers, %d connections and %d handshakes are left", len(guard.peers), guard.open.Used(), guard.shaking.Used())
		}
	})
}

// Calls count beside their bytes while others are connected.
func TestServerPacesCalls(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		guard := newConnGuard(nil, 100, 25)
		const share, calls = maxRequestRate / 4, 64 << 10
		here := from(t.Context(), "192.0.2.1")
		conn := guard.admit(endlessConn{host: "192.0.2.1"})
		readIn(t, conn, requestBurst, 0)
		for range calls {
			guard.called(here)
		}
		readIn(t, conn, share, time.Second) // it is alone
		guard.admit(endlessConn{host: "192.0.2.2"})
		for range calls {
			guard.called(here)
		}
		readIn(t, conn, share, time.Second+calls*callBytes*time.Second/share)
	})
}

// A peer that does not read what it is sent is given up.
func TestServerGivesUpPeersThatDoNotRead(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		here, there := net.Pipe()
		defer func() { _ = there.Close() }()
		conn := newConnGuard(nil, 100, 25).admit(here)
		started := time.Now()
		if _, err := conn.Write([]byte{1}); !isTimeout(err) || time.Since(started) != maxWrite {
			t.Errorf("after %v: %v", time.Since(started), err)
		}
		go func() { _, _ = there.Read(make([]byte, 1)) }()
		if _, err := conn.Write([]byte{1}); err != nil {
			t.Errorf("one that reads: %v", err)
		}
		_ = conn.Close()
	})
}
