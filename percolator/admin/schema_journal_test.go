package admin_test

import (
	"testing"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// TestJournalTurnedOnAndOff: a new instance has a journal that is complete. Turned off it is
// forgotten, and turned on again it is built again; the clients that run learn of either.
func TestJournalTurnedOnAndOff(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testJournalTurnedOnAndOff)
}

func testJournalTurnedOnAndOff(t *testing.T) {
	env := percolatortest.New(t, fixture.JournalSchema(false))
	ctx, c := fixture.Context(t), env.Client
	stored, err := admin.Instance{Project: env.Project, ID: env.Instance, Options: env.Options()}.ReadSchema(ctx)
	fixture.Must(t, err)
	if stored.Schema.DisableJournal || stored.Journal != (model.JournalState{}) || !c.Engine().Meta.ByJournal() {
		t.Errorf("a new instance has the journal %+v, disabled: %v", stored.Journal, stored.Schema.DisableJournal)
	}
	fixture.Put(t, ctx, c, "r", "c", "1")
	fixture.WantEntries(t, ctx, env, "of a transaction", 1)

	if plan, words := changesOf(t, ctx, env, fixture.JournalSchema(true)); words != "journal removed" || plan.Refused() != nil {
		t.Errorf("planned %q, %v", words, plan.Refused())
	}
	stored = fixture.Apply(t, ctx, env, fixture.JournalSchema(true))
	if !stored.Schema.DisableJournal || stored.Journal != (model.JournalState{}) {
		t.Errorf("turned off: %+v", stored)
	}
	fixture.Eventually(t, "the client knows that there is no journal", func() bool { return !c.Engine().Meta.Journaled() })
	fixture.Put(t, ctx, c, "r", "c", "2")
	fixture.WantEntries(t, ctx, env, "turned off", 1)

	if plan, words := changesOf(t, ctx, env, fixture.JournalSchema(false)); words != "journal added" || plan.Refused() != nil || !plan.Changes[0].Backfill {
		t.Errorf("planned %q, %v", words, plan.Refused())
	}
	first := fixture.Apply(t, ctx, env, fixture.JournalSchema(false))
	if first.Schema.DisableJournal || first.Journal.Building == "" {
		t.Errorf("turned on again: %+v", first)
	}
	fixture.Eventually(t, "the client knows of the journal", c.Engine().Meta.Journaled)
	fixture.Put(t, ctx, c, "r", "c", "3")
	fixture.WantEntries(t, ctx, env, "turned on again", 2)
	if c.Engine().Meta.ByJournal() {
		t.Error("a journal is relied on that is building")
	}

	fixture.Apply(t, ctx, env, fixture.JournalSchema(true))
	second := fixture.Apply(t, ctx, env, fixture.JournalSchema(false))
	if second.Journal.Building == "" || second.Journal.Building == first.Journal.Building {
		t.Errorf("built again: %+v after %+v", second.Journal, first.Journal)
	}
	fixture.WantErr(t, c.Engine().Meta.JournalReady(ctx, first.Journal.Building, 1), percolator.ErrConflict)
	fixture.Must(t, c.Engine().Meta.JournalReady(ctx, second.Journal.Building, 7))
	fixture.Must(t, c.Engine().Meta.JournalReady(ctx, second.Journal.Building, 7)) // after an answer that was lost
	if m := c.Engine().Meta; !m.ByJournal() || m.CollectByJournal(6) || !m.CollectByJournal(7) {
		t.Error("ready since 7")
	}
}

// TestJournalOfAnInstanceWithoutOne: CreateSchema gives it one that is building; programs whose
// schema differs in nothing but the journal work on.
func TestJournalOfAnInstanceWithoutOne(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, fixture.JournalSchema(true))
	ctx := fixture.Context(t)
	with := func(s *percolator.Schema) percolatortest.ClientOption {
		return percolatortest.Configure(func(cfg *percolator.Config) { cfg.Schema = s })
	}
	env.NewClient(with(fixture.JournalSchema(false)))
	if stored := fixture.Apply(t, ctx, env, fixture.JournalSchema(false)); stored.Journal.Building == "" || stored.Version != 2 {
		t.Errorf("%+v", stored)
	}
	fixture.Put(t, ctx, env.NewClient(with(fixture.JournalSchema(true))), "r", "c", "1")
	fixture.WantEntries(t, ctx, env, "of a client that has the former schema", 1)
}

// TestLostJournal: an instance whose table of the journal is gone has it built again.
func TestLostJournal(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testLostJournal)
}

func testLostJournal(t *testing.T) {
	env := percolatortest.New(t, fixture.JournalSchema(false))
	ctx := fixture.Context(t)
	bt, err := bigtable.NewAdminClient(ctx, env.Project, env.Instance, env.Options()...)
	fixture.Must(t, err)
	defer func() { _ = bt.Close() }()
	fixture.Must(t, bt.DeleteTable(ctx, model.JournalTable))
	if plan, words := changesOf(t, ctx, env, fixture.JournalSchema(false)); words != "bigtable table created  percolator_journal" || !plan.Changes[0].Backfill {
		t.Errorf("planned %q", words)
	}
	if stored := fixture.Apply(t, ctx, env, fixture.JournalSchema(false)); stored.Journal.Building == "" {
		t.Errorf("%+v", stored)
	}
	if _, words := changesOf(t, ctx, env, fixture.JournalSchema(false)); words != "" {
		t.Errorf("planned %q", words)
	}
}
