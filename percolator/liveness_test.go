package percolator_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

// registrar keeps sessions as a test wants, beside an oracle.
type registrar struct {
	mu     sync.Mutex
	opened int
	ended  map[string]bool
	down   bool
	asked  int
}

// oracle is o with the sessions of r.
func (r *registrar) oracle(o tso.Oracle) tso.Oracle { return registered{o, r} }

// client makes a client of env that has a session with r.
func (r *registrar) client(env *percolatortest.Env) *percolator.Client {
	return env.NewClient(percolatortest.Configure(func(cfg *percolator.Config) { cfg.Oracle = r.oracle(cfg.Oracle) }))
}

func (r *registrar) end(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended == nil {
		r.ended = map[string]bool{}
	}
	r.ended[id] = true
}

func (r *registrar) questions() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked
}

type registered struct {
	tso.Oracle
	*registrar
}

func (r registered) OpenSession() (tso.Session, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.opened++
	return openSession{fmt.Sprintf("session-%d", r.opened), r.registrar}, nil
}

func (r registered) EndedSessions(_ context.Context, ids ...string) (ended []string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked++
	if r.down {
		return nil, errors.New("no answer")
	}
	for _, id := range ids {
		if r.ended[id] {
			ended = append(ended, id)
		}
	}
	return ended, nil
}

type openSession struct {
	id string
	r  *registrar
}

func (s openSession) ID() string { return s.id }

func (s openSession) Close(context.Context) error {
	s.r.end(s.id)
	return nil
}

// storedLock returns the lock on a cell as it stands in the store.
func storedLock(t *testing.T, ctx context.Context, c *percolator.Client, row string) admin.Lock {
	t.Helper()
	for pending, err := range admin.New(c).ScanPending(ctx, "t", percolator.Row(row)) {
		must(t, err)
		for _, l := range pending.Locks {
			return l
		}
	}
	t.Fatalf("no lock in row %q", row)
	return admin.Lock{}
}

// A lock names the session of its client; when that has ended the lock is dead, whatever its TTL.
func TestLockOfAnEndedSessionIsDead(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	env := newEnv(t)
	env.Clock.Stop()
	var r registrar
	reader := r.client(env) // session-1
	put(t, ctx, env.Client, "a", "c", "old", "b", "c", "old")
	crash(t, env, r.client(env), nil, "a", "b")
	l := storedLock(t, ctx, env.Client, "b")
	if l.Session != "session-2" {
		t.Fatalf("the lock carries the session %q", l.Session)
	}
	for _, undecided := range []func(){func() {}, func() { r.down = true }} { // it lives, as far as anybody knows
		undecided()
		if got, err := admin.New(reader).ResolveLock(ctx, l); err != nil || got != admin.LockAlive {
			t.Fatalf("resolved: %v, %v", got, err)
		}
	}
	r.mu.Lock()
	r.down = false
	r.mu.Unlock()
	r.end("session-2")
	wantNow(t, ctx, reader, cell("a", "c"), "old") // waits until it asks again about the session
	wantNow(t, ctx, reader, cell("b", "c"), "old")
	if n := cellsOf(t, ctx, env, "t", "lock"); n != 0 {
		t.Errorf("%d locks are left", n)
	}
}

// Without the sessions everything goes on by the TTL: it only takes longer.
func TestLocksWithoutSessionService(t *testing.T) {
	t.Parallel()
	for name, judge := range map[string]func(env *percolatortest.Env, r *registrar) *percolator.Client{
		"the judge's oracle keeps no sessions": func(env *percolatortest.Env, _ *registrar) *percolator.Client { return env.Client },
		"the oracle does not answer": func(env *percolatortest.Env, r *registrar) *percolator.Client {
			r.down = true
			return r.client(env)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := testContext(t)
			env := newEnv(t)
			env.Clock.Stop()
			var r registrar
			put(t, ctx, env.Client, "a", "c", "old", "b", "c", "old")
			crash(t, env, r.client(env), nil, "a", "b")
			r.end("session-1")
			c := judge(env, &r)
			if got, err := admin.New(c).ResolveLock(ctx, storedLock(t, ctx, env.Client, "b")); err != nil || got != admin.LockAlive {
				t.Errorf("before the TTL has passed: %v, %v", got, err)
			}
			env.Clock.Advance(lockTTL)
			wantNow(t, ctx, c, cell("a", "c"), "old")
			wantNow(t, ctx, c, cell("b", "c"), "old")
		})
	}
}

// That a session is believed to have ended which has not costs its client work, and nothing else.
func TestSessionWronglyBelievedEnded(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	env := newEnv(t)
	var r registrar
	writer, reader := r.client(env), r.client(env)
	put(t, ctx, env.Client, "a", "c", "old", "b", "c", "old")
	tx := mustBegin(t, ctx, writer)
	must(t, tx.Set(cell("a", "c"), []byte("new")))
	must(t, tx.Set(cell("b", "c"), []byte("new")))
	hold := percolatortest.NewHold()
	env.FaultsOf(writer).Handle(atMost(1, isCommit, hold))
	ended := make(chan error, 1)
	go func() {
		_, err := tx.Commit(ctx)
		ended <- err
	}()
	hold.Wait(t, 1)
	r.end("session-1")
	wantNow(t, ctx, reader, cell("a", "c"), "old")
	hold.Release()
	wantErr(t, <-ended, percolator.ErrConflict)
	wantNow(t, ctx, reader, cell("a", "c"), "old")
	wantNow(t, ctx, reader, cell("b", "c"), "old")
}

