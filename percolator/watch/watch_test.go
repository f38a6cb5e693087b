package watch_test

import (
	"strings"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/percolator/watch"
)

func TestChangesAreOfTheColumnsAskedFor(t *testing.T) {
	t.Parallel()
	ctx := fixture.Context(t)
	env := fixture.NewEnv(t)
	fixture.Put(t, ctx, env.Client, "r", "c", "before")
	from := now(t, ctx, env.Oracle)
	fixture.Put(t, ctx, env.Client, "r", "c", "1", "q", "c", "2", "r", "other", "x")
	fixture.Put(t, ctx, env.Client, "r", "seen", "y")
	fixture.Put(t, ctx, env.Client, "r", "c", "3")
	fixture.Put(t, ctx, env.Client, "r", "c", "")
	fixture.Must(t, fixture.Update(ctx, env.Client, func(tx *percolator.Txn) error {
		if _, err := tx.GetForUpdate(ctx, fixture.Cell("p", "c")); err != nil && !strings.Contains(err.Error(), "not found") {
			return err
		}
		fixture.Must(t, tx.Notify(fixture.Cell("r", "poke")))
		return tx.Delete(fixture.Cell("r", "c"))
	}))
	tx := fixture.MustBegin(t, ctx, env.Client)
	fixture.Must(t, tx.Set(fixture.Cell("r", "c"), []byte("rolled back")))
	fixture.Must(t, tx.Rollback(ctx))
	fixture.Must(t, fixture.Update(ctx, env.Client, func(tx *percolator.Txn) error {
		return tx.Set(percolator.Cell{Table: "people", Row: "r", Column: "city"}, []byte("Bonn"))
	}))
	last := fixture.Put(t, ctx, env.Client, "z", "c", "5")

	for _, test := range []struct {
		columns []watch.Column
		want    string
	}{
		{nil, "q.c=2 r.c=1 r.c=3 r.c= r.c z.c=5"},
		{[]watch.Column{{Table: "t", Name: "other"}, {Table: "people", Name: "city"}, column}, "q.c=2 r.c=1 r.other=x r.c=3 r.c= r.c r.city=Bonn z.c=5"},
		{[]watch.Column{{Table: "t"}}, "q.c=2 r.c=1 r.other=x r.seen=y r.c=3 r.c= r.c z.c=5"},
		{[]watch.Column{column, {Table: "t", Name: "a"}, {Table: "t", Name: "b"}, {Table: "t", Name: "d"}, {Table: "t", Name: "e"}}, "q.c=2 r.c=1 r.c=3 r.c= r.c z.c=5"},
	} {
		got, at := until(t, ctx, env.Client, config(from, test.columns...), last)
		if shown(got) != test.want {
			t.Errorf("%v: %s\nwant %s", test.columns, shown(got), test.want)
		}
		for i, c := range got {
			if c.StartTS >= c.CommitTS || c.CommitTS <= from || c.CommitTS > at.Timestamp() || i > 0 && c.CommitTS < got[i-1].CommitTS {
				t.Errorf("%s, which began at %d, commits at %d", c.Cell, c.StartTS, c.CommitTS)
			}
		}
	}
}

// All columns of a table that declares its columns are those it declares.
func TestChangesOfADeclaredTable(t *testing.T) {
	t.Parallel()
	ctx := fixture.Context(t)
	env := percolatortest.New(t, &percolator.Schema{Tables: []percolator.Table{{Name: "t", Columns: []percolator.ColumnSchema{{Name: "c"}, {Name: "item:*"}}}}})
	from := now(t, ctx, env.Oracle)
	last := fixture.Put(t, ctx, env.Client, "r", "c", "1", "r", "item:a", "2")
	if got, _ := until(t, ctx, env.Client, config(from, watch.Column{Table: "t"}), last); shown(got) != "r.c=1 r.item:a=2" {
		t.Errorf("%s", shown(got))
	}
	fixture.WantErr(t, failure(t, ctx, env.Client, config(from, watch.Column{Table: "t", Name: "d"})), percolator.ErrInvalidArgument)
}

// What follows a position, also one that went through its text form, is neither missed nor told
// again.
func TestPositionsNeitherMissNorRepeat(t *testing.T) {
	t.Parallel()
	ctx := fixture.Context(t)
	env := fixture.NewEnv(t)
	position := watch.At(now(t, ctx, env.Oracle))
	for i := range 20 {
		client := env.Client
		if i%5 == 4 {
			client = env.NewClient()
		}
		want := ""
		for range i % 3 {
			want += " " + key(i) + ".c=v"
			fixture.Put(t, ctx, client, key(i), "c", "v")
		}
		last := fixture.Put(t, ctx, client, "last", "c", "v")
		cfg := config(0)
		text, err := position.MarshalText()
		fixture.Must(t, err)
		fixture.Must(t, cfg.From.UnmarshalText(text))
		env.FaultsOf(env.Client).Forget()
		var got []watch.Change
		if got, position = until(t, ctx, env.Client, cfg, last); shown(got) != strings.TrimSpace(want+" last.c=v") {
			t.Errorf("%d: %s, want%s", i, shown(got), want)
		}
	}
	for _, text := range []string{"", "x", "-1", "1.?", "1.AA", "99999999999999999999", position.String() + "AA"} {
		var p watch.Position
		fixture.WantErr(t, p.UnmarshalText([]byte(text)), percolator.ErrInvalidArgument)
	}
}

func TestConfigurationsThatAreRefused(t *testing.T) {
	t.Parallel()
	ctx := fixture.Context(t)
	env := fixture.NewEnv(t)
	future := now(t, ctx, env.Oracle).Add(time.Hour)
	for name, test := range map[string]struct {
		cfg  watch.Config
		want error
	}{
		"no column":           {watch.Config{}, percolator.ErrInvalidArgument},
		"no table":            {config(0, watch.Column{Table: "none"}), percolator.ErrSchemaMismatch},
		"an index":            {config(0, watch.Column{Table: "people.city"}), percolator.ErrSchemaMismatch},
		"no name":             {config(0, watch.Column{Table: "t", Name: "\x00"}), percolator.ErrInvalidArgument},
		"the future":          {config(future), percolator.ErrInvalidArgument},
		"restart":             {watch.Config{Columns: []watch.Column{column}, Restart: true}, percolator.ErrInvalidArgument},
		"name":                {watch.Config{Columns: []watch.Column{column}, Name: strings.Repeat("n", 129)}, percolator.ErrInvalidArgument},
		"ttl":                 {watch.Config{Columns: []watch.Column{column}, HoldTTL: 1}, percolator.ErrInvalidArgument},
		"below the safepoint": {config(1), percolator.ErrSnapshotTooOld},
	} {
		if err := failure(t, ctx, env.Client, test.cfg); err == nil {
			t.Errorf("%s: no error", name)
		} else {
			fixture.WantErr(t, err, test.want)
		}
	}
}

// Without a journal, and while it is built, there is nothing to follow.
func TestNoJournal(t *testing.T) {
	t.Parallel()
	ctx := fixture.Context(t)
	s := fixture.Schema()
	s.DisableJournal = true
	env := percolatortest.New(t, s)
	fixture.WantErr(t, failure(t, ctx, env.Client, config(0)), watch.ErrNoJournal)
	s.DisableJournal = false
	fixture.Must(t, percolator.CreateSchema(ctx, env.Project, env.Instance, s, env.Options()...))
	fixture.WantErr(t, failure(t, ctx, env.NewClient(), config(0)), watch.ErrNoJournal)
}
