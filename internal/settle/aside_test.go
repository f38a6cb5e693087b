package settle_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gopercolator/percolator/internal/fixture"
	"github.com/gopercolator/percolator/internal/journal"
	"github.com/gopercolator/percolator/internal/model"
	"github.com/gopercolator/percolator/internal/settle"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

// record is a log that a test reads meanwhile.
type record struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (r *record) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.b.Write(p)
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.b.String()
}

// An elected adopter that is refused access to a table gives its lock up, and says so once: one
// that has access adopts.
func TestAnAdopterWithoutRightsStandsAside(t *testing.T) {
	t.Parallel()
	ctx := fixture.Context(t)
	user := emulator.Role("roles/bigtable.user")
	server, err := emulator.Start(emulator.Principals(map[string]emulator.Rights{
		"rich": {Instance: emulator.Role("roles/bigtable.admin")},
		"poor": {Instance: []string{"bigtable.instances.ping"}, Tables: map[string][]string{model.MetaTable: user, model.JournalTable: user, "u": user}},
	}))
	fixture.Must(t, err)
	t.Cleanup(func() { _ = server.Close() })
	schema := &percolator.Schema{Tables: []percolator.Table{{Name: "t", Observed: []string{"seen"}}, {Name: "u"}}}
	fixture.Must(t, percolator.CreateSchema(ctx, "p", "i", schema, server.ClientOptionsOf("rich")...))
	oracle, err := tso.NewServer(tso.NewMemoryStore(), tso.ServerConfig{})
	fixture.Must(t, err)
	within, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { _ = oracle.Run(within) })
	t.Cleanup(func() { stop(); running.Wait() })
	var log record
	client := func(who string) *percolator.Client {
		c, err := percolator.NewClient(ctx, percolator.Config{Project: "p", Instance: "i", Oracle: oracle, Logger: slog.New(slog.NewTextHandler(&log, nil))}, server.ClientOptionsOf(who)...)
		fixture.Must(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	dying, rich, poor := client("rich"), client("rich"), client("poor")

	var elected, aside atomic.Int64
	a := settle.NewAdopter(poor.Engine().Looker, poor.Engine().Journal, func(_ settle.Backlog, mine bool) {
		if mine {
			elected.Add(1)
		} else {
			aside.Add(1)
		}
	})
	running.Go(func() { a.Run(within) })
	fixture.Eventually(t, "its election", func() bool { return elected.Load() >= 3 })
	b := settle.NewAdopter(rich.Engine().Looker, rich.Engine().Journal, nil)
	fixture.Must(t, b.Turn(ctx)) // the look with which a worker begins

	w := &world{TB: t, ctx: ctx, Env: &percolatortest.Env{Client: rich}}
	session := dying.Engine().Locks.Sessions.Own()
	w.appendEntries(dying, &journal.Entry{Primary: fixture.Cell("p", "plain"), Rows: []journal.Row{{Table: "t", Key: "p"}}})
	fixture.Must(t, dying.Close())
	running.Go(func() { b.Run(within) })
	fixture.Eventually(t, "it is settled", func() bool { return w.settled(session) })
	fixture.Eventually(t, "a turn of somebody else", func() bool { return aside.Load() > 0 })
	if n := strings.Count(log.String(), "stands aside"); n != 1 {
		t.Errorf("it says %d times that it stands aside:\n%s", n, &log)
	}
}
