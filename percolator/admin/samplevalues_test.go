package admin_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// sampled is what SampleValues says before columns of t are declared.
func sampled(t *testing.T, env *percolatortest.Env, columns ...percolator.ColumnSchema) []admin.ValueSample {
	t.Helper()
	ctx := fixture.Context(t)
	s := fixture.Schema()
	s.Tables[0].Columns = append([]percolator.ColumnSchema{{Name: "seen"}, {Name: "poke"}}, columns...)
	plan, err := admin.Instance{Project: env.Project, ID: env.Instance, Options: env.Options()}.PlanSchema(ctx, s)
	fixture.Must(t, err)
	samples, err := admin.Instance{Project: env.Project, ID: env.Instance, Options: env.Options()}.SampleValues(ctx, plan, s)
	fixture.Must(t, err)
	return samples
}

// A sample finds committed values of another type and columns that are not declared, with their
// rows, and counts what it has looked at. What is deleted, not committed or an acknowledgment does
// not count.
func TestSampleValues(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	number := string(make([]byte, 8))
	for i := range 8 {
		fixture.Put(t, ctx, env.Client, fixture.Key(i), "count", "100", fixture.Key(i), "item:1", number)
	}
	fixture.Put(t, ctx, env.Client, fixture.Key(7), "count", number, "x", "typo", "v", "x", "seen", "v", "y", "gone", "v", "y", "item:2", "1")
	fixture.Must(t, fixture.Update(ctx, env.Client, func(tx *percolator.Txn) error { return tx.Delete(fixture.Cell("y", "gone")) }))
	fixture.Must(t, env.Client.Flush(ctx))
	fixture.Plant(t, ctx, env, "t", "z", "data", "count", 5_000_000, "uncommitted")

	count, item := percolator.ColumnSchema{Name: "count", Type: percolator.TypeInt64}, percolator.ColumnSchema{Name: "item:*", Type: percolator.TypeInt64}
	keys := []string{fixture.Key(0), fixture.Key(1), fixture.Key(2), fixture.Key(3), fixture.Key(4)}
	got := sampled(t, env, count, item)
	want := []admin.ValueSample{{Table: "t", Places: got[0].Places, Rows: 11, Values: 8 + 9 + 1, Findings: []admin.SampleFinding{
		{Column: "count", Type: percolator.TypeInt64, Values: 7, Rows: keys},
		{Column: "item:*", Type: percolator.TypeInt64, Values: 1, Rows: []string{"y"}},
		{Column: "typo", Values: 1, Rows: []string{"x"}},
	}}}
	if fmt.Sprint(got) != fmt.Sprint(want) || got[0].Places < 1 {
		t.Errorf("sampled\n%+v, want\n%+v", got, want)
	}

	fixture.Must(t, percolator.CreateSchema(ctx, env.Project, env.Instance, withColumns("seen", "poke", "count"), env.Options()...))
	for name, c := range map[string]struct {
		columns  []percolator.ColumnSchema
		findings int // only of what changes: that other columns are not declared is known
	}{
		"as it is":             {[]percolator.ColumnSchema{{Name: "count"}}, 0},
		"one more":             {[]percolator.ColumnSchema{{Name: "count"}, item}, 1},
		"one with another":     {[]percolator.ColumnSchema{count}, 1},
		"of which all hold it": {[]percolator.ColumnSchema{{Name: "count", Type: percolator.TypeString}}, 0},
	} {
		for _, s := range sampled(t, env, c.columns...) {
			if len(s.Findings) != c.findings {
				t.Errorf("%s: %+v", name, s)
			}
		}
	}
	if got := sampled(t, env, percolator.ColumnSchema{Name: "count"}); len(got) != 0 {
		t.Errorf("without a change of types it looked at %+v", got)
	}
}

func withColumns(names ...string) *percolator.Schema {
	s := fixture.Schema()
	for _, n := range names {
		s.Tables[0].Columns = append(s.Tables[0].Columns, percolator.ColumnSchema{Name: n})
	}
	return s
}

// A sample reads a bounded number of rows, in places all over the table.
func TestSampleIsBounded(t *testing.T) {
	t.Parallel()
	disks := &emulator.Disks{}
	env := fixture.NewEnv(t, fixture.OnDisks(disks)) // a tablet of 100 rows each
	ctx := fixture.Context(t)
	fixture.FillLongAgo(t, ctx, env, "t", 3000)
	got := sampled(t, env, percolator.ColumnSchema{Name: "clean", Type: percolator.TypeBool})
	if len(got) != 1 || got[0].Places != 10 || got[0].Rows != 9*100+1000 || got[0].Findings[0].Values != got[0].Rows {
		t.Errorf("looked at %+v of 3000 rows", got)
	}
	if rows := got[0].Findings[0].Rows; !slices.Equal(rows, []string{fixture.Key(0), fixture.Key(1), fixture.Key(2), fixture.Key(3), fixture.Key(4)}) {
		t.Errorf("it names %q", rows)
	}
}

// A sample looks at values that expire some day, as long as they are there.
func TestSampleOfValuesThatExpire(t *testing.T) {
	t.Parallel()
	s := fixture.Schema()
	s.Tables[0].TTL = time.Hour
	env := percolatortest.New(t, s)
	ctx := fixture.Context(t)
	fixture.Put(t, ctx, env.Client, "r", "count", "100")
	fixture.Must(t, env.Client.Flush(ctx))
	got := sampled(t, env, percolator.ColumnSchema{Name: "count", Type: percolator.TypeInt64})
	if len(got) != 1 || got[0].Values != 1 || len(got[0].Findings) != 1 {
		t.Errorf("of a value that is no int64 a sample says %+v", got)
	}
}
