package emulator

import (
	"errors"
	"fmt"
	"math"
	"os"
	"sync"
	"time"

	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"cloud.google.com/go/bigtable/bttest"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
)

// maxMessageSize bounds one request and one response, in bytes: what the Bigtable client allows
// too.
const maxMessageSize = 256 << 20

// Server is a running emulator. Its methods are safe for concurrent use.
type Server struct {
	bigtable *bttest.Server
	listener *listener
	guard    *guard
	calls    *calls
	close    sync.Once
}

// Option changes how Start runs the emulator.
type Option func(*settings)

type settings struct {
	address string // "": in memory alone
	rules   rules
	disks   *Disks
	pages   pageLimits
	holding func(*btpb.ReadRowsRequest) // called under the table's lock before the page is read
	changed func(table, row string)

	judge     func(Request) error
	processor *Processor
}

// Address makes the emulator listen on addr (host:port) instead of on a free port of 127.0.0.1.
func Address(addr string) Option {
	return func(s *settings) { s.address = addr }
}

// InMemory makes the emulator serve its ClientOptions alone, by connections in memory, instead of
// listening on the network: so it works in a bubble of testing/synctest. Its Addr is no address.
func InMemory() Option {
	return func(s *settings) { s.address = "" }
}

// OnChange makes the emulator call f before each mutation with the full name of the table and the
// row (the first row of a bulk mutation), and before each change of a table with the row "". f may
// run concurrently, and the request waits for it.
func OnChange(f func(table, row string)) Option {
	return func(s *settings) { s.changed = f }
}

// Start runs the official emulator in this process, on a free loopback port unless Address says
// otherwise. It serves from when Start returns until Close. Errors: those of listening.
func Start(opts ...Option) (*Server, error) {
	s, err := prepare(opts)
	if err != nil {
		return nil, err
	}
	s.listener.open()
	return s, nil
}

// prepare is Start for this process alone: others are not served until the listener is opened.
func prepare(opts []Option) (*Server, error) {
	s := settings{address: "127.0.0.1:0", rules: defaultRules(), pages: defaultPageLimits}
	for _, o := range opts {
		o(&s)
	}
	g := &guard{rules: s.rules, disks: s.disks, processor: s.processor, pages: s.pages, holding: s.holding, judge: s.judge,
		names: make(map[string]map[string]struct{}), onChange: s.changed}
	l, err := listen(s.address)
	if err != nil {
		return nil, fmt.Errorf("emulator: listening on %s: %w", s.address, err)
	}
	g.calls = newCalls(g)
	bt, err := bttest.NewServerWithListener(l,
		grpc.MaxRecvMsgSize(maxMessageSize),
		grpc.MaxSendMsgSize(maxMessageSize),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}),
		grpc.ChainUnaryInterceptor(recoverUnary, g.unary),
		grpc.ChainStreamInterceptor(recoverStream, g.stream),
	)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("emulator: serving on %s: %w", s.address, err), l.Close())
	}
	return &Server{bigtable: bt, listener: l, guard: g, calls: g.calls}, nil
}

// Addr returns the host:port on which the emulator listens, usable as BIGTABLE_EMULATOR_HOST.
func (s *Server) Addr() string { return s.bigtable.Addr }

// ClientOptions returns the options with which a Bigtable data or admin client connects to this
// emulator, whatever BIGTABLE_EMULATOR_HOST says: no encryption, no credentials, messages up to 256
// MiB. Each client has its own connection, so any number of clients can share the options, and
// callers may append gRPC dial options (interceptors, say).
func (s *Server) ClientOptions() []option.ClientOption {
	if s.listener.network != nil {
		return Connect(s.Addr())
	}
	return append(Connect("passthrough:///emulator"), option.WithGRPCDialOption(grpc.WithContextDialer(s.listener.dial)))
}

// Connect returns the options of ClientOptions for the emulator that listens on addr (host:port),
// in this process or another.
func Connect(addr string) []option.ClientOption {
	opts := []option.ClientOption{
		option.WithEndpoint(addr),
		option.WithoutAuthentication(),
		option.WithTelemetryDisabled(),
		option.WithGRPCConnectionPool(1),
		option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())),
		option.WithGRPCDialOption(grpc.WithDefaultCallOptions(
			grpc.MaxCallSendMsgSize(maxMessageSize),
			grpc.MaxCallRecvMsgSize(maxMessageSize),
		)),
		// Google's emulator closes connections that ask more often than every 5 minutes.
		option.WithGRPCDialOption(grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: math.MaxInt64})),
	}
	if os.Getenv("BIGTABLE_EMULATOR_HOST") != "" {
		// The client dials that by itself and prefers the connection to any endpoint: take it away
		// again. Only then, as it takes Google's pool of primed connections away too.
		opts = append(opts, option.WithGRPCConn(nil))
	}
	return opts
}

// Close stops the emulator, ends every connection, and frees what is stored. A second Close does
// nothing. The error is always nil.
func (s *Server) Close() error {
	s.close.Do(func() {
		close(s.calls.over)
		_ = s.listener.Close() // first: the server does not close it, and waits for Accept
		s.bigtable.Close()
	})
	return nil
}
