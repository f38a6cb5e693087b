package settle_test

import (
	"errors"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/internal/fixture"
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

