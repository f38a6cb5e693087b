package tso

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/tso/coordination"
	"github.com/gopercolator/percolator/tso/internal/record"
	"github.com/gopercolator/percolator/tso/tsopb"
)

// openSession opens a session and waits until there is one.
func openSession(t *testing.T, o coordination.Sessions) coordination.Session {
	t.Helper()
	s, err := o.OpenSession()
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "there is a session", func() bool { return s.ID() != "" })
	return s
}

// endedOf asks which of ids have ended, until somebody knows.
func endedOf(t *testing.T, o coordination.Sessions, ids ...string) (ended []string) {
	t.Helper()
	eventually(t, "sessions are asked for", func() bool {
		var err error
		ended, err = o.EndedSessions(t.Context(), ids...)
		if err != nil && !errors.Is(err, ErrUnavailable) {
			t.Fatal(err)
		}
		return err == nil
	})
	return ended
}

func TestClientSession(t *testing.T) {
	t.Parallel()
	server := startServing(t, NewMemoryStore(), ServerConfig{})
	owner, other := dial(t, server.address), dial(t, server.address)
	s, more := openSession(t, owner), openSession(t, owner)
	id, moreID := s.ID(), more.ID()
	if id == moreID || !record.IsSessionID(id) {
		t.Fatalf("the sessions are %q and %q", id, moreID)
	}
	if ended := endedOf(t, other, id, "never", moreID); !slices.Equal(ended, []string{"never"}) {
		t.Errorf("ended are %q", ended)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if ended := endedOf(t, other, id, moreID); s.ID() != "" || !slices.Equal(ended, []string{id}) {
		t.Errorf("ended are %q, want %q", ended, id)
	}
	// A client that is closed takes its sessions along.
	if err := owner.Close(); err != nil {
		t.Fatal(err)
	}
	if ended := endedOf(t, other, moreID); more.ID() != "" || !slices.Equal(ended, []string{moreID}) {
		t.Errorf("ended are %q, want %q", ended, moreID)
	}
	if _, err := owner.OpenSession(); !errors.Is(err, ErrClosed) {
		t.Errorf("opening one more: %v", err)
	}
	if _, err := owner.EndedSessions(t.Context(), id); !errors.Is(err, ErrClosed) {
		t.Errorf("asking for one: %v", err)
	}
	if err := more.Close(t.Context()); err != nil {
		t.Errorf("closing what is closed: %v", err)
	}
}

// A session and the locks' caller follow the leader, by themselves.
func TestClientSessionFollowsTheLeader(t *testing.T) {
	t.Parallel()
	store := NewMemoryStore()
	cfg := ServerConfig{Lease: 500 * time.Millisecond, SessionLease: 30 * time.Second}
	a := startServing(t, store, cfg)
	mustNext(t, a)
	b := startServing(t, store, cfg)
	client := dial(t, a.address+","+b.address)
	s := openSession(t, client)
	id := s.ID()
	mustLock(t, client, "one", []uint64{1, 2}, 2)
	a.stop()
	if err := <-a.ended; err != nil {
		t.Fatal(err)
	}
	mustLock(t, client, "two", []uint64{2}, 1) // the locks are gone, and nobody minds
	mustLock(t, client, "one", []uint64{1, 2}, 1)
	if ended := endedOf(t, client, id, "never"); !slices.Equal(ended, []string{"never"}) {
		t.Errorf("ended are %q", ended)
	}
	renewal, err := client.sessions.keeper(s).keepAlive(t.Context(), id)
	if err != nil || renewal.lease != cfg.SessionLease {
		t.Errorf("renewing at the new leader: %+v, %v", renewal, err)
	}
	if s.ID() != id {
		t.Errorf("the session is %q, it was %q", s.ID(), id)
	}
}

// keeper returns where s is kept.
func (set *sessionSet) keeper(s coordination.Session) sessionKeeper { return s.(*session).keeper }

// The session of a client that nobody answers any more is gone for it, and for the
// others; when it gets through again, it has another one.
func TestClientSessionIsCutOff(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: takes longer than a second")
	}
	t.Parallel()
	server := startServing(t, NewMemoryStore(), ServerConfig{SessionLease: 500 * time.Millisecond})
	var cut atomic.Bool
	client := dial(t, server.address, WithGRPCDialOptions(grpc.WithChainUnaryInterceptor(
		func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			if cut.Load() && method == tsopb.Sessions_KeepAlive_FullMethodName {
				return status.Error(codes.Unavailable, "cut off on purpose")
			}
			return invoke(ctx, method, req, reply, cc, opts...)
		})))
	s, id := openSession(t, client), ""
	eventually(t, "there is a session", func() bool { id = s.ID(); return id != "" })
	cut.Store(true)
	eventually(t, "its owner knows that it is gone", func() bool { return s.ID() == "" })
	eventually(t, "the others know", func() bool { return slices.Equal(endedOf(t, client, id), []string{id}) })
	cut.Store(false)
	eventually(t, "there is another", func() bool { return s.ID() != "" && s.ID() != id })
}

