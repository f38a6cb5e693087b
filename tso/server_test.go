package tso

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/tso/internal/record"
	"github.com/gopercolator/percolator/tso/tsopb"
)

// served is a server that listens on loopback.
type served struct {
	*Server
	address string
	stop    context.CancelFunc
	ended   chan error
}

// startServing runs a server until the test ends.
func startServing(t *testing.T, store Store, cfg ServerConfig) *served {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serveOn(t, l, store, cfg)
}

// serveOn is serve with a listener.
func serveOn(t *testing.T, l net.Listener, store Store, cfg ServerConfig) *served {
	t.Helper()
	server, err := NewServer(store, cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &served{Server: server, address: l.Addr().String(), stop: cancel, ended: make(chan error, 1)}
	go func() { s.ended <- server.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		<-server.ended
	})
	return s
}

func rawClient(t *testing.T, address string) tsopb.OracleClient {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return tsopb.NewOracleClient(conn)
}

func TestServerConfigBounds(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]ServerConfig{
		"window too short":        {Window: time.Microsecond},
		"window too long":         {Window: 2 * time.Hour},
		"negative window":         {Window: -1},
		"lease too short":         {Lease: time.Millisecond},
		"lease too long":          {Lease: 2 * time.Hour},
		"a negative share":        {PeerShare: -1},
		"more than there is":      {PeerShare: 101},
		"no connections":          {MaxConnections: -1},
		"no streams":              {MaxStreams: -1},
		"too many streams":        {MaxStreams: 1 << 32},
		"advertises no port":      {Advertise: "host"},
		"advertises everything":   {Advertise: "0.0.0.0:7070"},
		"advertises all of IPv6":  {Advertise: "[::]:7070"},
		"advertises no host":      {Advertise: ":7070"},
		"advertises a long name":  {Advertise: strings.Repeat("h", record.MaxAddressBytes) + ":7070"},
		"advertises port 65536":   {Advertise: "host:65536"},
		"advertises a named port": {Advertise: "host:http"},
	} {
		if _, err := NewServer(NewMemoryStore(), cfg); !errors.Is(err, ErrInvalidArgument) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := NewServer(nil, ServerConfig{}); !errors.Is(err, ErrInvalidArgument) {
		t.Errorf("no store: %v", err)
	}
	if _, err := NewServer(NewMemoryStore(), ServerConfig{}); err != nil {
		t.Errorf("the zero configuration: %v", err)
	}
}

// fakeListener is a listener at an address where the machine has none.
type fakeListener struct {
	net.Listener
	addr   net.Addr
	closed bool
}

func (l *fakeListener) Addr() net.Addr { return l.addr }
func (l *fakeListener) Close() error   { l.closed = true; return nil }

func TestServerPlaintextStaysOnLoopback(t *testing.T) {
	t.Parallel()
	public := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 7070}
	unspecified := &net.TCPAddr{IP: net.IPv6zero, Port: 7070}
	for name, c := range map[string]struct {
		addr net.Addr
		cfg  ServerConfig
		want string
	}{
		"a public address":     {public, ServerConfig{}, "AllowPlaintext"},
		"every address":        {unspecified, ServerConfig{Advertise: "host:7070"}, "AllowPlaintext"},
		"nothing to advertise": {unspecified, ServerConfig{AllowPlaintext: true}, "Advertise"},
	} {
		server, err := NewServer(NewMemoryStore(), c.cfg)
		if err != nil {
			t.Fatal(err)
		}
		l := &fakeListener{addr: c.addr}
		if err := server.Serve(t.Context(), l); !errors.Is(err, ErrInvalidArgument) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if !l.closed {
			t.Errorf("%s: the listener was left open", name)
		}
	}
}

func TestServerServes(t *testing.T) {
	t.Parallel()
	store := NewMemoryStore()
	s := startServing(t, store, ServerConfig{})
	client := dial(t, s.address)
	before := At(time.Now())
	last := before
	for range 100 {
		ts := mustNext(t, client)
		if ts <= last {
			t.Fatalf("%d after %d", ts, last)
		}
		last = ts
	}
	if ahead := last.Sub(At(time.Now())); ahead > time.Millisecond {
		t.Errorf("timestamps are %v ahead of the clock", ahead)
	}
	if got := stored(t, store).Address; got != s.address {
		t.Errorf("registered as %q, want the listener's %q", got, s.address)
	}
	s.stop()
	if err := <-s.ended; err != nil {
		t.Errorf("Serve returned %v", err)
	}
	if stored(t, store).held() {
		t.Error("the lease was not handed over")
	}
}

func TestServerRefusesBadCounts(t *testing.T) {
	t.Parallel()
	s := startServing(t, NewMemoryStore(), ServerConfig{})
	mustNext(t, s)
	raw := rawClient(t, s.address)
	for _, n := range []uint32{0, MaxBatch + 1, 1<<32 - 1} {
		if _, err := raw.Next(t.Context(), &tsopb.NextRequest{Count: n}); status.Code(err) != codes.InvalidArgument {
			t.Errorf("count %d: %v", n, err)
		}
	}
	resp, err := raw.Next(t.Context(), &tsopb.NextRequest{Count: MaxBatch})
	if err != nil || resp.GetCount() != MaxBatch {
		t.Errorf("the largest block: %v, %v", resp, err)
	}
	if next := mustNext(t, s); int64(next) < resp.GetFirst()+MaxBatch {
		t.Errorf("%d is inside the block from %d", next, resp.GetFirst())
	}
}

