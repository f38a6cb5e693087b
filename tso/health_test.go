package tso

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

func healthClient(t *testing.T, address string) healthpb.HealthClient {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return healthpb.NewHealthClient(conn)
}

// checkHealth asks for a service.
func checkHealth(t *testing.T, c healthpb.HealthClient, service string) healthpb.HealthCheckResponse_ServingStatus {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	resp, err := c.Check(ctx, &healthpb.HealthCheckRequest{Service: service})
	if err != nil {
		t.Fatal(err)
	}
	return resp.GetStatus()
}

const (
	isServing  = healthpb.HealthCheckResponse_SERVING
	notServing = healthpb.HealthCheckResponse_NOT_SERVING
)

func TestHealthFollowsTheLeader(t *testing.T) {
	t.Parallel()
	store := NewMemoryStore()
	a := startServing(t, store, ServerConfig{})
	mustNext(t, a)
	b := startServing(t, store, ServerConfig{})
	ha, hb := healthClient(t, a.address), healthClient(t, b.address)
	eventually(t, "the leader says so", func() bool {
		return checkHealth(t, ha, "") == isServing && checkHealth(t, ha, oracleService) == isServing
	})
	eventually(t, "the follower is in order", func() bool { return checkHealth(t, hb, "") == isServing })
	if got := checkHealth(t, hb, oracleService); got != notServing {
		t.Errorf("the follower's oracle is %v", got)
	}
	if _, err := ha.Check(t.Context(), &healthpb.HealthCheckRequest{Service: "other"}); status.Code(err) != codes.NotFound {
		t.Errorf("another service: %v", err)
	}

	watch, err := hb.Watch(t.Context(), &healthpb.HealthCheckRequest{Service: oracleService})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []healthpb.HealthCheckResponse_ServingStatus{notServing, isServing} {
		resp, err := watch.Recv()
		if err != nil || resp.GetStatus() != want {
			t.Fatalf("watching the follower: %v, %v, want %v", resp, err, want)
		}
		a.stop()
	}
}

// A server that stops tells its watchers, and does not wait for them to leave.
func TestHealthWhenTheServerStops(t *testing.T) {
	t.Parallel()
	a := startServing(t, NewMemoryStore(), ServerConfig{})
	mustNext(t, a)
	h := healthClient(t, a.address)
	eventually(t, "it serves", func() bool { return checkHealth(t, h, "") == isServing })
	var streams []healthpb.Health_WatchClient
	for service, want := range map[string]healthpb.HealthCheckResponse_ServingStatus{
		"": isServing, oracleService: isServing, "other": healthpb.HealthCheckResponse_SERVICE_UNKNOWN,
	} {
		watch, err := h.Watch(t.Context(), &healthpb.HealthCheckRequest{Service: service})
		if err != nil {
			t.Fatal(err)
		}
		if resp, err := watch.Recv(); err != nil || resp.GetStatus() != want {
			t.Fatalf("watching %q: %v, %v", service, resp, err)
		}
		streams = append(streams, watch)
	}
	a.stop()
	for _, watch := range streams {
		resp, err := watch.Recv()
		for err == nil && resp.GetStatus() == notServing {
			resp, err = watch.Recv()
		}
		// Not Unavailable, which is what a connection that is cut gives.
		if status.Code(err) != codes.Canceled {
			t.Errorf("the stream ended with %v, %v", resp, err)
		}
	}
	if err := <-a.ended; err != nil {
		t.Error(err)
	}
}

func TestHealthWhileTheStoreIsDown(t *testing.T) {
	t.Parallel()
	store := newFaultyStore(NewMemoryStore())
	s := startServing(t, store, ServerConfig{Lease: 300 * time.Millisecond, Window: 300 * time.Millisecond})
	mustNext(t, s)
	h := healthClient(t, s.address)
	for range 2 {
		eventually(t, "it serves", func() bool {
			return checkHealth(t, h, "") == isServing && checkHealth(t, h, oracleService) == isServing
		})
		store.inject(func(string) fault { return refused })
		eventually(t, "it has stopped serving", func() bool {
			return checkHealth(t, h, "") == notServing && checkHealth(t, h, oracleService) == notServing
		})
		if err := s.Status().Ready(); err == nil {
			t.Error("not serving, and ready")
		}
		if err := s.Status().Live(); err != nil {
			t.Errorf("the store is down, not the server: %v", err)
		}
		store.heal()
	}
}