// A lease is counted from before the request that got it was sent, and not from
// before one that failed.
func TestClientSessionCountsFromTheRequest(t *testing.T) {
	t.Parallel()
	server := startServing(t, NewMemoryStore(), ServerConfig{})
	own := newClock(nil)
	var fail atomic.Bool
	var sent []time.Duration
	client := dial(t, server.address, WithGRPCDialOptions(grpc.WithChainUnaryInterceptor(
		func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			if method == tsopb.Oracle_Next_FullMethodName {
				return invoke(ctx, method, req, reply, cc, opts...)
			}
			sent = append(sent, own.mono())
			if fail.Swap(false) {
				return status.Error(codes.Unavailable, "fails on purpose")
			}
			return invoke(ctx, method, req, reply, cc, opts...)
		})))
	k := clientSessions{client: client, clock: own}
	check := func(doing string, f func() (grant, error)) string {
		var g grant
		eventually(t, doing, func() bool {
			sent = nil
			fail.Store(true)
			var err error
			g, err = f()
			return err == nil
		})
		if len(sent) != 2 || g.since.mono < sent[0] || g.since.mono > sent[1] {
			t.Errorf("%s: counted from %v, sent at %v", doing, g.since.mono, sent)
		}
		return g.id
	}
	id := check("opening", func() (grant, error) { return k.open(t.Context()) })
	check("renewing", func() (grant, error) { return k.keepAlive(t.Context(), id) })
}

