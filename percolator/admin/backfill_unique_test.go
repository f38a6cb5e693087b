package admin_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// Rows that share a value keep a unique index from being finished until one of them gives way.
func TestBackfillOfAUniqueIndexMeetsDuplicates(t *testing.T) {
	t.Parallel()
	const secret = "secret@example.org"
	for name, fix := range map[string]struct {
		giveWay []string
		left    string
	}{
		"the first gives way":  {[]string{"b1", "b2"}, "b3"},
		"the second gives way": {[]string{"b2", "b3"}, "b1"},
		"the last gives way":   {[]string{"b3", "b1"}, "b2"},
	} {
		for _, rows := range []int{1, 2, 100} {
			t.Run(fmt.Sprint(name, ", rows a transaction: ", rows), func(t *testing.T) {
				t.Parallel()
				env := percolatortest.New(t, peopleSchema(percolator.Timing{}))
				ctx, c := fixture.Context(t), env.Client
				fixture.SetPeople(t, ctx, c, fixture.Mail, "a", "a@x", "b1", secret, "b2", secret, "b3", secret, "c", "c@x")
				addIndexes(t, ctx, env, c, "mail")
				opts := atOnce
				opts.RowsPerTransaction = rows
				for i, row := range fix.giveWay {
					_, err := admin.New(c).BackfillIndex(ctx, "people", "mail", opts)
					fixture.WantErr(t, err, percolator.ErrUnique)
					if u, ok := errors.AsType[*percolator.UniqueError](err); !ok || u.Index != "mail" {
						t.Errorf("%v is no UniqueError of the index", err)
					}
					if err == nil || strings.Contains(err.Error(), secret) || strings.Count(err.Error(), `people/"b`) != 2 {
						t.Fatalf("%v does not name two cells, or shows the value", err)
					}
					s, err := c.Snapshot(ctx)
					fixture.Must(t, err)
					fixture.WantErr(t, fixture.FirstError(s.ScanIndex(ctx, "people", "mail", percolator.All())), percolator.ErrSchemaMismatch)
					if i == 0 {
						fixture.SetPeople(t, ctx, c, fixture.Mail, row, "other@x")
					} else {
						fixture.Must(t, fixture.Update(ctx, c, func(tx *percolator.Txn) error { return fixture.Mail.Delete(tx, row) }))
					}
				}
				fixture.Must(t, fixture.ErrOf(admin.New(c).BackfillIndex(ctx, "people", "mail", opts)))
				fixture.WantIndex(t, ctx, c, "mail")
				if got := fixture.ListIndexNow(t, ctx, c, "mail", percolator.Row(secret)); got != secret+":"+fix.left {
					t.Errorf("the index says %q", got)
				}
				fixture.WantErr(t, fixture.Update(ctx, c, func(tx *percolator.Txn) error { return fixture.Mail.Set(tx, "z", secret) }), percolator.ErrUnique)
			})
		}
	}
}