// What the status says in the life of a leader and its follower.
func TestStatusOfLeaderAndFollower(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := newFaultyStore(NewMemoryStore())
		idle, err := NewServer(store, ServerConfig{})
		if err != nil {
			t.Fatal(err)
		}
		wantStatus(t, idle, "", "does not run")

		a := startServer(t, store, ServerConfig{Advertise: "a:7070"})
		time.Sleep(1100 * time.Millisecond) // never at the moment of a renewal
		first := a.mustTake(t, 5)
		b := startServer(t, store, ServerConfig{Advertise: "b:7070"})
		time.Sleep(time.Second)
		wantStatus(t, a.Server, "a:7070", "")
		wantStatus(t, b.Server, "a:7070", "")
		sa, sb := a.Status(), b.Status()
		if !sa.Leading || sa.Served != 5 || sa.Record.Epoch != 1 || sa.Record.HighWater < first+4 || sa.LeaseLeft <= 0 || sa.Address != "a:7070" {
			t.Errorf("the leader's: %+v", sa)
		}
		if sb.Leading || sb.Served != 0 || sb.Record.Epoch != 1 || sb.LeaseLeft != 0 || sb.Server == sa.Server {
			t.Errorf("the follower's: %+v", sb)
		}

		store.inject(func(string) fault { return refused })
		time.Sleep(time.Second)
		if sa := a.Status(); !sa.Leading || !errors.Is(sa.StoreError, errStore) {
			t.Errorf("in its last window the leader's is %+v", sa)
		}
		time.Sleep(3 * time.Second)
		wantStatus(t, a.Server, "a:7070", "store has not answered for")
		wantStatus(t, b.Server, "", "store has not answered for")
		store.heal()
		time.Sleep(5 * time.Second)
		leading := 0
		for _, s := range []*runner{a, b} {
			st := s.Status()
			if err := st.Ready(); err != nil || st.StoreError != nil {
				t.Errorf("after the store came back: %v, %v", err, st.StoreError)
			}
			if st.Leading {
				leading++
			}
		}
		if leading != 1 {
			t.Errorf("%d servers lead", leading)
		}

		a.stop()
		if err := a.wait(t); err != nil {
			t.Error(err)
		}
		wantStatus(t, a.Server, a.Status().Leader, "does not run")
	})
}

// wantStatus checks the leader and what is missing; "" is nothing.
func wantStatus(t *testing.T, s *Server, leader, missing string) {
	t.Helper()
	st := s.Status()
	err := st.Ready()
	if st.Leader != leader || (err == nil) != (missing == "") || err != nil && !strings.Contains(err.Error(), missing) {
		t.Errorf("leader %q, %v, want %q, %q", st.Leader, err, leader, missing)
	}
}

// stuckStore does not even heed its context.
type stuckStore struct {
	Store
	stuck chan struct{}
}

func (s *stuckStore) Load(ctx context.Context) (State, error) {
	<-s.stuck
	return s.Store.Load(ctx)
}

func TestStatusOfAnElectionThatIsStuck(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := &stuckStore{Store: NewMemoryStore(), stuck: make(chan struct{})}
		s := startServer(t, store, ServerConfig{})
		limit := s.elector.maxIdle()
		time.Sleep(limit)
		if err := s.Status().Live(); err != nil {
			t.Errorf("after %v: %v", limit, err)
		}
		wantStatus(t, s.Server, "", "has not answered yet")
		time.Sleep(time.Second)
		if err := s.Status().Live(); err == nil || !strings.Contains(err.Error(), "no progress") {
			t.Errorf("a second later: %v", err)
		}
		close(store.stuck)
		time.Sleep(time.Second)
		wantStatus(t, s.Server, "", "")
	})
}