func TestClientSessionLimits(t *testing.T) {
	t.Parallel()
	server := startServing(t, NewMemoryStore(), ServerConfig{MaxSessions: 1, MaxRowLocks: maxRowLockRows, PeerShare: 100})
	client := dial(t, server.address)
	openSession(t, client)
	if _, err := (clientSessions{client: client, clock: newClock(nil)}).open(t.Context()); !errors.Is(err, ErrLimit) {
		t.Errorf("one too many: %v", err)
	}

	// The longest question, and the longest answer.
	ids := make([]string, record.MaxSessionIDs)
	for i := range ids {
		ids[i] = fmt.Sprintf("%0*d", record.MaxSessionIDBytes, i)
	}
	if ended := endedOf(t, client, ids...); !slices.Equal(ended, ids) {
		t.Errorf("%d of %d have ended", len(ended), len(ids))
	}
	if _, err := client.EndedSessions(t.Context(), append(ids, "x")...); !errors.Is(err, ErrInvalidArgument) {
		t.Errorf("asking for one more: %v", err)
	}
	if ended, err := client.EndedSessions(t.Context(), "\xff"); err != nil || len(ended) != 1 {
		t.Errorf("what is no id: %q, %v", ended, err)
	}

	rows := make([]uint64, maxRowLockRows)
	for i := range rows {
		rows[i] = 1<<63 + uint64(i)
	}
	mustLock(t, client, "one", rows, len(rows))
	if _, err := client.LockRows(t.Context(), "one", time.Second, []uint64{1}); !errors.Is(err, ErrLimit) {
		t.Errorf("one more row: %v", err)
	}
	if err := client.UnlockRows(t.Context(), "one", rows); err != nil {
		t.Error(err)
	}
	mustLock(t, client, "two", rows, len(rows))
	if _, err := client.LockRows(t.Context(), "one", 2*maxRowLockTTL, rows); !errors.Is(err, ErrInvalidArgument) {
		t.Errorf("for too long: %v", err)
	}

	// What the server makes of requests that no client of ours sends.
	conn, err := grpc.NewClient(server.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	sessions, locks := tsopb.NewSessionsClient(conn), tsopb.NewRowLocksClient(conn)
	_, noID := sessions.KeepAlive(t.Context(), &tsopb.KeepAliveRequest{})
	_, closed := sessions.CloseSession(t.Context(), &tsopb.CloseSessionRequest{})
	_, many := sessions.EndedSessions(t.Context(), &tsopb.EndedSessionsRequest{Ids: slices.Repeat([]string{"x"}, record.MaxSessionIDs+1)})
	_, long := locks.LockRows(t.Context(), &tsopb.LockRowsRequest{Holder: "h", TtlMs: 1<<63 - 1})
	_, negative := locks.LockRows(t.Context(), &tsopb.LockRowsRequest{Holder: "h", TtlMs: -1 << 63})
	_, nobody := locks.UnlockRows(t.Context(), &tsopb.UnlockRowsRequest{})
	for name, c := range map[string]struct {
		err  error
		want codes.Code
	}{
		"renewing nothing": {noID, codes.NotFound}, "closing nothing": {closed, codes.OK}, "too many sessions": {many, codes.InvalidArgument},
		"for ever": {long, codes.InvalidArgument}, "for less than nothing": {negative, codes.InvalidArgument}, "no holder": {nobody, codes.InvalidArgument},
	} {
		if got := status.Code(c.err); got != c.want {
			t.Errorf("%s: %v, want %v", name, c.err, c.want)
		}
	}
}

// An oracle of a version without sessions.
func TestClientOfAnOracleWithoutSessions(t *testing.T) {
	t.Parallel()
	var c counter
	server := startScripted(t, c.next)
	client := dial(t, server.address)
	before := server.calls.Load()
	if _, err := client.EndedSessions(t.Context(), "x"); !errors.Is(err, ErrUnsupported) {
		t.Errorf("asking for a session: %v", err)
	}
	if _, err := client.LockRows(t.Context(), "h", time.Second, []uint64{1}); err == nil {
		t.Error("a row was locked")
	}
	s, err := client.OpenSession()
	if err != nil {
		t.Fatal(err)
	}
	if s.ID() != "" {
		t.Errorf("the session is %q", s.ID())
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if n := server.calls.Load() - before; n != 0 {
		t.Errorf("%d timestamps were asked for", n)
	}
}

// Answers that no server may give.
func TestClientDistrustsGrants(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		id    string
		lease int64 // in milliseconds
	}{
		"no id": {"", 5000}, "no lease": {"x", 0}, "too short": {"x", 1}, "too long": {"x", 1 << 62}, "negative": {"x", -1},
	} {
		if _, err := newGrant(c.id, c.lease, moment{}, nil); !errors.Is(err, ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if g, err := newGrant("x", 5000, moment{}, nil); err != nil || g.lease != 5*time.Second {
		t.Errorf("%+v, %v", g, err)
	}
}

func TestSessionMetrics(t *testing.T) {
	t.Parallel()
	reader := metric.NewManualReader()
	server := startServing(t, NewMemoryStore(), ServerConfig{MeterProvider: metric.NewMeterProvider(metric.WithReader(reader))})
	client := dial(t, server.address)
	openSession(t, client)
	mustLock(t, client, "one", []uint64{1, 2, 3}, 3)
	var got metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &got); err != nil {
		t.Fatal(err)
	}
	values := map[string]int64{}
	for _, scope := range got.ScopeMetrics {
		for _, m := range scope.Metrics {
			if data, ok := m.Data.(metricdata.Gauge[int64]); ok {
				values[m.Name] = data.DataPoints[0].Value
			}
		}
	}
	if values["percolator.tso.sessions"] != 1 || values["percolator.tso.row_locks"] != 3 {
		t.Errorf("the gauges are %v", values)
	}
}
