package admin_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// mailSchema has people with a unique index over mail, if it is to have one, and a time to live.
func mailSchema(c *percolator.Client, ttl time.Duration, indexed bool) *percolator.Schema {
	people := percolator.Table{Name: "people", TTL: ttl}
	if indexed {
		people.Indexes = []percolator.Index{{Name: "mail", Column: "mail", Unique: true}}
	}
	s := &percolator.Schema{Tables: []percolator.Table{people, {Name: "t"}}}
	if c != nil {
		s.Timing = c.Schema().Timing
	}
	return s
}

// wantMailIndexed checks that the index shows the value that the cell holds, and keeps it unique.
func wantMailIndexed(t *testing.T, ctx context.Context, c *percolator.Client) {
	t.Helper()
	s, err := c.Snapshot(ctx)
	fixture.Must(t, err)
	fixture.WantValue(t, ctx, s, fixture.Mail.Cell("ann"), "ann@x")
	n := 0
	for _, err := range s.ScanIndex(ctx, "people", "mail", percolator.Exactly([]byte("ann@x"))) {
		fixture.Must(t, err)
		n++
	}
	if n != 1 {
		t.Errorf("the index shows %d cells with the value, want 1", n)
	}
	fixture.WantErr(t, fixture.Update(ctx, c, func(tx *percolator.Txn) error { return fixture.Mail.Set(tx, "bob", "ann@x") }), percolator.ErrUnique)
}

// While a new time to live becomes known, a client that does not know it yet puts a value again
// that one which knows it has put. The value lives on, so its entry has to (I27), in whichever
// way the client has learned of the old value.
func TestIndexEntryOfAClientThatDoesNotKnowTheTTL(t *testing.T) {
	mail, name := fixture.Mail.Cell("ann"), percolator.Cell{Table: "people", Row: "ann", Column: "name"}
	for way, reads := range map[string][]percolator.Cell{"blind": {}, "read": {mail}, "read with the row": {name}} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			percolatortest.Bubble(t, func(t *testing.T) {
				env := percolatortest.New(t, mailSchema(nil, 0, true))
				ctx, c, late := context.Background(), env.Client, env.NewClient()
				for range 400 { // until its reads are of whole rows
					s, err := late.Snapshot(ctx)
					fixture.Must(t, err)
					fixture.WantValue(t, ctx, s, name, "")
				}
				learnSchema(t, ctx, env, c, mailSchema(c, time.Minute, true))
				fixture.SetPeople(t, ctx, c, fixture.Mail, "ann", "ann@x")
				fixture.Must(t, fixture.Update(ctx, late, func(tx *percolator.Txn) error {
					for _, cell := range reads {
						if _, err := tx.Get(ctx, cell); err != nil && !errors.Is(err, percolator.ErrNotFound) {
							return err
						}
					}
					return fixture.Mail.Set(tx, "ann", "ann@x")
				}))
				time.Sleep(2 * time.Minute)
				wantMailIndexed(t, ctx, c)
			})
		})
	}
}

// A value that has no time to live is put again with one. Its entry expires with it.
func TestIndexEntryOfAValueThatGetsATTL(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		env := percolatortest.New(t, mailSchema(nil, 0, true))
		ctx, c := context.Background(), env.Client
		fixture.SetPeople(t, ctx, c, fixture.Mail, "ann", "ann@x")
		learnSchema(t, ctx, env, c, mailSchema(c, time.Minute, true))
		fixture.SetPeople(t, ctx, c, fixture.Mail, "ann", "ann@x")
		wantMailIndexed(t, ctx, c)
		time.Sleep(2 * time.Minute)
		fixture.SetPeople(t, ctx, c, fixture.Mail, "bob", "ann@x") // a unique value
		report, err := admin.New(c).VerifyIndex(ctx, "people", "mail", admin.VerifyIndexOptions{})
		if err != nil || report.Damaged() != 0 || report.Entries != 1 {
			t.Errorf("%+v, %v", report, err)
		}
	})
}

// A column loses its time to live, then gets an index. A value from before that is put again does
// not expire, so its entry must not either.
func TestIndexAddedAfterTheTTLWasRemoved(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		env := percolatortest.New(t, mailSchema(nil, 10*time.Minute, false))
		ctx, c := context.Background(), env.Client
		fixture.SetPeople(t, ctx, c, fixture.Mail, "ann", "ann@x")
		learnSchema(t, ctx, env, c, mailSchema(c, 0, false))
		learnSchema(t, ctx, env, c, mailSchema(c, 0, true))
		_, err := admin.New(c).BackfillIndex(ctx, "people", "mail", admin.BackfillOptions{})
		fixture.Must(t, err)
		fixture.SetPeople(t, ctx, c, fixture.Mail, "ann", "ann@x")
		wantMailIndexed(t, ctx, c)
		time.Sleep(11 * time.Minute)
		wantMailIndexed(t, ctx, c)
	})
}

// While a new index becomes known, a client that does not know it yet puts a value again that one
// which knows it has put. A backfill finds an entry that expires before its cell (I27).
func TestBackfillOfAnEntryThatExpiresBeforeItsCell(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		env := percolatortest.New(t, mailSchema(nil, 10*time.Minute, false))
		ctx, c, late := context.Background(), env.Client, env.NewClient()
		learnSchema(t, ctx, env, c, mailSchema(c, 10*time.Minute, true))
		fixture.SetPeople(t, ctx, c, fixture.Mail, "ann", "ann@x")
		started := time.Now()
		time.Sleep(5 * time.Second)
		fixture.SetPeople(t, ctx, late, fixture.Mail, "ann", "ann@x")
		_, err := admin.New(c).BackfillIndex(ctx, "people", "mail", admin.BackfillOptions{})
		fixture.Must(t, err)
		wantMailIndexed(t, ctx, c)
		time.Sleep(time.Until(started.Add(10*time.Minute + 2*time.Second)))
		wantMailIndexed(t, ctx, c)
	})
}

// A client that does not know a new index, nor that its column has lost the TTL, puts a value again
// whose entry does not expire. The cell expires while the backfill is at work.
func TestBackfillOfAnEntryThatOutlivesItsCell(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		const ttl = 10 * time.Minute
		env := percolatortest.New(t, mailSchema(nil, ttl, false))
		ctx, c, late := context.Background(), env.Client, env.NewClient()
		learnSchema(t, ctx, env, c, mailSchema(c, 0, true))
		fixture.SetPeople(t, ctx, c, fixture.Mail, "ann", "ann@x")
		fixture.SetPeople(t, ctx, late, fixture.Mail, "ann", "ann@x")
		filling := false
		report, err := admin.New(c).BackfillIndex(ctx, "people", "mail", admin.BackfillOptions{Progress: func(p admin.BackfillProgress) {
			if p.Phase == admin.BackfillFill && !filling {
				filling = true
				time.Sleep(ttl)
			}
		}})
		fixture.Must(t, err)
		if report.Removed != 1 {
			t.Errorf("it has removed %d entries, want 1", report.Removed)
		}
		s, err := c.Snapshot(ctx)
		fixture.Must(t, err)
		for e, err := range s.ScanIndex(ctx, "people", "mail", percolator.All()) {
			fixture.Must(t, err)
			t.Errorf("the index shows %s, which has expired", e.Cell)
		}
	})
}
