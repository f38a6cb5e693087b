package emulatorhost

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"
)

func listen(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestAwaitIsPatientAndNamesTheAddress(t *testing.T) {
	l := listen(t)
	server := grpc.NewServer()
	btpb.RegisterBigtableServer(server, btpb.UnimplementedBigtableServer{})
	go func() { _ = server.Serve(l) }()
	defer server.Stop()
	address := l.Addr().String()
	for _, set := range []string{"", address, "http://" + address} {
		t.Setenv(Bigtable, set)
		if err := Await(t.Context(), Bigtable); err != nil {
			t.Errorf("%q: %v", set, err)
		}
	}
	server.Stop()
	synctest.Test(t, func(t *testing.T) { // sockets that refuse do not hold its time up
		started := time.Now()
		err := Await(t.Context(), Bigtable)
		if op, ok := errors.AsType[*net.OpError](err); !ok || op.Addr.String() != address || !errors.Is(err, syscall.ECONNREFUSED) || !errors.Is(err, ErrNone) {
			t.Errorf("nobody listens: %v", err)
		}
		if waited := time.Since(started); waited != patience {
			t.Errorf("an emulator that starts had %v, not %v", waited, patience)
		}
	})
	ended, end := context.WithCancel(t.Context())
	end()
	if err := Await(ended, Bigtable); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that has ended: %v", err)
	}
}

// What listens need not be an emulator: a port that accepts and never answers, one that speaks
// HTTP/1, as the console's does, and an oracle are wrong addresses like one where nobody listens.
func TestAwaitWhatIsNoEmulator(t *testing.T) {
	for name, c := range map[string]struct {
		said  string
		serve func(net.Listener)
	}{
		"silent": {"no answer within 2s", func(l net.Listener) {
			conn, err := l.Accept()
			if err == nil {
				_, _ = io.Copy(io.Discard, conn)
			}
		}},
		"HTTP/1": {"a server that does not speak gRPC", func(l net.Listener) {
			_ = http.Serve(l, http.NotFoundHandler())
		}},
		"oracle": {"a server of other services than google.bigtable.v2.Bigtable", func(l net.Listener) {
			_ = grpc.NewServer().Serve(l)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const address = "127.0.0.1:8086"
				l := bufconn.Listen(1 << 16)
				defer l.Close()
				go c.serve(l)
				started := time.Now()
				err := await(t.Context(), Bigtable, address, func(ctx context.Context, _, _ string) (net.Conn, error) {
					conn, err := l.DialContext(ctx)
					if err == nil {
						t.Cleanup(func() { _ = conn.Close() })
					}
					return conn, err
				})
				if !errors.Is(err, ErrNone) || !strings.Contains(err.Error(), c.said) || !strings.Contains(err.Error(), "BIGTABLE_EMULATOR_HOST="+address) {
					t.Errorf("%v, want %q", err, c.said)
				}
				if took := time.Since(started); took > patience {
					t.Errorf("%s after %v", c.said, took)
				}
			})
		})
	}
}

// An address that cannot be one is refused at once: waiting does not give it a port.
func TestAwaitRefusesWhatIsNoAddress(t *testing.T) {
	for _, address := range []string{"127.0.0.1", "localhost", "127.0.0.1:0", "127.0.0.1:99999", "127.0.0.1:abc", "http://127.0.0.1:8086/"} {
		t.Setenv(Bigtable, address)
		started := time.Now()
		if err := Await(t.Context(), Bigtable); !errors.Is(err, ErrAddress) {
			t.Errorf("%q: %v", address, err)
		}
		if took := time.Since(started); took > patience {
			t.Errorf("%q was refused after %v", address, took)
		}
	}
}

func BenchmarkAwait(b *testing.B) {
	l := listen(b)
	server := grpc.NewServer()
	btpb.RegisterBigtableServer(server, btpb.UnimplementedBigtableServer{})
	go func() { _ = server.Serve(l) }()
	defer server.Stop()
	b.Setenv(Bigtable, l.Addr().String())
	for b.Loop() {
		if err := Await(b.Context(), Bigtable); err != nil {
			b.Fatal(err)
		}
	}
}
