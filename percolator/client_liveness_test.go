package percolator_test

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
	"github.com/gopercolator/percolator/tso/coordination"
)

// A lock names the session of its client; when that has ended the lock is dead, whatever its TTL.
func TestLockOfAnEndedSessionIsDead(t *testing.T) {
	t.Parallel()
	ctx := fixture.Context(t)
	env := fixture.NewEnv(t)
	env.Clock.Stop()
	var r fixture.Registrar
	reader := r.Client(env) // session-1
	fixture.Put(t, ctx, env.Client, "a", "c", "old", "b", "c", "old")
	fixture.Crash(t, env, r.Client(env), nil, "a", "b")
	l := fixture.StoredLock(t, ctx, env.Client, "b")
	if l.Session != "session-2" {
		t.Fatalf("the lock carries the session %q", l.Session)
	}
	for _, undecided := range []func(){func() {}, func() { r.Down.Store(true) }} { // it lives, as far as anybody knows
		undecided()
		if got, err := admin.New(reader).ResolveLock(ctx, l); err != nil || got != model.LockAlive {
			t.Fatalf("resolved: %v, %v", got, err)
		}
	}
	r.Down.Store(false)
	r.End("session-2")
	fixture.WantNow(t, ctx, reader, fixture.Cell("a", "c"), "old") // waits until it asks again about the session
	fixture.WantNow(t, ctx, reader, fixture.Cell("b", "c"), "old")
	if n := fixture.CellsOf(t, ctx, env, "t", "lock"); n != 0 {
		t.Errorf("%d locks are left", n)
	}
}

// Without the sessions everything goes on by the TTL: it only takes longer.
func TestLocksWithoutSessionService(t *testing.T) {
	t.Parallel()
	for name, judge := range map[string]func(env *percolatortest.Env, r *fixture.Registrar) *percolator.Client{
		"the judge's oracle keeps no sessions": func(env *percolatortest.Env, _ *fixture.Registrar) *percolator.Client { return env.Client },
		"the oracle does not answer": func(env *percolatortest.Env, r *fixture.Registrar) *percolator.Client {
			r.Down.Store(true)
			return r.Client(env)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := fixture.Context(t)
			env := fixture.NewEnv(t)
			env.Clock.Stop()
			var r fixture.Registrar
			fixture.Put(t, ctx, env.Client, "a", "c", "old", "b", "c", "old")
			fixture.Crash(t, env, r.Client(env), nil, "a", "b")
			r.End("session-1")
			c := judge(env, &r)
			if got, err := admin.New(c).ResolveLock(ctx, fixture.StoredLock(t, ctx, env.Client, "b")); err != nil || got != model.LockAlive {
				t.Errorf("before the TTL has passed: %v, %v", got, err)
			}
			env.Clock.Advance(fixture.LockTTL)
			fixture.WantNow(t, ctx, c, fixture.Cell("a", "c"), "old")
			fixture.WantNow(t, ctx, c, fixture.Cell("b", "c"), "old")
		})
	}
}

// That a session is believed to have ended which has not costs its client work, and nothing else.
func TestSessionWronglyBelievedEnded(t *testing.T) {
	t.Parallel()
	ctx := fixture.Context(t)
	env := fixture.NewEnv(t)
	var r fixture.Registrar
	writer, reader := r.Client(env), r.Client(env)
	fixture.Put(t, ctx, env.Client, "a", "c", "old", "b", "c", "old")
	tx := fixture.MustBegin(t, ctx, writer)
	fixture.Must(t, tx.Set(fixture.Cell("a", "c"), []byte("new")))
	fixture.Must(t, tx.Set(fixture.Cell("b", "c"), []byte("new")))
	hold := percolatortest.NewHold()
	env.FaultsOf(writer).Handle(fixture.AtMost(1, fixture.IsCommit, hold))
	ended := make(chan error, 1)
	go func() {
		_, err := tx.Commit(ctx)
		ended <- err
	}()
	hold.Wait(t, 1)
	r.End("session-1")
	fixture.WantNow(t, ctx, reader, fixture.Cell("a", "c"), "old")
	hold.Release()
	fixture.WantErr(t, <-ended, percolator.ErrConflict)
	fixture.WantNow(t, ctx, reader, fixture.Cell("a", "c"), "old")
	fixture.WantNow(t, ctx, reader, fixture.Cell("b", "c"), "old")
}

// Many that meet one lock do not ask about its session each time, and never again when it has
// ended.
func TestSessionsAreAskedAboutSeldom(t *testing.T) {
	t.Parallel()
	ctx := fixture.Context(t)
	env := fixture.NewEnv(t)
	env.Clock.Stop()
	var r fixture.Registrar
	c := r.Client(env)
	fixture.Crash(t, env, r.Client(env), nil, "a", "b", "d", "e")
	r.End("session-2")
	for _, row := range []string{"a", "b", "d", "e"} {
		fixture.WantNow(t, ctx, c, fixture.Cell(row, "c"), "")
	}
	if n := r.Questions(); n != 1 {
		t.Errorf("%d questions about one session", n)
	}
}

