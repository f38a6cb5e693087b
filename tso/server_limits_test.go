package tso

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/tso/tsopb"
)

// soon is a context for what is expected not to succeed.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

func mustConnect(t *testing.T, address string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// Connections beyond the limit wait, and get their turn when others end.
func TestServerLimitsConnections(t *testing.T) {
	t.Parallel()
	s := startServing(t, NewMemoryStore(), ServerConfig{MaxConnections: 2, PeerShare: 100})
	mustNext(t, s)
	var held []net.Conn
	for range 2 {
		conn := mustConnect(t, s.address)
		if _, err := io.ReadFull(conn, make([]byte, 9)); err != nil { // the server's first frame: it was accepted
			t.Fatal(err)
		}
		held = append(held, conn)
	}
	raw := rawClient(t, s.address)
	req := &tsopb.NextRequest{Count: 1}
	if _, err := raw.Next(soon(t), req); status.Code(err) != codes.DeadlineExceeded && status.Code(err) != codes.Unavailable {
		t.Fatalf("a third connection: %v", err)
	}
	_ = held[0].Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := raw.Next(ctx, req, grpc.WaitForReady(true)); err != nil {
		t.Errorf("after another one ended: %v", err)
	}
}

// Connections that stay silent take the places of their own address only, and so do those that have
// introduced themselves. Where one ends, there is room again.
func TestServerSharesConnections(t *testing.T) {
	t.Parallel()
	const each = 2
	d := newTLSDir(t)
	for name, c := range map[string]struct {
		cfg   ServerConfig
		creds credentials.TransportCredentials
		sends string
	}{
		"silent":         {ServerConfig{}, insecure.NewCredentials(), ""},
		"silent, TLS":    {ServerConfig{Credentials: d.serverCreds(t)}, d.clientCreds(t), ""},
		"introduced":     {ServerConfig{}, insecure.NewCredentials(), http2Preface + settings},
		"half a hello":   {ServerConfig{Credentials: d.serverCreds(t)}, d.clientCreds(t), clientHello(t)[:20]},
		"half a preface": {ServerConfig{}, insecure.NewCredentials(), http2Preface[:12]},
	} {
		t.Run(name, func(t *testing.T) {
			c.cfg.MaxConnections, c.cfg.PeerShare, c.cfg.HandshakeTimeout = 4*each, 25, time.Hour
			s := startServing(t, NewMemoryStore(), c.cfg)
			var held []net.Conn
			connect := func() net.Conn {
				conn := mustConnectFrom(t, "127.0.0.2", s.address)
				_, _ = io.WriteString(conn, c.sends) // it may be closed already
				return conn
			}
			for range each {
				held = append(held, connect())
			}
			for range 8 * each { // far more than the listener has places
				if _, err := connect().Read(make([]byte, 1)); err == nil || isTimeout(err) {
					t.Fatalf("a connection above the share: %v", err)
				}
			}
			mustNext(t, dial(t, s.address, WithTransportCredentials(c.creds)))
			_ = held[0].Close()
			eventually(t, "there is room again", func() bool {
				conn := connect()
				_ = conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
				_, err := conn.Read(make([]byte, 1))
				return err == nil || isTimeout(err)
			})
		})
	}
}

// Connections that have completed their handshake no longer count as being in it.
func TestHandshakesEnd(t *testing.T) {
	t.Parallel()
	d := newTLSDir(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	for _, creds := range []credentials.TransportCredentials{nil, d.serverCreds(t)} {
		guard := newConnGuard(l, 8, 100)
		var opts []DialOption
		if creds != nil {
			opts = append(opts, WithTransportCredentials(d.clientCreds(t)))
		}
		s := serveOn(t, guard, NewMemoryStore(), ServerConfig{Credentials: creds})
		mustNext(t, dial(t, s.address, opts...))
		if shaking, open := guard.shaking.Used(), guard.open.Used(); shaking != 0 || open != 1 {
			t.Errorf("%d in their handshake and %d open, want 0 and 1", shaking, open)
		}
		if l, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
	}
	_ = l.Close()
}

// A server that stops does not wait for connections that stay silent.
func TestServerStopsBesideSilentConnections(t *testing.T) {
	t.Parallel()
	d := newTLSDir(t)
	for name, creds := range map[string]credentials.TransportCredentials{"plaintext": nil, "TLS": d.serverCreds(t)} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		guard := newConnGuard(l, 8, 100)
		s := serveOn(t, guard, NewMemoryStore(), ServerConfig{Credentials: creds, HandshakeTimeout: time.Hour})
		mustNext(t, s)
		mustConnect(t, s.address)
		eventually(t, name+": the connection is accepted", func() bool { return guard.shaking.Used() == 1 })
		s.stop()
		if err := <-s.ended; err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// watchers opens n calls that last.
func watchers(t *testing.T, h healthpb.HealthClient, n int) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	for range n {
		watch, err := h.Watch(ctx, &healthpb.HealthCheckRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := watch.Recv(); err != nil {
			t.Fatal(err)
		}
	}
	return cancel
}

// Calls beyond the limit of a connection wait.
func TestServerLimitsStreams(t *testing.T) {
	t.Parallel()
	s := startServing(t, NewMemoryStore(), ServerConfig{MaxStreams: 2})
	h := healthClient(t, s.address)
	end := watchers(t, h, 2)
	if _, err := h.Check(soon(t), &healthpb.HealthCheckRequest{}); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("a third call: %v", err)
	}
	checkHealth(t, healthClient(t, s.address), "") // on another connection
	end()
	checkHealth(t, h, "")
}

// Calls, and streams, beyond the limit of the server are refused at once.
func TestServerLimitsCalls(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: takes longer than a second")
	}
	t.Parallel()
	store, clock := newFaultyStore(NewMemoryStore()), &warpedClock{}
	s := startServing(t, store, ServerConfig{MaxCalls: 2, PeerShare: 100, Lease: time.Minute, Window: time.Second, Now: clock.now})
	mustNext(t, s)
	store.freeze()
	clock.by.Add(int64(time.Hour)) // calls wait for a window that is not stored
	raw, h := rawClient(t, s.address), healthClient(t, s.address)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range 2 {
		go func() {
			for ctx.Err() == nil { // a check below may have the place
				_, _ = raw.Next(ctx, &tsopb.NextRequest{Count: 1})
			}
		}()
	}
	checked := func() error {
		_, err := h.Check(t.Context(), &healthpb.HealthCheckRequest{})
		return err
	}
	eventually(t, "a third call is refused", func() bool { return status.Code(checked()) == codes.ResourceExhausted })

	end := watchers(t, h, 2) // there is room for streams all the same
	watch, err := h.Watch(t.Context(), &healthpb.HealthCheckRequest{})
	if err == nil {
		_, err = watch.Recv()
	}
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a third stream: %v", err)
	}
	end()
	cancel()
	eventually(t, "there is room again", func() bool { return checked() == nil })
}

