package percolator_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

// A second Close does nothing, also while the first one waits for phase two. It must not hang up
// the oracle: that ends the session of locks that the client is turning into records.
func TestSecondCloseKeepsTheSession(t *testing.T) {
	env, ctx := fixture.NewEnv(t), fixture.Context(t)
	server, err := tso.NewServer(tso.NewMemoryStore(), tso.ServerConfig{SessionLease: time.Hour})
	fixture.Must(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	fixture.Must(t, err)
	serving, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(serving, l) }()
	t.Cleanup(func() { stop(); fixture.Must(t, <-ended) })
	t.Setenv("PERCOLATOR_TSO_ADDR", l.Addr().String())

	held := percolatortest.NewHold()
	c := env.NewClient(percolatortest.Configure(func(cfg *percolator.Config) { cfg.Oracle = nil }), percolatortest.Handler(func(r percolatortest.Request) percolatortest.Action {
		if r.Method == percolatortest.MutateRows {
			return held
		}
		return percolatortest.Pass
	}))
	session := ""
	fixture.Eventually(t, "the client has a session", func() bool { session = c.Engine().Locks.Sessions.Own(); return session != "" })
	tx := fixture.MustBegin(t, ctx, c)
	fixture.Must(t, errors.Join(tx.Set(fixture.Cell("a", "c"), []byte("v")), tx.Set(fixture.Cell("b", "c"), []byte("v"))))
	fixture.MustCommit(t, ctx, tx)
	held.Wait(t, 1)
	first := make(chan error, 1)
	go func() { first <- c.Close() }()
	fixture.Eventually(t, "the first Close has started", func() bool { return errors.Is(fixture.ErrOf(c.Begin(ctx)), percolator.ErrClosed) })

	fixture.Must(t, c.Close())
	if gone, err := server.EndedSessions(ctx, session); err != nil || len(gone) > 0 {
		t.Errorf("after the second Close, while phase two is under way: the sessions %q have ended, %v", gone, err)
	}
	select {
	case err := <-first:
		t.Errorf("the first Close did not wait: %v", err)
	default:
	}
	held.Release()
	fixture.Must(t, <-first)
	if gone, err := server.EndedSessions(ctx, session); err != nil || len(gone) != 1 {
		t.Errorf("after the first Close: the sessions %q have ended, %v", gone, err)
	}
}
