package admin_test

import (
	"context"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// What an instance proposes is the Timing of its first schema, where that leaves it open. From then
// on a schema that leaves it open fits, a client with one works, and any other Timing is refused.
func TestProposedTiming(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, &percolator.Schema{Tables: []percolator.Table{{Name: "t"}}})
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	short := percolator.Timing{RequestLifetime: 5 * time.Second, MetaMaxAge: 7 * time.Second}
	given := percolator.Timing{MetaMaxAge: time.Minute}
	schema := func(timing percolator.Timing, tables ...string) *percolator.Schema {
		s := &percolator.Schema{Timing: timing}
		for _, name := range tables {
			s.Tables = append(s.Tables, percolator.Table{Name: name})
		}
		return s
	}
	for instance, c := range map[string]struct {
		before     bool // there is a schema before the proposal
		first      percolator.Timing
		want       percolator.Timing
		asDefaults error // of a schema that asks for the defaults
	}{
		"open":       {false, percolator.Timing{}, short, percolator.ErrSchemaMismatch},
		"half-open":  {false, given, percolator.Timing{RequestLifetime: 5 * time.Second, MetaMaxAge: time.Minute}, percolator.ErrSchemaMismatch},
		"had-schema": {true, percolator.Timing{}, percolator.Timing{}, nil},
	} {
		t.Run(instance, func(t *testing.T) {
			apply := func(s *percolator.Schema) error {
				return percolator.CreateSchema(ctx, env.Project, instance, s, env.Options()...)
			}
			if c.before {
				fixture.Must(t, apply(schema(c.first, "t")))
			}
			fixture.Must(t, admin.Instance{Project: env.Project, ID: instance, Options: env.Options()}.CreateMetaTable(ctx))
			fixture.Must(t, admin.Instance{Project: env.Project, ID: instance, Options: env.Options()}.ProposeTiming(ctx, short))
			fixture.Must(t, admin.Instance{Project: env.Project, ID: instance, Options: env.Options()}.ProposeTiming(ctx, short))
			fixture.Must(t, apply(schema(c.first, "t")))
			fixture.Must(t, apply(schema(percolator.Timing{}, "t", "u")))
			stored, err := admin.Instance{Project: env.Project, ID: instance, Options: env.Options()}.ReadSchema(ctx)
			if err != nil || stored.Schema.Timing != c.want || len(stored.Schema.Tables) != 2 {
				t.Fatalf("stored is %+v, %v, want %+v", stored.Schema, err, c.want)
			}
			fixture.WantErr(t, apply(schema(percolator.Timing{RequestLifetime: 30 * time.Second, MetaMaxAge: 45 * time.Second}, "t", "u")), c.asDefaults)
			fixture.WantErr(t, apply(schema(percolator.Timing{MetaMaxAge: 9 * time.Minute}, "t", "u")), percolator.ErrSchemaMismatch)
			client, err := percolator.NewClient(ctx, percolator.Config{
				Project: env.Project, Instance: instance, Oracle: env.Oracle, Schema: schema(percolator.Timing{}, "t", "u"),
			}, env.Options()...)
			fixture.Must(t, err)
			if client.Schema().Timing != c.want {
				t.Errorf("the client goes by %+v, want %+v", client.Schema().Timing, c.want)
			}
			fixture.Must(t, client.Close())
		})
	}
	for _, refused := range []percolator.Timing{{RequestLifetime: time.Hour}, {RequestLifetime: 5 * time.Second, MetaMaxAge: 4 * time.Second}} {
		fixture.WantErr(t, admin.Instance{Project: env.Project, ID: env.Instance, Options: env.Options()}.ProposeTiming(ctx, refused), percolator.ErrInvalidArgument)
	}
	half := schema(percolator.Timing{MetaMaxAge: 4 * time.Second}, "t") // the lifetime is that of the instance: 30 s
	fixture.WantErr(t, percolator.CreateSchema(ctx, env.Project, "half", half, env.Options()...), percolator.ErrInvalidArgument)
}
