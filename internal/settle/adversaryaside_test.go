package settle_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/fixture"
	"github.com/gopercolator/percolator/internal/journal"
	"github.com/gopercolator/percolator/internal/model"
	"github.com/gopercolator/percolator/internal/settle"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

// A worker that has only some of the tables (docs/SECURITY.md) is soon told of what a stream of the
// dead holds for these, behind 300 rows that name another table.
func TestRowsBehindThoseOfAnotherTableAreFound(t *testing.T) {
	t.Parallel()
	ctx := fixture.Context(t)
	user := emulator.Role("roles/bigtable.user")
	server, err := emulator.Start(emulator.Principals(map[string]emulator.Rights{
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
	client := func(who string) *percolator.Client {
		c, err := percolator.NewClient(ctx, percolator.Config{Project: "p", Instance: "i", Oracle: oracle}, server.ClientOptionsOf(who)...)
		fixture.Must(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	dying, poor := client("rich"), client("poor")
	w := &world{TB: t, ctx: ctx, Env: &percolatortest.Env{Client: dying}}
	f := w.finds(poor)
	started := make(chan struct{})
	var once sync.Once
	a := settle.NewAdopter(poor.Engine().Looker, poor.Engine().Journal, func(settle.Backlog, bool) { once.Do(func() { close(started) }) })
	running.Go(func() { a.Run(within) })
	<-started
	for i := range 300 {
		w.appendEntries(dying, &journal.Entry{Primary: fixture.Cell(fmt.Sprint(i), "plain"), Rows: []journal.Row{{Table: "t", Key: fmt.Sprint(i)}}})
	}
	fixture.Must(t, fixture.Update(ctx, dying, func(tx *percolator.Txn) error {
		return tx.Set(percolator.Cell{Table: "u", Row: "r", Column: "seen"}, []byte("1"))
	}))
	fixture.Must(t, dying.Flush(ctx))
	fixture.Must(t, dying.Close())
	begun := time.Now()
	for f.of("r") == 0 && time.Since(begun) < 45*time.Second {
		time.Sleep(100 * time.Millisecond)
	}
	if f.of("r") == 0 {
		t.Errorf("the notification in table u was not found within %v", time.Since(begun))
	}
}
