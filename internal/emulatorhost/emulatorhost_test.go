package emulatorhost

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/grpc"
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
	if testing.Short() {
		t.Skip("-short: takes longer than a second")
	}
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
	begun := time.Now()
	err := Await(t.Context(), Bigtable)
	if op, ok := errors.AsType[*net.OpError](err); !ok || op.Addr.String() != address || !errors.Is(err, syscall.ECONNREFUSED) || !errors.Is(err, ErrNone) {
		t.Errorf("nobody listens: %v", err)
	}
	if waited := time.Since(begun); waited < patience {
		t.Errorf("an emulator that starts had %v, not %v", waited, patience)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := Await(ended, Bigtable); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that has ended: %v", err)
	}
}

// What listens need not be an emulator: a port that accepts and never answers, one that speaks
// HTTP/1, as the console's does, and an oracle are wrong addresses like one where nobody listens.
func TestAwaitWhatIsNoEmulator(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: takes longer than a second")
	}
	silent := listen(t)
	defer silent.Close()
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	l := listen(t)
	oracle := grpc.NewServer()
	go func() { _ = oracle.Serve(l) }()
	defer oracle.Stop()
	for address, said := range map[string]string{
		silent.Addr().String():       "no answer within 2s",
		web.Listener.Addr().String(): "a server that does not speak gRPC",
		l.Addr().String():            "a server of other services than google.bigtable.v2.Bigtable",
	} {
		t.Setenv(Bigtable, address)
		begun := time.Now()
		err := Await(t.Context(), Bigtable)
		if !errors.Is(err, ErrNone) || !strings.Contains(err.Error(), said) || !strings.Contains(err.Error(), "BIGTABLE_EMULATOR_HOST="+address) {
			t.Errorf("%v, want %q", err, said)
		}
		if took := time.Since(begun); took > 3*time.Second {
			t.Errorf("%s after %v", said, took)
		}
	}
}

// An address that cannot be one is refused at once: waiting does not give it a port.
func TestAwaitRefusesWhatIsNoAddress(t *testing.T) {
	for _, address := range []string{"127.0.0.1", "localhost", "127.0.0.1:0", "127.0.0.1:99999", "127.0.0.1:abc", "http://127.0.0.1:8086/"} {
		t.Setenv(Bigtable, address)
		begun := time.Now()
		if err := Await(t.Context(), Bigtable); !errors.Is(err, ErrAddress) {
			t.Errorf("%q: %v", address, err)
		}
		if took := time.Since(begun); took > patience {
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
