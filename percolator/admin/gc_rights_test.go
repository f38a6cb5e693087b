package admin_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

// The module grants gives no right to percolator_journal where the schema disables the journal.
// Collection goes on there, whether the table never was, or is left from before.
func TestCollectionWithoutAJournalNeedsNoRightToIt(t *testing.T) {
	for name, before := range map[string]bool{"never had one": false, "had one": true} {
		t.Run(name, func(t *testing.T) {
			percolatortest.Bubble(t, func(t *testing.T) {
				ctx := fixture.Context(t)
				user := emulator.Role("roles/bigtable.user")
				server, err := emulator.Start(emulator.InMemory(), emulator.Principals(map[string]emulator.Rights{
					"rich":   {Instance: emulator.Role("roles/bigtable.admin")},
					"worker": {Instance: []string{"bigtable.instances.ping"}, Tables: map[string][]string{model.MetaTable: user, "t": user}},
				}))
				fixture.Must(t, err)
				t.Cleanup(func() { _ = server.Close() })
				s := &percolator.Schema{Tables: []percolator.Table{{Name: "t"}}, Timing: percolator.Timing{RequestLifetime: 2 * time.Second, MetaMaxAge: 2 * time.Second}}
				s.DisableJournal = !before
				fixture.Must(t, percolator.CreateSchema(ctx, "p", "i", s, server.ClientOptionsOf("rich")...))
				if before {
					s.DisableJournal = true
					fixture.Must(t, percolator.CreateSchema(ctx, "p", "i", s, server.ClientOptionsOf("rich")...))
				}
				oracle, err := tso.NewServer(tso.NewMemoryStore(), tso.ServerConfig{})
				fixture.Must(t, err)
				within, stop := context.WithCancel(ctx)
				var running sync.WaitGroup
				running.Go(func() { _ = oracle.Run(within) })
				t.Cleanup(func() { stop(); running.Wait() })
				c, err := percolator.NewClient(ctx, percolator.Config{Project: "p", Instance: "i", Oracle: oracle, Retention: time.Minute}, server.ClientOptionsOf("worker")...)
				fixture.Must(t, err)
				t.Cleanup(func() { _ = c.Close() })
				g, err := admin.New(c).NewCollector(admin.CollectorConfig{})
				fixture.Must(t, err)
				for range 2 {
					if col, err := g.Collect(ctx); err != nil {
						t.Errorf("phase %q: %v", col.Phase, err)
					}
				}
			})
		})
	}
}
