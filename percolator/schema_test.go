package percolator_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

func TestInvalidSchemas(t *testing.T) {
	t.Parallel()
	table := func(t percolator.Table) *percolator.Schema { return &percolator.Schema{Tables: []percolator.Table{t}} }
	for name, s := range map[string]*percolator.Schema{
		"no table name":          table(percolator.Table{}),
		"a bad table name":       table(percolator.Table{Name: "a/b"}),
		"a newline at the end":   table(percolator.Table{Name: "a\n"}),
		"a long table name":      table(percolator.Table{Name: strings.Repeat("x", 51)}),
		"the meta table":         table(percolator.Table{Name: "percolator_meta"}),
		"a table twice":          {Tables: []percolator.Table{{Name: "t"}, {Name: "t"}}},
		"a table and an index":   {Tables: []percolator.Table{{Name: "t.ix"}, {Name: "t", Indexes: []percolator.Index{{Name: "ix", Column: "c"}}}}},
		"a column twice":         table(percolator.Table{Name: "t", Observed: []string{"c"}, Weak: []string{"c"}}),
		"an observed NUL":        table(percolator.Table{Name: "t", Observed: []string{"a\x00"}}),
		"an empty weak column":   table(percolator.Table{Name: "t", Weak: []string{""}}),
		"an index twice":         table(percolator.Table{Name: "t", Indexes: []percolator.Index{{Name: "ix", Column: "c"}, {Name: "ix", Column: "d"}}}),
		"an index without name":  table(percolator.Table{Name: "t", Indexes: []percolator.Index{{Column: "c"}}}),
		"an index of no column":  table(percolator.Table{Name: "t", Indexes: []percolator.Index{{Name: "ix"}}}),
		"an index of a weak one": table(percolator.Table{Name: "t", Weak: []string{"c"}, Indexes: []percolator.Index{{Name: "ix", Column: "c"}}}),
		"a bad index name":       table(percolator.Table{Name: "t", Indexes: []percolator.Index{{Name: "a/b", Column: "c"}}}),
	} {
		if err := percolator.ValidateSchema(s); !errors.Is(err, percolator.ErrInvalidArgument) && !errors.Is(err, percolator.ErrTooLarge) {
			t.Errorf("%s: %v", name, err)
		}
	}
	fixture.Must(t, percolator.ValidateSchema(fixture.Schema()))
	fixture.Must(t, percolator.ValidateSchema(&percolator.Schema{}))
}

func TestCreateSchemaAgainAndFurther(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	create := func(change func(s *percolator.Schema)) error {
		s := fixture.Schema()
		change(s)
		return percolator.CreateSchema(ctx, env.Project, env.Instance, s, env.Options()...)
	}
	fixture.Put(t, ctx, env.Client, "r", "c", "v")
	fixture.Must(t, create(func(*percolator.Schema) {}))
	fixture.Must(t, create(func(s *percolator.Schema) { slices.Reverse(s.Tables); s.Tables[0].Splits = []string{"m"} })) // order and splits do not matter
	fixture.WantNow(t, ctx, env.Client, fixture.Cell("r", "c"), "v")
	for name, change := range map[string]func(s *percolator.Schema){
		"without a table":           func(s *percolator.Schema) { s.Tables = s.Tables[1:] },
		"without an observed one":   func(s *percolator.Schema) { s.Tables[0].Observed = nil },
		"without a weak one":        func(s *percolator.Schema) { s.Tables[0].Weak = nil },
		"an observed one made weak": func(s *percolator.Schema) { s.Tables[0].Observed, s.Tables[0].Weak = nil, []string{"seen", "poke"} },
		"without an index":          func(s *percolator.Schema) { s.Tables[2].Indexes = s.Tables[2].Indexes[:1] },
		"an index no longer unique": func(s *percolator.Schema) { s.Tables[2].Indexes[0].Unique = false },
		"an index of another":       func(s *percolator.Schema) { s.Tables[2].Indexes[1].Column = "x" },
	} {
		if err := create(change); !errors.Is(err, percolator.ErrSchemaMismatch) {
			t.Errorf("%s: %v", name, err)
		}
	}
	more := func(s *percolator.Schema) {
		s.Tables = append(s.Tables, percolator.Table{Name: "more", Indexes: []percolator.Index{{Name: "ix", Column: "c"}}})
		s.Tables[1].Observed = []string{"late"}
		s.Tables[2].Indexes = append(s.Tables[2].Indexes, percolator.Index{Name: "age", Column: "age"})
	}
	fixture.Must(t, create(more))
	fixture.Must(t, create(more))
	fixture.WantErr(t, create(func(*percolator.Schema) {}), percolator.ErrSchemaMismatch) // what was added stays

	c := env.NewClient() // takes the stored schema
	tx := fixture.MustBegin(t, ctx, c)
	fixture.Must(t, tx.Set(percolator.Cell{Table: "more", Row: "r", Column: "c"}, []byte("v")))
	fixture.Must(t, tx.Set(percolator.Cell{Table: "u", Row: "r", Column: "late"}, []byte("v")))
	fixture.MustCommit(t, ctx, tx)
	fixture.Must(t, c.Flush(ctx)) // the cell in u is a secondary
	if n := fixture.CellsOf(t, ctx, env, "u", "notify"); n != 1 {
		t.Errorf("%d notifications", n)
	}
	fixture.WantNow(t, ctx, c, fixture.Cell("r", "c"), "v")
}

