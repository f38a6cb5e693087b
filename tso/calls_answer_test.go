package tso

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/encoding/gzip"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	grpcpeer "google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/gopercolator/percolator/tso/tsopb"
)

// framed returns a message as gRPC sends it.
func framed(t testing.TB, msg proto.Message) []byte {
	t.Helper()
	body, err := proto.Marshal(msg)
	if err != nil {
		t.Fatal(err)
	}
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(body))), body...)
}

// endedSessions asks for an answer of 62 kB.
func endedSessions() *tsopb.EndedSessionsRequest {
	return &tsopb.EndedSessionsRequest{Ids: slices.Repeat([]string{strings.Repeat("x", 60)}, 1000)}
}

// callUnread makes a call whose answer waits for a window, which the peer has promised not to give.
func callUnread(framer *http2.Framer, stream uint32, method string, message []byte, header ...[2]string) error {
	return errors.Join(beginCall(framer, stream, method, header...), writeFrames(framer, stream, message, 16<<10),
		framer.WriteData(stream, true, nil))
}

// introduceWithoutWindow completes the handshake, and gives streams no window.
func introduceWithoutWindow(t testing.TB, conn net.Conn) *http2.Framer {
	t.Helper()
	framer, err := introduce(conn, conn)
	if err == nil {
		err = framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	}
	if err != nil {
		t.Fatal(err)
	}
	return framer
}

// nextHeaders reads until the headers of a call, and reports whether the call has ended with them.
func nextHeaders(t testing.TB, framer *http2.Framer) (ended bool) {
	t.Helper()
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		if h, ok := frame.(*http2.HeadersFrame); ok {
			return h.StreamEnded()
		}
	}
}

// A peer that gives streams no window, and otherwise reads what it is sent, must not have the
// server keep its answers: they are bounded like unfinished messages.
func TestUnreadAnswersAreNotKept(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: takes longer than a second")
	}
	s := startServing(t, NewMemoryStore(), ServerConfig{PeerShare: 100})
	mustNext(t, dial(t, s.address))
	message := framed(t, endedSessions())
	before := heapInUse()
	const connections, calls = 8, 100
	for range connections {
		conn := mustConnectFrom(t, attackerHost, s.address)
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		framer := introduceWithoutWindow(t, conn)
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range calls {
				nextHeaders(t, framer)
			}
		}()
		for i := range calls {
			if err := callUnread(framer, uint32(2*i+1), tsopb.Sessions_EndedSessions_FullMethodName, message); err != nil {
				t.Fatal(err)
			}
		}
		<-done
	}
	if kept := heapInUse() - before; kept > connections*calls*len(message)/4 {
		t.Errorf("the server keeps %d kB for %d answers that nobody reads", kept>>10, connections*calls)
	}
}

func heapInUse() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// A call counts until its answer is written, also where its peer asks for compression, and no
// longer: not when the peer gives its streams a window, ends them, or is gone.
func TestCallsCountUntilTheirAnswersAreWritten(t *testing.T) {
	t.Parallel()
	const calls = 8
	for name, c := range map[string]struct {
		header [][2]string
		end    func(conn net.Conn, framer *http2.Framer) error
	}{
		"a window": {nil, func(_ net.Conn, framer *http2.Framer) error {
			return framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 10})
		}},
		"a window, compressed": {[][2]string{{"grpc-encoding", gzip.Name}}, func(_ net.Conn, framer *http2.Framer) error {
			return framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 10})
		}},
		"cancelled": {nil, func(_ net.Conn, framer *http2.Framer) error {
			var errs []error
			for i := range calls {
				errs = append(errs, framer.WriteRSTStream(uint32(2*i+1), http2.ErrCodeCancel))
			}
			return errors.Join(errs...)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startServing(t, NewMemoryStore(), ServerConfig{MaxCalls: calls, PeerShare: 100})
			other := rawClient(t, s.address)
			req := &tsopb.NextRequest{Count: 1}
			eventually(t, "it leads", func() bool {
				_, err := other.Next(t.Context(), req)
				return err == nil
			})
			conn := mustConnect(t, s.address)
			_ = conn.SetDeadline(time.Now().Add(time.Minute))
			framer := introduceWithoutWindow(t, conn)
			for i := range calls {
				if err := callUnread(framer, uint32(2*i+1), tsopb.Oracle_Next_FullMethodName, framed(t, req), c.header...); err != nil {
					t.Fatal(err)
				}
				if nextHeaders(t, framer) {
					t.Fatalf("call %d is refused", i)
				}
			}
			if _, err := other.Next(t.Context(), req); status.Code(err) != codes.ResourceExhausted {
				t.Errorf("one above the bound: %v", err)
			}
			if err := c.end(conn, framer); err != nil {
				t.Fatal(err)
			}
			eventually(t, "calls count no longer", func() bool {
				_, err := other.Next(t.Context(), req)
				return err == nil
			})
		})
	}
}

