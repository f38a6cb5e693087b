package admin_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// changesOf is a plan in words.
func changesOf(t *testing.T, ctx context.Context, env *percolatortest.Env, s *percolator.Schema) (model.SchemaPlan, string) {
	t.Helper()
	plan, err := admin.Instance{Project: env.Project, ID: env.Instance, Options: env.Options()}.PlanSchema(ctx, s)
	fixture.Must(t, err)
	var list []string
	for _, ch := range plan.Changes {
		list = append(list, strings.TrimSpace(string(ch.Kind)+" "+ch.Table+" "+ch.Name))
	}
	return plan, strings.Join(list, "; ")
}

// TestPlanSchema: a plan names what CreateSchema does and refuses, and does nothing.
func TestPlanSchema(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testPlanSchema)
}

func testPlanSchema(t *testing.T) {
	index := percolator.Index{Name: "i", Column: "c"}
	env := percolatortest.New(t, &percolator.Schema{
		Tables: []percolator.Table{{Name: "t", Observed: []string{"a"}, Weak: []string{"w"}, Indexes: []percolator.Index{index}}},
		Timing: percolator.Timing{RequestLifetime: 5 * time.Second, MetaMaxAge: 5 * time.Second}, // CreateSchema waits until all know
	})
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	stored := env.Client.Schema()
	with := func(change func(s *percolator.Schema)) *percolator.Schema {
		s := &percolator.Schema{Timing: stored.Timing, Tables: []percolator.Table{{Name: "t", Observed: []string{"a"}, Weak: []string{"w"}, Indexes: []percolator.Index{index}}}}
		change(s)
		return s
	}
	for _, c := range []struct {
		change  func(s *percolator.Schema)
		want    string
		refused bool
	}{
		{func(*percolator.Schema) {}, "", false},
		{func(s *percolator.Schema) { s.Tables[0].Splits = []string{"k"} }, "", false},
		{func(s *percolator.Schema) {
			s.Tables = append(s.Tables, percolator.Table{Name: "u", Weak: []string{"v"}})
		}, "table added u; weak column added u v", false},
		{func(s *percolator.Schema) { s.Tables[0].Observed = nil }, "observed column removed t a", true},
		{func(s *percolator.Schema) { s.Tables[0].Weak = nil }, "weak column removed t w", true},
		{func(s *percolator.Schema) { s.Tables[0].Indexes = nil }, "index removed t i", true},
		{func(s *percolator.Schema) { s.Tables[0].Indexes[0].Unique = true }, "index changed t i", true},
		{func(s *percolator.Schema) { s.Tables[0].Name = "u" }, "table removed t; table added u; observed column added u a; weak column added u w; index added u i", true},
		{func(s *percolator.Schema) { s.Timing.MetaMaxAge = 9 * time.Minute }, "timing changed", true},
	} {
		s := with(c.change)
		plan, got := changesOf(t, ctx, env, s)
		if got != c.want || (plan.Refused() != nil) != c.refused {
			t.Errorf("planned %q, refused: %v; want %q, %v", got, plan.Refused(), c.want, c.refused)
		}
		if !c.refused {
			continue
		}
		if err := percolator.CreateSchema(ctx, env.Project, env.Instance, s, env.Options()...); !errors.Is(err, percolator.ErrSchemaMismatch) || err.Error() != plan.Refused().Error() {
			t.Errorf("CreateSchema says %v, the plan %v", err, plan.Refused())
		}
	}
	grown := with(func(s *percolator.Schema) {
		s.Tables[0].Observed = append(s.Tables[0].Observed, "b")
		s.Tables[0].Indexes = append(s.Tables[0].Indexes, percolator.Index{Name: "j", Column: "d"})
	})
	plan, got := changesOf(t, ctx, env, grown)
	if got != "observed column added t b; index added t j" || !plan.Changes[0].Backfill || !plan.Changes[1].Backfill {
		t.Errorf("planned %q, %+v", got, plan.Changes)
	}
	before := plan.Stored.Version
	fixture.Must(t, percolator.CreateSchema(ctx, env.Project, env.Instance, grown, env.Options()...))
	now, err := admin.Instance{Project: env.Project, ID: env.Instance, Options: env.Options()}.ReadSchema(ctx)
	fixture.Must(t, err)
	if now.Version != before+1 || now.Indexes["t.i"] != (model.IndexState{}) || now.Indexes["t.j"] != (model.IndexState{Building: true}) || len(now.Indexes) != 2 {
		t.Errorf("version %d after %d, indexes %+v", now.Version, before, now.Indexes)
	}

	admin, err := bigtable.NewAdminClient(ctx, env.Project, env.Instance, env.Options()...)
	fixture.Must(t, err)
	defer func() { _ = admin.Close() }()
	fixture.Must(t, admin.DeleteTable(ctx, "t.i"))
	fixture.Must(t, admin.DeleteColumnFamily(ctx, "t", "notify"))
	if _, got := changesOf(t, ctx, env, grown); got != "column family created t t:notify; bigtable table created t t.i" {
		t.Errorf("planned %q", got)
	}
	fixture.Must(t, percolator.CreateSchema(ctx, env.Project, env.Instance, grown, env.Options()...))
	if _, got := changesOf(t, ctx, env, grown); got != "" {
		t.Errorf("after CreateSchema: %q", got)
	}
}

// An added family gets the policy that a new table gives it.
func TestAddedFamilyHasItsPolicy(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testAddedFamilyHasItsPolicy)
}

func testAddedFamilyHasItsPolicy(t *testing.T) {
	s := fixture.JournalSchema(false)
	env := percolatortest.New(t, s)
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	tables, err := bigtable.NewAdminClient(ctx, env.Project, env.Instance, env.Options()...)
	fixture.Must(t, err)
	defer func() { _ = tables.Close() }()
	for table, family := range map[string]string{model.JournalTable: "journal", "t": "notify", model.MetaTable: "oracle"} {
		policy := func() string {
			info, err := tables.TableInfo(ctx, table)
			fixture.Must(t, err)
			for _, f := range info.FamilyInfos {
				if f.Name == family {
					return f.GCPolicy
				}
			}
			return "no family"
		}
		want := policy()
		fixture.Must(t, tables.DeleteColumnFamily(ctx, table, family))
		fixture.Must(t, percolator.CreateSchema(ctx, env.Project, env.Instance, s, env.Options()...))
		if got := policy(); got != want {
			t.Errorf("%s:%s: added with the policy %q, created with %q", table, family, got, want)
		}
	}
}