// The store's errors stay in the log of the server.
func TestAskStatus(t *testing.T) {
	t.Parallel()
	store := newFaultyStore(NewMemoryStore())
	s := startServing(t, store, ServerConfig{Version: "v1.2.3", Lease: 300 * time.Millisecond})
	mustNext(t, s)
	got, err := AskStatus(t.Context(), s.address)
	if err != nil {
		t.Fatal(err)
	}
	if !got.GetLeading() || !got.GetReady() || got.GetEpoch() != 1 || got.GetLeader() != s.address || got.GetServed() != 1 ||
		got.GetVersion() != "v1.2.3" || got.GetHighWater() == 0 || got.GetStoreAnsweredMs() < 0 {
		t.Errorf("got %v", got)
	}
	store.inject(func(string) fault { return refused })
	eventually(t, "it does not serve", func() bool {
		got, err = AskStatus(t.Context(), s.address)
		return err == nil && !got.GetReady()
	})
	if text := got.String(); strings.Contains(text, errStore.Error()) || got.GetReason() == "" {
		t.Errorf("got %v", text)
	}
	if _, err := AskStatus(t.Context(), freeAddress(t)); !errors.Is(err, ErrUnavailable) {
		t.Errorf("nobody there: %v", err)
	}
	if _, err := AskStatus(t.Context(), "192.0.2.1:7070"); !errors.Is(err, ErrInvalidArgument) {
		t.Errorf("plaintext to another machine: %v", err)
	}
	if _, err := AskStatus(t.Context(), "nonsense"); !errors.Is(err, ErrInvalidArgument) {
		t.Errorf("no address: %v", err)
	}
}

func TestHealthMetrics(t *testing.T) {
	t.Parallel()
	reader := metric.NewManualReader()
	s := startServing(t, NewMemoryStore(), ServerConfig{MeterProvider: metric.NewMeterProvider(metric.WithReader(reader))})
	mustNext(t, s)
	var got metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &got); err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, scope := range got.ScopeMetrics {
		for _, m := range scope.Metrics {
			if data, ok := m.Data.(metricdata.Gauge[float64]); ok {
				values[m.Name] = data.DataPoints[0].Value
			}
		}
	}
	if values["percolator.tso.ready"] != 1 || values["percolator.tso.epoch"] != 1 || values["percolator.tso.lease.left"] <= 0 ||
		values["percolator.tso.window.left"] <= 0 || values["percolator.tso.window.left"] > 3 ||
		values["percolator.tso.high_water.ahead"] <= 0 || values["percolator.tso.store.silence"] < 0 {
		t.Errorf("got %v", values)
	}
}

// A leader whose window is used up while the store cannot be written is not ready, and
// does not say that it leads: it hands nothing out.
func TestNotReadyWithoutTimestamps(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := newFaultyStore(NewMemoryStore())
		s := startServer(t, store, ServerConfig{Window: 100 * time.Millisecond, Lease: time.Minute})
		time.Sleep(time.Second)
		s.mustTake(t, 1)
		store.failSwaps(refused)
		time.Sleep(5 * time.Second)
		if ts, err := s.take(t.Context(), 1); err == nil {
			t.Fatalf("it handed out %d", ts)
		}
		st := s.Status()
		if err := st.Ready(); err == nil || !errors.Is(err, errStore) || st.Leading || st.LeaseLeft != 0 {
			t.Errorf("leading %v, lease left %v, ready: %v", st.Leading, st.LeaseLeft, err)
		}
		store.heal()
		time.Sleep(time.Second)
		if st := s.Status(); st.Ready() != nil || !st.Leading {
			t.Errorf("after the store has come back: leading %v, %v", st.Leading, st.Ready())
		}
	})
}