// An answer has its time to be written: then its connection is closed, and none other.
func TestUnreadAnswersHaveTheirTime(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		guard := newConnGuard(nil, 100, 25)
		a := newAnswers(newCallCap(1000, 25), 25, guard.closePeer)
		connect := func() (net.Conn, context.Context) {
			here, there := net.Pipe()
			t.Cleanup(func() { _ = there.Close() })
			conn := guard.admit(here)
			return conn, grpcpeer.NewContext(t.Context(), &grpcpeer.Peer{Addr: conn.RemoteAddr()})
		}
		call := func(ctx context.Context, resp any) (*answer, error) {
			out, err := a.unary(ctx, nil, &grpc.UnaryServerInfo{}, func(context.Context, any) (any, error) { return resp, nil })
			if err != nil {
				return nil, err
			}
			return out.(*answer), nil
		}
		must := func(out *answer, err error) *answer {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			return out
		}
		check := func(when string, calls, bytes, conns int) {
			t.Helper()
			synctest.Wait()
			guard.mu.Lock()
			open := len(guard.conns)
			guard.mu.Unlock()
			if a.calls.calls.Used() != calls || a.bytes.Used() != bytes || open != conns {
				t.Errorf("%s: %d calls, %d bytes and %d connections, want %d, %d and %d", when,
					a.calls.calls.Used(), a.bytes.Used(), open, calls, bytes, conns)
			}
		}
		small, large := &tsopb.NextResponse{First: 1}, &tsopb.EndedSessionsResponse{Ids: endedSessions().GetIds()}
		stuck, there := connect()
		reads, here := connect()
		one, two := must(call(there, small)), must(call(there, large))
		read := must(call(here, large))
		check("at first", 3, 2*maxSessionsBytes, 2)
		data, err := newAnswerCodec().Marshal(read)
		if want, _ := proto.Marshal(large); err != nil || string(data.Materialize()) != string(want) {
			t.Errorf("the answer is another, %v", err)
		}
		data.Free()
		check("when one is written", 2, maxSessionsBytes, 2)
		time.Sleep(maxUnread - 1)
		check("before the time is up", 2, maxSessionsBytes, 2)
		time.Sleep(time.Nanosecond)
		check("when it is up", 0, 0, 1)
		if _, err := stuck.Write([]byte{1}); err == nil {
			t.Error("the connection is not closed")
		}
		one.Put(one.buf) // late
		two.Put(two.buf)
		check("when gRPC gives them back", 0, 0, 1)

		// Above the bound of bytes, large answers are refused, and others are not.
		n := 0
		for ; ; n++ {
			if _, err := call(here, large); status.Code(err) == codes.ResourceExhausted {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
		if want := maxUnreadBytes / 4 / maxSessionsBytes; n != want {
			t.Errorf("%d large answers at once, want %d", n, want)
		}
		must(call(here, small))
		check("above the bound", n+1, n*maxSessionsBytes, 1)
		_ = reads.Close()
		time.Sleep(maxUnread)
		check("in the end", 0, 0, 0)
	})
}

// sink is a stream that nobody reads.
type sink struct {
	grpc.ServerStream
	ctx  context.Context
	sent []*answer
}

func (s *sink) Context() context.Context { return s.ctx }
func (s *sink) SendMsg(m any) error      { s.sent = append(s.sent, m.(*answer)); return nil }

// A stream counts until its handler has returned and what it has sent is written.
func TestStreamsCountUntilTheirMessagesAreWritten(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		a := newAnswers(newCallCap(100, 25), 25, func(net.Addr) {})
		stream := &sink{ctx: from(t.Context(), "192.0.2.1")}
		err := a.stream(nil, stream, nil, func(_ any, stream grpc.ServerStream) error {
			return errors.Join(stream.SendMsg(&tsopb.NextResponse{}), stream.SendMsg(&tsopb.NextResponse{First: 1}))
		})
		if err != nil {
			t.Fatal(err)
		}
		for i, out := range stream.sent {
			if a.calls.streams.Used() != 1 {
				t.Errorf("%d are written: %d streams count", i, a.calls.streams.Used())
			}
			out.Put(out.buf)
		}
		if n := a.calls.streams.Used(); n != 0 || len(stream.sent) != 2 {
			t.Errorf("%d streams count after %d messages", n, len(stream.sent))
		}
	})
}

// pipes is a listener for connections within the process.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	conn, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}

func (p pipes) Close() error { close(p); return nil }

func (p pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

// A server closes the connection of a peer that takes no answers, with TLS and without, and no
// other.
func TestServerClosesConnectionsWithUnreadAnswers(t *testing.T) {
	for name, secure := range map[string]bool{"plaintext": false, "TLS": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				var cfg ServerConfig
				var creds credentials.TransportCredentials
				if secure {
					d := newTLSDir(t)
					cfg.Credentials, creds = d.serverCreds(t), d.clientCreds(t)
				}
				server, err := NewServer(NewMemoryStore(), cfg)
				if err != nil {
					t.Fatal(err)
				}
				l, ended := make(pipes), make(chan error, 1)
				ctx, stop := context.WithCancel(t.Context())
				go func() { ended <- server.Serve(ctx, l) }()
				connect := func() (framer *http2.Framer, closed chan struct{}) {
					conn, there := net.Pipe()
					l <- there
					if secure {
						if conn, _, err = creds.ClientHandshake(t.Context(), "127.0.0.1", conn); err != nil {
							t.Fatal(err)
						}
					}
					closed = make(chan struct{})
					go func() {
						defer close(closed)
						_, _ = io.Copy(io.Discard, conn)
					}()
					if framer, err = introduce(conn, conn); err != nil {
						t.Fatal(err)
					}
					return framer, closed
				}
				check := func(framer *http2.Framer, stream uint32) error {
					return callUnread(framer, stream, healthpb.Health_Check_FullMethodName, make([]byte, 5))
				}
				unread, closed := connect()
				reads, stays := connect()
				err = errors.Join(unread.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}), check(reads, 1))
				started := time.Now()
				if err = errors.Join(err, check(unread, 1)); err != nil {
					t.Fatal(err)
				}
				<-closed
				if d := time.Since(started); d != maxUnread {
					t.Errorf("closed after %v, want %v", d, maxUnread)
				}
				if err := check(reads, 3); err != nil {
					t.Errorf("the other connection: %v", err)
				}
				select {
				case <-stays:
					t.Error("the other connection is closed")
				default:
				}
				stop()
				if err := <-ended; err != nil {
					t.Error(err)
				}
				<-stays
			})
		})
	}
}
