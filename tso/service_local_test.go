package tso

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/tso/tsopb"
)

// throughLocal has a client call a server over Local.
func throughLocal(s *Server) DialOption {
	conn := s.Local()
	return WithGRPCDialOptions(grpc.WithUnaryInterceptor(
		func(ctx context.Context, method string, req, reply any, _ *grpc.ClientConn, _ grpc.UnaryInvoker, _ ...grpc.CallOption) error {
			return conn.Invoke(ctx, method, req, reply)
		}))
}

func TestLocalAnswersAsServeDoes(t *testing.T) {
	s, err := NewServer(NewMemoryStore(), ServerConfig{MaxCalls: 100})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tsopb.NewOracleClient(s.Local()).Next(t.Context(), &tsopb.NextRequest{Count: 1}); notLeader(err) == nil {
		t.Fatalf("before Run: %v, want one that says that nobody leads", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	client, err := Dial(t.Context(), "127.0.0.1:1", throughLocal(s)) // where nobody listens
	if err != nil {
		t.Fatal(err)
	}
	before, err := client.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if after, err := client.Next(t.Context()); err != nil || after <= before {
		t.Fatalf("Next: %d, %v after %d", after, err, before)
	}
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}

// notLeader returns what a call's status says of who leads.
func notLeader(err error) *tsopb.NotLeader {
	for _, d := range status.Convert(err).Details() {
		if n, ok := d.(*tsopb.NotLeader); ok {
			return n
		}
	}
	return nil
}

func TestLocalRefusesAsServeDoes(t *testing.T) {
	s, err := NewServer(NewMemoryStore(), ServerConfig{MaxCalls: 1})
	if err != nil {
		t.Fatal(err)
	}
	conn := s.Local()
	oracle := tsopb.NewOracleClient(conn)
	if _, err := oracle.Next(t.Context(), &tsopb.NextRequest{Count: MaxBatch + 1}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("too many timestamps: %v", err)
	}
	if err := conn.Invoke(t.Context(), "/no/such", &tsopb.NextRequest{}, &tsopb.NextResponse{}); status.Code(err) != codes.Unimplemented {
		t.Errorf("an unknown method: %v", err)
	}
	if _, err := conn.NewStream(t.Context(), &grpc.StreamDesc{}, "/no/such"); status.Code(err) != codes.Unimplemented {
		t.Errorf("a stream: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	cancel()
	if _, err := oracle.Next(ctx, &tsopb.NextRequest{Count: 1}); status.Code(err) != codes.Canceled {
		t.Errorf("a call whose caller has left: %v", err)
	}
}

func TestLocalCallsAreBounded(t *testing.T) {
	s, err := NewServer(NewMemoryStore(), ServerConfig{MaxCalls: 1, PeerShare: 100})
	if err != nil {
		t.Fatal(err)
	}
	conn := s.Local().(*local)
	if !conn.calls.calls.Take("", 1) {
		t.Fatal("no slot for the first call")
	}
	if _, err := tsopb.NewOracleClient(conn).Next(t.Context(), &tsopb.NextRequest{Count: 1}); !errors.Is(err, errTooManyCalls) {
		t.Errorf("a second call at once: %v", err)
	}
}