func TestCreateSchemaConcurrently(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, &percolator.Schema{})
	ctx := fixture.Context(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			if err := percolator.CreateSchema(ctx, env.Project, env.Instance, fixture.Schema(), env.Options()...); err != nil {
				t.Error(err)
			}
		}()
	}
	wg.Wait()
	fixture.Put(t, ctx, env.NewClient(), "r", "c", "v")
}

func TestClientChecksTheSchema(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	open := func(instance string, s *percolator.Schema) error {
		c, err := percolator.NewClient(ctx, percolator.Config{Project: env.Project, Instance: instance, Oracle: env.Oracle, Schema: s}, env.Options()...)
		if err == nil {
			fixture.Must(t, c.Close())
		}
		return err
	}
	fixture.Must(t, open(env.Instance, nil))
	same := fixture.Schema()
	slices.Reverse(same.Tables)
	fixture.Must(t, open(env.Instance, same))
	other := fixture.Schema()
	other.Tables[0].Observed = nil
	fixture.WantErr(t, open(env.Instance, other), percolator.ErrSchemaMismatch)
	fixture.WantErr(t, open(env.Instance, &percolator.Schema{}), percolator.ErrSchemaMismatch)
	fixture.WantErr(t, open("elsewhere", nil), percolator.ErrSchemaMismatch)
	fixture.WantErr(t, open("", nil), percolator.ErrInvalidArgument)
	fixture.WantErr(t, percolator.CreateSchema(ctx, "", env.Instance, same, env.Options()...), percolator.ErrInvalidArgument)
	fixture.WantErr(t, percolator.CreateSchema(ctx, env.Project, "", same, env.Options()...), percolator.ErrInvalidArgument)
	for name, change := range map[string]func(*percolator.Config){
		"a TTL too short":        func(c *percolator.Config) { c.LockTTL = 1 },
		"a negative TTL":         func(c *percolator.Config) { c.LockTTL = -1 },
		"a retention too short":  func(c *percolator.Config) { c.Retention = 1 },
		"a negative parallelism": func(c *percolator.Config) { c.MaxParallelism = -1 },
	} {
		cfg := percolator.Config{Project: env.Project, Instance: env.Instance, Oracle: env.Oracle}
		change(&cfg)
		if err := fixture.ErrOf(percolator.NewClient(ctx, cfg, env.Options()...)); !errors.Is(err, percolator.ErrInvalidArgument) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

type person struct {
	Name string
	Age  int
}

func TestTypedColumns(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx, c := fixture.Context(t), env.Client
	raw, name, count := percolator.Bytes("t", "raw"), percolator.String("t", "name"), percolator.Int64("t", "count")
	who, wrapped := percolator.JSON[person]("t", "who"), percolator.Proto[*wrapperspb.StringValue]("t", "wrapped")
	fixture.Must(t, fixture.Update(ctx, c, func(tx *percolator.Txn) error {
		return errors.Join(raw.Set(tx, "r", []byte{0, 0xff}), name.Set(tx, "r", "ä\xff"), count.Set(tx, "r", math.MinInt64), count.Insert(tx, "s", -1),
			who.Set(tx, "r", person{"ann", 7}), wrapped.Set(tx, "r", wrapperspb.String("x")), raw.Set(tx, "empty", nil))
	}))
	s, err := c.Snapshot(ctx)
	fixture.Must(t, err)
	if v, err := raw.Get(ctx, s, "r"); err != nil || string(v) != "\x00\xff" {
		t.Errorf("bytes %q, %v", v, err)
	}
	if v, err := raw.Get(ctx, s, "empty"); err != nil || v == nil || len(v) != 0 {
		t.Errorf("empty bytes %v, %v", v, err)
	}
	if v, err := name.Get(ctx, s, "r"); err != nil || v != "ä\xff" {
		t.Errorf("string %q, %v", v, err)
	}
	if v, err := count.Get(ctx, s, "r"); err != nil || v != math.MinInt64 {
		t.Errorf("integer %d, %v", v, err)
	}
	if v, err := who.Get(ctx, s, "r"); err != nil || v != (person{"ann", 7}) {
		t.Errorf("JSON %v, %v", v, err)
	}
	if v, err := wrapped.Get(ctx, s, "r"); err != nil || v.Value != "x" {
		t.Errorf("message %v, %v", v, err)
	}
	if v, err := count.GetOr(ctx, s, "none", 5); err != nil || v != 5 {
		t.Errorf("absent %d, %v", v, err)
	}
	fixture.WantErr(t, fixture.ErrOf(count.Get(ctx, s, "none")), percolator.ErrNotFound)
	var got []string
	for e, err := range count.Scan(ctx, s, percolator.All()) {
		fixture.Must(t, err)
		got = append(got, fmt.Sprint(e.Cell.Row, e.Value))
	}
	if fmt.Sprint(got) != "[r-9223372036854775808 s-1]" {
		t.Errorf("scanned %v", got)
	}

	fixture.Must(t, fixture.Update(ctx, c, func(tx *percolator.Txn) error {
		return errors.Join(name.Set(tx, "bad", "secret"), tx.Set(count.Cell("bad"), []byte("secret")), tx.Set(who.Cell("bad"), []byte(`{"Age":"secret"}`)), tx.Set(wrapped.Cell("bad"), []byte("secret")))
	}))
	s, err = c.Snapshot(ctx)
	fixture.Must(t, err)
	for what, err := range map[string]error{
		"integer": fixture.ErrOf(count.Get(ctx, s, "bad")),
		"JSON":    fixture.ErrOf(who.Get(ctx, s, "bad")),
		"message": fixture.ErrOf(wrapped.Get(ctx, s, "bad")),
	} {
		if !errors.Is(err, percolator.ErrCorrupt) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", what, err)
		}
	}
	tx := fixture.MustBegin(t, ctx, c)
	fixture.WantErr(t, percolator.JSON[func()]("t", "f").Set(tx, "r", func() {}), percolator.ErrInvalidArgument)
	if v, err := count.GetForUpdate(ctx, tx, "s"); err != nil || v != -1 {
		t.Errorf("for update: %d, %v", v, err)
	}
	fixture.Must(t, count.Delete(tx, "s"))
	fixture.WantErr(t, fixture.ErrOf(count.Get(ctx, tx, "s")), percolator.ErrNotFound)
	fixture.WantErr(t, count.Notify(tx, "s"), percolator.ErrInvalidArgument)
	fixture.Must(t, percolator.Bytes("t", "poke").Notify(tx, "s"))
	fixture.MustCommit(t, ctx, tx)
}

// Errors may end in logs, and values are the user's.
func TestErrorsNeverShowValues(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx, c := fixture.Context(t), env.Client
	const secret = "secret-value"
	fixture.Put(t, ctx, c, "r", "c", secret)
	fixture.Must(t, fixture.Update(ctx, c, func(tx *percolator.Txn) error { return fixture.Mail.Set(tx, "ann", secret) }))
	old := fixture.MustBegin(t, ctx, c)
	fixture.Must(t, old.Set(fixture.Cell("r", "c"), []byte(secret)))
	fixture.Put(t, ctx, c, "r", "c", secret)
	fixture.Plant(t, ctx, env, "t", "bad", "lock", "c", 1000, secret)
	fixture.Plant(t, ctx, env, "t", "bad", "write", "d", 1000, secret)
	s, err := c.Snapshot(ctx)
	fixture.Must(t, err)
	for what, err := range map[string]error{
		"conflict": fixture.ErrOf(old.Commit(ctx)),
		"exists":   fixture.Update(ctx, c, func(tx *percolator.Txn) error { return tx.Insert(fixture.Cell("r", "c"), []byte(secret)) }),
		"unique":   fixture.Update(ctx, c, func(tx *percolator.Txn) error { return fixture.Mail.Set(tx, "bob", secret) }),
		"unique in one": fixture.Update(ctx, c, func(tx *percolator.Txn) error {
			return errors.Join(fixture.Mail.Set(tx, "x", secret+"2"), fixture.Mail.Set(tx, "y", secret+"2"))
		}),
		"corrupt lock":   fixture.ErrOf(s.Get(ctx, fixture.Cell("bad", "c"))),
		"corrupt record": fixture.ErrOf(s.Get(ctx, fixture.Cell("bad", "d"))),
		"too large": func() error {
			return fixture.Update(ctx, c, func(tx *percolator.Txn) error { return fixture.City.Set(tx, "r", strings.Repeat(secret, 500)) })
		}(),
	} {
		if err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
