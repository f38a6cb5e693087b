package settle_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gopercolator/percolator/internal/engine/settle"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/percolator/model"
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

// unequal returns a function for clients of an instance with tables t and u: "rich" may do
// everything, "poor" lacks the right to table t. run has an adopter work until the test ends.
func unequal(t *testing.T, log io.Writer) (client func(who string) *percolator.Client, run func(*settle.Adopter)) {
	t.Helper()
	ctx := fixture.Context(t)
	user := emulator.Role("roles/bigtable.user")
	server, err := emulator.Start(emulator.InMemory(), emulator.Principals(map[string]emulator.Rights{
		"rich": {Instance: emulator.Role("roles/bigtable.admin")},
		"poor": {Instance: []string{"bigtable.instances.ping"}, Tables: map[string][]string{model.MetaTable: user, model.JournalTable: user, "u": user}},
	}))
	fixture.Must(t, err)
	t.Cleanup(func() { _ = server.Close() })
	schema := &percolator.Schema{Tables: []percolator.Table{{Name: "t", Observed: []string{"seen"}}, {Name: "u", Observed: []string{"seen"}}}}
	fixture.Must(t, percolator.CreateSchema(ctx, "p", "i", schema, server.ClientOptionsOf("rich")...))
	oracle, err := tso.NewServer(tso.NewMemoryStore(), tso.ServerConfig{})
	fixture.Must(t, err)
	within, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { _ = oracle.Run(within) })
	t.Cleanup(func() { stop(); running.Wait() })
	client = func(who string) *percolator.Client {
		c, err := percolator.NewClient(ctx, percolator.Config{Project: "p", Instance: "i", Oracle: oracle, Logger: slog.New(slog.NewTextHandler(log, nil))}, server.ClientOptionsOf(who)...)
		fixture.Must(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	return client, func(a *settle.Adopter) { running.Go(func() { a.Run(within) }) }
}

// An elected adopter that is refused access to a table gives its lock up, and says so once: one
// that has access adopts.
func TestAnAdopterWithoutRightsStandsAside(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testAnAdopterWithoutRightsStandsAside)
}

func testAnAdopterWithoutRightsStandsAside(t *testing.T) {
	ctx := fixture.Context(t)
	var log record
	client, run := unequal(t, &log)
	dying, rich, poor := client("rich"), client("rich"), client("poor")

	var elected, aside atomic.Int64
	a := settle.NewAdopter(poor.Engine().Looker, poor.Engine().Journal, func(_ settle.Backlog, mine bool) {
		if mine {
			elected.Add(1)
		} else {
			aside.Add(1)
		}
	})
	run(a)
	fixture.Eventually(t, "its election", func() bool { return elected.Load() >= 3 })
	b := settle.NewAdopter(rich.Engine().Looker, rich.Engine().Journal, nil)
	fixture.Must(t, b.RunOnce(ctx)) // the look with which a worker begins

	w := &world{TB: t, ctx: ctx, Env: &percolatortest.Env{Client: rich}}
	session := dying.Engine().Locks.Sessions.Own()
	w.appendEntries(dying, &model.JournalEntry{Primary: fixture.Cell("p", "plain"), Rows: []model.JournalName{{Table: "t", Key: "p"}}})
	fixture.Must(t, dying.Close())
	run(b)
	fixture.Eventually(t, "it is settled", func() bool { return w.settled(session) })
	fixture.Eventually(t, "a turn of somebody else", func() bool { return aside.Load() > 0 })
	if n := strings.Count(log.String(), "stands aside"); n != 1 {
		t.Errorf("it says %d times that it stands aside:\n%s", n, &log)
	}
}

// A worker that has only some of the tables (docs/SECURITY.md) is soon told of what a stream of the
// dead holds for these, behind 300 rows that name another table.
func TestRowsBehindThoseOfAnotherTableAreFound(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testRowsBehindThoseOfAnotherTableAreFound)
}

func testRowsBehindThoseOfAnotherTableAreFound(t *testing.T) {
	ctx := fixture.Context(t)
	client, run := unequal(t, io.Discard)
	dying, poor := client("rich"), client("poor")
	w := &world{TB: t, ctx: ctx, Env: &percolatortest.Env{Client: dying}}
	f := w.finds(poor)
	started := make(chan struct{})
	var once sync.Once
	a := settle.NewAdopter(poor.Engine().Looker, poor.Engine().Journal, func(settle.Backlog, bool) { once.Do(func() { close(started) }) })
	run(a)
	<-started
	for i := range 300 {
		w.appendEntries(dying, &model.JournalEntry{Primary: fixture.Cell(fmt.Sprint(i), "plain"), Rows: []model.JournalName{{Table: "t", Key: fmt.Sprint(i)}}})
	}
	fixture.Must(t, fixture.Update(ctx, dying, func(tx *percolator.Txn) error {
		return tx.Set(percolator.Cell{Table: "u", Row: "r", Column: "seen"}, []byte("1"))
	}))
	fixture.Must(t, dying.Flush(ctx))
	fixture.Must(t, dying.Close())
	fixture.Eventually(t, "the notification in table u is found", func() bool { return f.of("r") > 0 })
}