func TestServerFollowerNamesTheLeader(t *testing.T) {
	t.Parallel()
	store := NewMemoryStore()
	a := startServing(t, store, ServerConfig{})
	mustNext(t, a)
	b := startServing(t, store, ServerConfig{})
	eventually(t, "the follower knows the leader", func() bool { return b.elector.leaderAddress() != "" })
	_, err := rawClient(t, b.address).Next(t.Context(), &tsopb.NextRequest{Count: 1})
	if status.Code(err) != codes.FailedPrecondition || namedLeader(err) != a.address {
		t.Errorf("the follower answers %v, leader %q, want %q", err, namedLeader(err), a.address)
	}
	client := dial(t, b.address) // knows the follower only
	mustNext(t, client)
}

func TestServerHandsOverToClients(t *testing.T) {
	t.Parallel()
	store := NewMemoryStore()
	a := startServing(t, store, ServerConfig{})
	mustNext(t, a)
	b := startServing(t, store, ServerConfig{})
	client := dial(t, a.address+","+b.address)
	before := mustNext(t, client)
	epoch := stored(t, store).Epoch
	a.stop()
	if err := <-a.ended; err != nil {
		t.Error(err)
	}
	if after := mustNext(t, client); after <= before {
		t.Errorf("%d after %d", after, before)
	}
	if st := stored(t, store); st.Epoch != epoch+1 || st.Address != b.address {
		t.Errorf("stored %+v", st)
	}
}

func TestServerEndsWhenTheRecordIsDamaged(t *testing.T) {
	t.Parallel()
	damaged := &loadStore{Store: NewMemoryStore(), load: func() (State, error) { return State{}, record.Corruptf("found rubbish") }}
	s := startServing(t, damaged, ServerConfig{})
	if err := <-s.ended; !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "rubbish") {
		t.Errorf("Serve returned %v", err)
	}
	if conn, err := net.Dial("tcp", s.address); err == nil {
		_ = conn.Close()
		t.Error("it still listens")
	}
}

func TestServerEndsWhenTheListenerFails(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	store := NewMemoryStore()
	server, err := NewServer(store, ServerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(t.Context(), l) }()
	mustNext(t, server)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil || !strings.Contains(err.Error(), l.Addr().String()) {
		t.Errorf("Serve returned %v", err)
	}
	if stored(t, store).held() {
		t.Error("the lease was not handed over")
	}
}

func TestServerSurvivesRandomBytes(t *testing.T) {
	t.Parallel()
	s := startServing(t, NewMemoryStore(), ServerConfig{})
	for _, junk := range []string{"\x00", "GET / HTTP/1.1\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\xff\xff", strings.Repeat("\xfe", 1<<16)} {
		conn, err := net.Dial("tcp", s.address)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(100 * time.Millisecond))
		_, _ = io.WriteString(conn, junk)
		_, _ = io.Copy(io.Discard, conn)
		_ = conn.Close()
	}
	mustNext(t, dial(t, s.address))
}

func TestServerLimitsRequests(t *testing.T) {
	t.Parallel()
	s := startServing(t, NewMemoryStore(), ServerConfig{})
	mustNext(t, s)
	req := &tsopb.NextRequest{Count: 1}
	req.ProtoReflect().SetUnknown(append([]byte{0x7a, 0x80, 0x80, 0x08}, make([]byte, 1<<17)...)) // field 15, 128 KB
	if _, err := rawClient(t, s.address).Next(t.Context(), req); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a request of 128 KB: %v", err)
	}
}

// What the log says, and what it may not say too often.
func TestServerLogs(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var out strings.Builder
		store := newFaultyStore(NewMemoryStore())
		a := startServer(t, store, ServerConfig{Logger: slog.New(slog.NewTextHandler(&out, nil))})
		time.Sleep(5 * time.Second)
		store.failSwaps(refused)
		time.Sleep(20 * time.Second)
		store.heal()
		time.Sleep(5 * time.Second)
		a.clock.wall.Add(int64(time.Hour))
		time.Sleep(2 * time.Second)
		a.mustTake(t, 1)
		a.clock.wall.Add(-int64(time.Hour))
		time.Sleep(5 * time.Second)
		a.stop()
		if err := a.wait(t); err != nil {
			t.Fatal(err)
		}
		for message, want := range map[string]int{
			"leading the oracle":                               1,
			"the oracle's record cannot be written":            1,
			"the oracle's store answers again":                 1,
			"the clock has jumped":                             2,
			"the clock is behind the timestamps served so far": 1,
			"handed the oracle's lease over":                   1,
		} {
			if got := strings.Count(out.String(), message); got != want {
				t.Errorf("%q is logged %d times, want %d", message, got, want)
			}
		}
		if t.Failed() {
			t.Log(out.String())
		}
	})
}

func TestServerMetrics(t *testing.T) {
	t.Parallel()
	reader := metric.NewManualReader()
	s := startServing(t, NewMemoryStore(), ServerConfig{MeterProvider: metric.NewMeterProvider(metric.WithReader(reader))})
	for range 5 {
		mustNext(t, s)
	}
	var got metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &got); err != nil {
		t.Fatal(err)
	}
	values := map[string]int64{}
	for _, scope := range got.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				values[m.Name] = data.DataPoints[0].Value
			case metricdata.Gauge[int64]:
				values[m.Name] = data.DataPoints[0].Value
			}
		}
	}
	for name, want := range map[string]int64{
		"percolator.tso.timestamps": 5, "percolator.tso.elections": 1, "percolator.tso.leading": 1,
	} {
		if values[name] != want {
			t.Errorf("%s is %d, want %d", name, values[name], want)
		}
	}
	if values["percolator.tso.store.writes"] < 1 {
		t.Errorf("percolator.tso.store.writes is %d", values["percolator.tso.store.writes"])
	}
}
