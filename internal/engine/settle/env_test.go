package settle_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/engine/journal"
	"github.com/gopercolator/percolator/internal/engine/settle"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// lifetime is that of requests in these tests.
const lifetime = time.Second

// world is an instance whose clients have sessions that a test ends.
type world struct {
	testing.TB
	*percolatortest.Env
	ctx      context.Context
	sessions fixture.Registrar
}

func newWorld(t testing.TB) *world {
	t.Helper()
	env := percolatortest.New(t, &percolator.Schema{
		Tables: []percolator.Table{{Name: "t", Observed: []string{"seen"}, Weak: []string{"poke"}}},
		Timing: percolator.Timing{RequestLifetime: lifetime, MetaMaxAge: time.Second},
	})
	env.Clock.Stop() // no lock dies by its time to live
	return &world{TB: t, Env: env, ctx: fixture.Context(t)}
}

// client is a client with a session of its own, and the name of that.
func (w *world) client() (c *percolator.Client, session string) {
	w.Helper()
	c = w.sessions.Client(w.Env)
	c.Engine().Looker.Timeout.Store(int64(10 * lifetime))
	return c, c.Engine().Locks.Sessions.Own()
}

// finds collects what looks of a client find.
type finds struct {
	mu   sync.Mutex
	rows map[string]int
}

func (w *world) finds(c *percolator.Client) *finds {
	f := &finds{rows: map[string]int{}}
	w.Cleanup(c.Engine().Looker.HandleFound(func() settle.Found {
		return func(_ context.Context, _ model.Pending, n model.Notification, _ settle.Sight) bool {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.rows[n.Cell.Row]++
			return true
		}
	}, func(model.Cell) bool { return true }))
	return f
}

func (f *finds) of(row string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.rows[row]
}

// adopter is one of a client of its own.
func (w *world) adopter() (*percolator.Client, *settle.Adopter, *finds) {
	w.Helper()
	c, _ := w.client()
	return c, settle.NewAdopter(c.Engine().Looker, c.Engine().Journal, nil), w.finds(c)
}

// turnPause is between two turns.
const turnPause = 20 * time.Millisecond

// turns lets an adopter work until cond holds.
func (w *world) turns(a *settle.Adopter, what string, cond func() bool) {
	w.Helper()
	fixture.Eventually(w, what, func() bool {
		if err := a.RunOnce(w.ctx); err != nil {
			w.Logf("turn: %v", err)
		}
		time.Sleep(turnPause)
		return cond()
	})
}

// settled reports whether every stream of a session is settled.
func (w *world) settled(session string) bool {
	w.Helper()
	s := w.Client.Engine().Store
	streams, err := journal.Streams(w.ctx, s)
	fixture.Must(w, err)
	seen := false
	for _, st := range streams {
		if st.Session != session {
			continue
		}
		more, err := journal.HasRows(w.ctx, s, st.ID, st.Low)
		fixture.Must(w, err)
		if more {
			return false
		}
		seen = true
	}
	return seen
}

// end ends a session, as its client's death does.
func (w *world) end(session string) { w.sessions.End(session) }

// die makes a client commit a transaction to two rows and die before phase two: the second keeps
// its lock and lacks its notification.
func (w *world) die(c *percolator.Client, session string, rows ...string) {
	w.Helper()
	w.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
		if r.Method == percolatortest.MutateRows {
			return percolatortest.Crash
		}
		return percolatortest.Pass
	})
	tx := fixture.MustBegin(w, w.ctx, c)
	fixture.Must(w, tx.Set(fixture.Cell("primary", "plain"), []byte("1")))
	for _, row := range rows {
		fixture.Must(w, tx.Set(fixture.Cell(row, "seen"), []byte("1")))
	}
	_, err := tx.Commit(w.ctx)
	fixture.Must(w, err)
	fixture.Eventually(w, "the death", func() bool { _ = c.Flush(w.ctx); return w.FaultsOf(c).Crashed() })
	w.end(session)
}

// appendEntries appends entries as they are.
func (w *world) appendEntries(c *percolator.Client, entries ...*model.JournalEntry) {
	w.Helper()
	for _, e := range entries {
		ts, err := c.Engine().Clock.Next(w.ctx)
		fixture.Must(w, err)
		e.StartTS = ts
		a, err := c.Engine().Journal.Append(w.ctx, e)
		fixture.Must(w, err)
		fixture.Must(w, a.Wait(w.ctx))
	}
}

// rowsRead counts the rows of table t that a client has asked for by name, and fails on ranges.
func (w *world) rowsRead(c *percolator.Client) (n int) {
	w.Helper()
	for _, r := range w.FaultsOf(c).Requests() {
		if r.Method != percolatortest.ReadRows || r.Table != "t" {
			continue
		}
		if r.Rows == 0 {
			w.Errorf("a range of the table was read: %v", r)
		}
		n += r.Rows
	}
	return n
}

func row(i int) string { return fmt.Sprintf("row-%04d", i) }