// Many that meet one lock do not ask about its session each time, and never again when it has ended.
func TestSessionsAreAskedAboutSeldom(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	env := newEnv(t)
	env.Clock.Stop()
	var r registrar
	c := r.client(env)
	crash(t, env, r.client(env), nil, "a", "b", "d", "e")
	r.end("session-2")
	for _, row := range []string{"a", "b", "d", "e"} {
		wantNow(t, ctx, c, cell(row, "c"), "")
	}
	if n := r.questions(); n != 1 {
		t.Errorf("%d questions about one session", n)
	}
}

// mute is an oracle that does not answer questions about sessions.
type mute struct{ registered }

func (m mute) EndedSessions(ctx context.Context, _ ...string) ([]string, error) {
	m.mu.Lock()
	m.asked++
	m.mu.Unlock()
	<-ctx.Done()
	return nil, ctx.Err()
}

// A service that does not answer is not asked again and again: each question takes its time.
func TestSessionServiceThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	env := newEnv(t)
	env.Clock.Stop()
	var r registrar
	c := env.NewClient(percolatortest.Configure(func(cfg *percolator.Config) { cfg.Oracle = mute{registered{cfg.Oracle, &r}} }))
	crash(t, env, r.client(env), nil, "a", "b", "d", "e")
	locks := make([]admin.Lock, 0, 4)
	for _, row := range []string{"a", "b", "d", "e"} {
		locks = append(locks, storedLock(t, ctx, env.Client, row))
	}
	for range 100 {
		for _, l := range locks {
			if got, err := admin.New(c).ResolveLock(ctx, l); err != nil || got != admin.LockAlive {
				t.Fatal(got, err)
			}
		}
	}
	if n := r.questions(); n > 20 { // 400 looks
		t.Errorf("%d questions", n)
	}
}

// An oracle that refuses a session is used without one.
func TestClientWithoutASession(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	env := newEnv(t)
	c := env.NewClient(percolatortest.Configure(func(cfg *percolator.Config) { cfg.Oracle = refusing{cfg.Oracle} }))
	crash(t, env, c, nil, "a", "b")
	if l := storedLock(t, ctx, env.Client, "b"); l.Session != "" {
		t.Errorf("the lock carries the session %q", l.Session)
	}
	must(t, c.Close())
}

type refusing struct{ tso.Oracle }

func (refusing) OpenSession() (tso.Session, error) { return nil, tso.ErrLimit }

func (refusing) EndedSessions(context.Context, ...string) ([]string, error) {
	return nil, tso.ErrUnsupported
}

// Close ends the session, so that what a client leaves behind is dead at once.
func TestCloseEndsTheSession(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	var r registrar
	c := r.client(env)
	must(t, c.Close())
	if !r.ended["session-1"] {
		t.Error("the session goes on")
	}
}

// severed is a connection to an oracle that a test can cut, with the session that was opened on it.
type severed struct {
	*tso.Client
	session chan tso.Session
	cut     *atomic.Bool
}

func (s severed) OpenSession() (tso.Session, error) {
	session, err := s.Client.OpenSession()
	s.session <- session
	return session, err
}

func dialSevered(t *testing.T, targets string) severed {
	t.Helper()
	s := severed{session: make(chan tso.Session, 1), cut: new(atomic.Bool)}
	cut := grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if s.cut.Load() {
			return status.Error(codes.Unavailable, "cut off")
		}
		return invoke(ctx, method, req, reply, cc, opts...)
	})
	var err error
	s.Client, err = tso.Dial(t.Context(), targets, tso.WithGRPCDialOptions(cut))
	must(t, err)
	t.Cleanup(func() { _ = s.Client.Close() })
	return s
}

// serveOracle runs a server of an oracle until stop is called or the test ends.
func serveOracle(t *testing.T, store tso.Store, l net.Listener) (stop func()) {
	t.Helper()
	server, err := tso.NewServer(store, tso.ServerConfig{SessionLease: time.Second})
	must(t, err)
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
	must(t, err)
	return l
}

// With a real oracle: a client whose process has gone is known to be dead long before its locks' TTL, an hour, has passed;
// one that lives survives a change of the oracle's leader.
func TestSessionsOfARealOracle(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	env := newEnv(t)
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
		eventually(t, "a session is open", func() bool { return session.ID() != "" })
	}

	put(t, ctx, reader, "a", "c", "old", "b", "c", "old")
	crash(t, env, dead, nil, "a")
	oracles[0].cut.Store(true)
	stop() // the other server leads from now on

	held := percolatortest.NewHold()
	env.FaultsOf(alive).Handle(atMost(1, isCommit, held))
	tx := mustBegin(t, ctx, alive)
	must(t, tx.Set(cell("b", "c"), []byte("new")))
	committed := make(chan error, 1)
	go func() {
		_, err := tx.Commit(ctx)
		committed <- err
	}()
	held.Wait(t, 1)
	lock := storedLock(t, ctx, reader, "b")
	if lock.Session == "" {
		t.Error("the lock carries no session after the change of leader")
	}
	wantNow(t, ctx, reader, cell("a", "c"), "old") // until the lease of the session that was cut off has run out
	if got, err := admin.New(reader).ResolveLock(ctx, lock); err != nil || got != admin.LockAlive {
		t.Errorf("the lock of a client that lives: %v, %v", got, err)
	}
	held.Release()
	must(t, <-committed)
	wantNow(t, ctx, reader, cell("b", "c"), "new")
}
