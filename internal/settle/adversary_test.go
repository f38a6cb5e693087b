package settle_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/internal/fixture"
	"github.com/gopercolator/percolator/internal/journal"
	"github.com/gopercolator/percolator/internal/model"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// A notification of a column that the adopter does not know to be observed yet is not passed by: the
// stored schema says what is observed (J4).
func TestAColumnThatHasJustBecomeObserved(t *testing.T) {
	t.Parallel()
	schema := func(observed ...string) *percolator.Schema {
		return &percolator.Schema{
			Tables: []percolator.Table{{Name: "t", Observed: observed}},
			Timing: percolator.Timing{RequestLifetime: lifetime, MetaMaxAge: time.Minute},
		}
	}
	w := &world{TB: t, Env: percolatortest.New(t, schema("seen")), ctx: fixture.Context(t)}
	w.Clock.Stop()
	_, a, _ := w.adopter()
	fixture.Must(t, percolator.CreateSchema(w.ctx, w.Project, w.Instance, schema("seen", "late"), w.Options()...))
	c, session := w.client()
	tx := fixture.MustBegin(t, w.ctx, c)
	fixture.Must(t, tx.Set(fixture.Cell("r", "late"), []byte("1")))
	_, err := tx.Commit(w.ctx)
	fixture.Must(t, errors.Join(err, c.Flush(w.ctx)))
	w.end(session)
	for range 5 {
		fixture.Must(t, a.Turn(w.ctx))
	}
	if w.settled(session) {
		t.Error("the low position has passed an entry whose notification nobody has seen")
	}
}

// A header that cannot be decoded keeps nobody else's stream from being adopted.
func TestACorruptHeaderKeepsNoOtherStream(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dying, session := w.client()
	w.die(dying, session, "lost")
	mut := bigtable.NewMutation()
	mut.Set("journal", "session", 0, []byte("no header"))
	fixture.Must(t, w.Store().Open(model.JournalTable).Apply(w.ctx, "\x01sixteen-bytes-id\x00\x00\x00\x00\x00\x00\x00\x00", mut))
	_, a, found := w.adopter()
	w.turns(a, "the notification is found", func() bool { return found.of("lost") > 0 })
}

// An announcement whose entry may have been collected before its notify cells could be written is
// refused (J2, I16): nobody would find them.
func TestAnAnnouncementThatTookTooLong(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, _ := w.client()
	rows := []journal.Row{{Table: "t", Key: "r", Weak: true}}
	_, err := c.Engine().Commits.Announce(w.ctx, rows)
	fixture.Must(t, err)
	w.FaultsOf(c).HandleJournal(func(percolatortest.Request) percolatortest.Action {
		w.Clock.Advance(2 * c.Engine().Config.Retention) // as a machine that is suspended: its own clock stands still
		return percolatortest.Pass
	})
	if a, err := c.Engine().Commits.Announce(w.ctx, rows); !errors.Is(err, model.ErrSnapshotTooOld) {
		t.Errorf("announced %+v: %v", a, err)
	}
}

// A weak notification of a transaction that was rolled back is dealt with before its entry is
// settled (J4).
func TestAnOwnRollBackAfterAWeakNotification(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, session := w.client()
	found := w.finds(c)
	ctx, cancel := context.WithCancel(w.ctx)
	defer cancel()
	w.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
		if r.Method == percolatortest.MutateRows && r.Sets("notify") {
			cancel() // the caller gives up
		}
		return percolatortest.Pass
	})
	tx := fixture.MustBegin(t, w.ctx, c)
	fixture.Must(t, errors.Join(tx.Set(fixture.Cell("r", "plain"), []byte("1")), tx.Notify(fixture.Cell("n", "poke"))))
	if _, err := tx.Commit(ctx); err == nil {
		t.Fatal("it committed")
	}
	fixture.Must(t, c.Flush(w.ctx))
	notified, err := c.Engine().Reads.Notified(w.ctx, fixture.Cell("n", "poke"))
	fixture.Must(t, err)
	if !notified {
		t.Fatal("there is no notification")
	}
	if low := c.Engine().Journal.Own.Unsettled(); low.Rows == 0 && found.of("n") == 0 {
		t.Errorf("the entry of session %s is settled, and nobody knows of the notification", session)
	}
}