// A service that does not answer is not asked again and again: each question takes its time.
func TestSessionServiceThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	ctx := fixture.Context(t)
	env := fixture.NewEnv(t)
	env.Clock.Stop()
	var r fixture.Registrar
	r.Mute.Store(true)
	c := r.Client(env)
	fixture.Crash(t, env, r.Client(env), nil, "a", "b", "d", "e")
	locks := make([]model.Lock, 0, 4)
	for _, row := range []string{"a", "b", "d", "e"} {
		locks = append(locks, fixture.StoredLock(t, ctx, env.Client, row))
	}
	for range 100 {
		for _, l := range locks {
			if got, err := admin.New(c).ResolveLock(ctx, l); err != nil || got != model.LockAlive {
				t.Fatal(got, err)
			}
		}
	}
	if n := r.Questions(); n > 20 { // 400 looks
		t.Errorf("%d questions", n)
	}
}

// An oracle that refuses a session is used without one.
func TestClientWithoutASession(t *testing.T) {
	t.Parallel()
	ctx := fixture.Context(t)
	env := fixture.NewEnv(t)
	c := env.NewClient(percolatortest.Configure(func(cfg *percolator.Config) { cfg.Oracle = refusing{cfg.Oracle} }))
	fixture.Crash(t, env, c, nil, "a", "b")
	if l := fixture.StoredLock(t, ctx, env.Client, "b"); l.Session != "" {
		t.Errorf("the lock carries the session %q", l.Session)
	}
	fixture.Must(t, c.Close())
}

type refusing struct{ tso.Oracle }

func (refusing) OpenSession() (coordination.Session, error) { return nil, tso.ErrLimit }

func (refusing) EndedSessions(context.Context, ...string) ([]string, error) {
	return nil, tso.ErrUnsupported
}

// Close ends the session, so that what a client leaves behind is dead at once.
func TestCloseEndsTheSession(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	var r fixture.Registrar
	c := r.Client(env)
	fixture.Must(t, c.Close())
	if !r.Ended("session-1") {
		t.Error("the session goes on")
	}
}

// severed is a connection to an oracle that a test can cut, with the session that was opened on it.
type severed struct {
	*tso.Client
	session chan coordination.Session
	cut     *atomic.Bool
}

func (s severed) OpenSession() (coordination.Session, error) {
	session, err := s.Client.OpenSession()
	s.session <- session
	return session, err
}

func dialSevered(t *testing.T, targets string) severed {
	t.Helper()
	s := severed{session: make(chan coordination.Session, 1), cut: new(atomic.Bool)}
	cut := grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if s.cut.Load() {
			return status.Error(codes.Unavailable, "cut off")
		}
		return invoke(ctx, method, req, reply, cc, opts...)
	})
	var err error
	s.Client, err = tso.Dial(t.Context(), targets, tso.WithGRPCDialOptions(cut))
	fixture.Must(t, err)
	t.Cleanup(func() { _ = s.Client.Close() })
	return s
}

// serveOracle runs a server of an oracle until stop is called or the test ends.
func serveOracle(t *testing.T, store tso.Store, l net.Listener) (stop func()) {
	t.Helper()
	server, err := tso.NewServer(store, tso.ServerConfig{SessionLease: time.Second})
	fixture.Must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx, l) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func loopback(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	fixture.Must(t, err)
	return l
}

// With a real oracle: a client whose process has gone is known to be dead long before its locks'
// TTL, an hour, has passed; one that lives survives a change of the oracle's leader.
func TestSessionsOfARealOracle(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	ctx := fixture.Context(t)
	env := fixture.NewEnv(t)
	store, l1, l2 := tso.NewMemoryStore(), loopback(t), loopback(t)
	targets := l1.Addr().String() + "," + l2.Addr().String()
	stop := serveOracle(t, store, l1)
	serveOracle(t, store, l2)
	client := func(o tso.Oracle) *percolator.Client {
		return env.NewClient(percolatortest.Configure(func(cfg *percolator.Config) { cfg.Oracle, cfg.LockTTL = o, time.Hour }))
	}
	oracles := []severed{dialSevered(t, targets), dialSevered(t, targets), dialSevered(t, targets)}
	dead, alive, reader := client(oracles[0]), client(oracles[1]), client(oracles[2])
	for _, o := range oracles[:2] {
		session := <-o.session
		fixture.Eventually(t, "a session is open", func() bool { return session.ID() != "" })
	}

	fixture.Put(t, ctx, reader, "a", "c", "old", "b", "c", "old")
	fixture.Crash(t, env, dead, nil, "a")
	oracles[0].cut.Store(true)
	stop() // the other server leads from now on

	held := percolatortest.NewHold()
	env.FaultsOf(alive).Handle(fixture.AtMost(1, fixture.IsCommit, held))
	tx := fixture.MustBegin(t, ctx, alive)
	fixture.Must(t, tx.Set(fixture.Cell("b", "c"), []byte("new")))
	committed := make(chan error, 1)
	go func() {
		_, err := tx.Commit(ctx)
		committed <- err
	}()
	held.Wait(t, 1)
	lock := fixture.StoredLock(t, ctx, reader, "b")
	if lock.Session == "" {
		t.Error("the lock carries no session after the change of leader")
	}
	fixture.WantNow(t, ctx, reader, fixture.Cell("a", "c"), "old") // until the lease of the session that was cut off has run out
	if got, err := admin.New(reader).ResolveLock(ctx, lock); err != nil || got != model.LockAlive {
		t.Errorf("the lock of a client that lives: %v, %v", got, err)
	}
	held.Release()
	fixture.Must(t, <-committed)
	fixture.WantNow(t, ctx, reader, fixture.Cell("b", "c"), "new")
}