func TestServerLimitsHeaders(t *testing.T) {
	t.Parallel()
	s := startServing(t, NewMemoryStore(), ServerConfig{})
	mustNext(t, s)
	raw := rawClient(t, s.address)
	req := &tsopb.NextRequest{Count: 1}
	if _, err := raw.Next(t.Context(), req); err != nil { // the client learns the limit
		t.Fatal(err)
	}
	large := metadata.AppendToOutgoingContext(t.Context(), "x", strings.Repeat("x", maxHeaderBytes))
	if _, err := raw.Next(large, req); err == nil {
		t.Error("headers above the limit were accepted")
	}
	if _, err := raw.Next(t.Context(), req); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// A connection that has not introduced itself is cut, whatever it has sent so far.
func TestServerCutsSilentConnections(t *testing.T) {
	t.Parallel()
	d := newTLSDir(t)
	plain := startServing(t, NewMemoryStore(), ServerConfig{HandshakeTimeout: 50 * time.Millisecond})
	secure := startServing(t, NewMemoryStore(), ServerConfig{HandshakeTimeout: 50 * time.Millisecond, Credentials: d.serverCreds(t)})
	hello := clientHello(t)
	for name, c := range map[string]struct {
		address, sent string
	}{
		"nothing":              {plain.address, ""},
		"half a preface":       {plain.address, http2Preface[:12]},
		"a preface only":       {plain.address, http2Preface},
		"half a frame":         {plain.address, http2Preface + "\x00\x00\x06\x04"},
		"nothing, TLS":         {secure.address, ""},
		"half a hello, TLS":    {secure.address, hello[:len(hello)/2]},
		"a whole hello, TLS":   {secure.address, hello},
		"a preface in the TLS": {secure.address, http2Preface},
	} {
		conn := mustConnect(t, c.address)
		if _, err := io.WriteString(conn, c.sent); err != nil {
			t.Fatal(err)
		}
		_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
		if _, err := io.Copy(io.Discard, conn); isTimeout(err) {
			t.Errorf("%s: not cut", name)
		}
	}
	mustNext(t, dial(t, plain.address))
	mustNext(t, dial(t, secure.address, WithTransportCredentials(d.clientCreds(t))))
}

func isTimeout(err error) bool {
	timeout, ok := err.(net.Error)
	return ok && timeout.Timeout()
}

const http2Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// clientHello returns what a TLS client sends first.
func clientHello(t *testing.T) string {
	t.Helper()
	here, there := net.Pipe()
	defer func() { _, _ = here.Close(), there.Close() }()
	go func() { _ = tls.Client(there, &tls.Config{ServerName: "localhost"}).Handshake() }()
	header := make([]byte, 5)
	if _, err := io.ReadFull(here, header); err != nil {
		t.Fatal(err)
	}
	body := make([]byte, binary.BigEndian.Uint16(header[3:]))
	if _, err := io.ReadFull(here, body); err != nil {
		t.Fatal(err)
	}
	return string(header) + string(body)
}

// Connections on which nobody calls are closed, and made again when they are needed.
func TestServerClosesIdleConnections(t *testing.T) {
	t.Parallel()
	s := startServing(t, NewMemoryStore(), ServerConfig{IdleTimeout: 50 * time.Millisecond})
	conn, err := grpc.NewClient(s.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	h := healthpb.NewHealthClient(conn)
	for range 2 {
		checkHealth(t, h, "")
		eventually(t, "the connection is closed", func() bool { return conn.GetState() == connectivity.Idle })
	}
}

// Nothing that a stranger sends ends the server, with TLS or without.
func TestServerSurvivesGarbage(t *testing.T) {
	t.Parallel()
	d := newTLSDir(t)
	plain := startServing(t, NewMemoryStore(), ServerConfig{HandshakeTimeout: 100 * time.Millisecond})
	secure := startServing(t, NewMemoryStore(), ServerConfig{HandshakeTimeout: 100 * time.Millisecond, Credentials: d.serverCreds(t)})
	random := rand.New(rand.NewPCG(1, 2))
	hello := clientHello(t)
	for i := range 100 {
		for address, start := range map[string]string{plain.address: http2Preface + settings, secure.address: hello} {
			conn := mustConnect(t, address)
			_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
			if i%4 != 0 {
				_, _ = io.WriteString(conn, start)
			}
			_, _ = conn.Write(garbage(random))
			if i%2 == 0 {
				_ = conn.Close() // or leave the server waiting for more
			}
		}
	}
	mustNext(t, dial(t, plain.address))
	mustNext(t, dial(t, secure.address, WithTransportCredentials(d.clientCreds(t))))
}

// settings is an empty SETTINGS frame, after which a connection counts as introduced.
const settings = "\x00\x00\x00\x04\x00\x00\x00\x00\x00"

// garbage is a few frames of HTTP/2 with whatever inside, and sometimes not even that.
func garbage(random *rand.Rand) []byte {
	var b bytes.Buffer
	for range 1 + random.IntN(8) {
		body := make([]byte, random.IntN(64))
		for i := range body {
			body[i] = byte(random.Uint32())
		}
		if random.IntN(4) > 0 {
			length := len(body)
			if random.IntN(8) == 0 {
				length = random.IntN(1 << 24)
			}
			b.Write([]byte{byte(length >> 16), byte(length >> 8), byte(length), byte(random.IntN(12)), byte(random.Uint32())})
			b.Write(binary.BigEndian.AppendUint32(nil, random.Uint32N(8)))
		}
		b.Write(body)
	}
	return b.Bytes()
}

// Register adds services; reflection and the like are off without it.
func TestServerRegister(t *testing.T) {
	t.Parallel()
	var names []string
	s := startServing(t, NewMemoryStore(), ServerConfig{Register: func(rpc *grpc.Server) {
		for name := range rpc.GetServiceInfo() {
			names = append(names, name)
		}
	}})
	mustNext(t, dial(t, s.address))
	for _, name := range names {
		if strings.Contains(name, "reflection") {
			t.Errorf("%s is on", name)
		}
	}
	if len(names) < 3 {
		t.Errorf("services %v", names)
	}
}

// Watchers of health, who stay, do not take the slots of calls for timestamps.
func TestWatchersLeaveRoomForTimestamps(t *testing.T) {
	t.Parallel()
	s := startServing(t, NewMemoryStore(), ServerConfig{MaxCalls: 4, PeerShare: 100})
	client := dial(t, s.address)
	defer watchers(t, healthClient(t, s.address), 4)()
	mustNext(t, client)
}

// Calls that wait for hints neither take the slots of calls for timestamps, nor does one peer take
// those of all who wait.
func TestWaitingCallsLeaveRoomForTimestamps(t *testing.T) {
	t.Parallel()
	s := startServing(t, NewMemoryStore(), ServerConfig{MaxCalls: 4, PeerShare: 50})
	client := dial(t, s.address)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	wait := func(host string) chan error {
		ended := make(chan error, 8)
		h := tsopb.NewHintsClient(connectFrom(t, host, s.address))
		for range cap(ended) {
			go func() {
				_, err := h.TakeHints(ctx, &tsopb.TakeHintsRequest{Topics: []uint64{1}, Most: 1, WaitMs: maxHintWait.Milliseconds()})
				ended <- err
			}()
		}
		return ended
	}
	waiting := func(want int) {
		t.Helper()
		eventually(t, "calls wait", func() bool {
			table := s.liveness.current.Load().hints
			table.mu.Lock()
			defer table.mu.Unlock()
			topic := table.topics[1]
			return topic != nil && topic.takers.Len() == want
		})
	}
	first := wait("127.0.0.2")
	for range 6 {
		if err := <-first; status.Code(err) != codes.ResourceExhausted {
			t.Fatalf("a call above the share: %v", err)
		}
	}
	waiting(2)
	wait("127.0.0.3")
	waiting(4)
	mustNext(t, client)
}