// While a unique index is being built two rows may share a value, and its entry belongs to one of
// them.
func TestWritersOfAUniqueIndexThatIsBeingBuilt(t *testing.T) {
	t.Parallel()
	type step struct {
		row, value string // "": deleted
		want       error
	}
	for name, c := range map[string]struct {
		steps []step
		want  string // entries, and what a backfill then adds is not needed
	}{
		"the one without the entry leaves":  {[]step{{"new", "v", nil}, {"old1", "w", nil}}, "v:new w:old1"},
		"the one without the entry goes":    {[]step{{"new", "v", nil}, {"old1", "", nil}}, "v:new"},
		"the one with the entry leaves":     {[]step{{"new", "v", nil}, {"new", "w", nil}}, "w:new"},
		"a known value is refused":          {[]step{{"new", "v", nil}, {"newer", "v", percolator.ErrUnique}}, "v:new"},
		"a false entry is no reason":        {[]step{{"false", "f", nil}, {"new", "f", nil}}, "f:new"},
		"a value comes back":                {[]step{{"old1", "w", nil}, {"old1", "v", nil}, {"old2", "w", nil}}, "v:old1 w:old2"},
		"a handed over value of two owners": {[]step{{"new", "v", nil}, {"old1>newer", "v", percolator.ErrUnique}}, "v:new"},
		"a handed over value of one owner":  {[]step{{"new", "v", nil}, {"new>newer", "v", nil}}, "v:newer w:new"},
		"both leave":                        {[]step{{"new", "v", nil}, {"new&old1", "", nil}}, ""},
		"both leave, the other way":         {[]step{{"new", "v", nil}, {"old1&new", "", nil}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := percolatortest.New(t, peopleSchema(percolator.Timing{}))
			ctx, client := fixture.Context(t), env.Client
			fixture.SetPeople(t, ctx, client, fixture.Mail, "old1", "v", "old2", "v")
			stranger := env.NewClient()
			addIndexes(t, ctx, env, client, "mail")
			for _, s := range c.steps {
				if s.row == "false" { // its entry stays behind
					fixture.SetPeople(t, ctx, client, fixture.Mail, "false", s.value)
					fixture.SetPeople(t, ctx, stranger, fixture.Mail, "false", "elsewhere")
					continue
				}
				err := fixture.Update(ctx, client, func(tx *percolator.Txn) error {
					if from, to, ok := strings.Cut(s.row, ">"); ok {
						return errors.Join(fixture.Mail.Set(tx, from, "w"), fixture.Mail.Set(tx, to, s.value))
					}
					var err error
					for row := range strings.SplitSeq(s.row, "&") {
						if s.value == "" {
							err = errors.Join(err, fixture.Mail.Delete(tx, row))
						} else {
							err = errors.Join(err, fixture.Mail.Set(tx, row, s.value))
						}
					}
					return err
				})
				if !errors.Is(err, s.want) {
					t.Fatalf("%s = %q: %v, want %v", s.row, s.value, err, s.want)
				}
			}
			var got []string
			fixture.Must(t, client.Flush(ctx))
			report, err := admin.New(client).VerifyIndex(ctx, "people", "mail", admin.VerifyIndexOptions{})
			fixture.Must(t, err)
			if report.Stray+report.Stale+report.Corrupt != 0 {
				t.Errorf("%+v", report)
			}
			// Give up what is shared with the rows that are older than the index, and look.
			fixture.Must(t, fixture.Update(ctx, client, func(tx *percolator.Txn) error {
				var err error
				for _, row := range []string{"old1", "old2"} {
					v, verr := fixture.Mail.GetOr(ctx, tx, row, "")
					if verr != nil {
						return verr
					}
					if !strings.Contains(c.want, v+":"+row) {
						err = errors.Join(err, fixture.Mail.Delete(tx, row))
					}
				}
				return err
			}))
			fixture.Must(t, fixture.ErrOf(admin.New(client).BackfillIndex(ctx, "people", "mail", atOnce)))
			fixture.WantIndex(t, ctx, client, "mail")
			for _, e := range strings.Fields(fixture.ListIndexNow(t, ctx, client, "mail", percolator.All())) {
				if !strings.HasSuffix(e, ":false") {
					got = append(got, e)
				}
			}
			slices.Sort(got)
			if strings.Join(got, " ") != c.want {
				t.Errorf("entries %q, want %q", got, c.want)
			}
		})
	}
}

// A writer that leaves the entry of its value alone, because it belongs to another row, conflicts
// with whoever changes that entry.
func TestWriterWhoseEntryWasAnothersMeetsTheBackfill(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, peopleSchema(percolator.Timing{}))
	ctx, c := fixture.Context(t), env.Client
	fixture.SetPeople(t, ctx, c, fixture.Mail, "old", "v")
	addIndexes(t, ctx, env, c, "mail")
	fixture.SetPeople(t, ctx, c, fixture.Mail, "new", "v")
	slow := env.NewClient()
	tx := fixture.MustBegin(t, ctx, slow)
	fixture.Must(t, fixture.Mail.Set(tx, "old", "w"))
	fixture.Must(t, fixture.Update(ctx, c, func(tx *percolator.Txn) error { return fixture.Mail.Delete(tx, "new") }))
	hold := percolatortest.NewHold() // the backfill is done but for the last word
	env.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
		if r.Table == "percolator_meta" && r.Method == percolatortest.CheckAndMutateRow {
			return hold
		}
		return percolatortest.Pass
	})
	done := make(chan error, 1)
	go func() { done <- fixture.ErrOf(admin.New(c).BackfillIndex(ctx, "people", "mail", atOnce)) }()
	hold.Wait(t, 1)
	fixture.Must(t, c.Flush(ctx))
	fixture.WantErr(t, fixture.ErrOf(tx.Commit(ctx)), percolator.ErrConflict)
	hold.Release()
	fixture.Must(t, <-done)
	fixture.WantIndex(t, ctx, c, "mail")
}
