package percolator_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/emulator"
)

// A family that is missing no attempt can bring back: writers are told at once, with the remedy,
// and leave nothing where the families are whole.
func TestFamilyDeletedBehindOurBack(t *testing.T) {
	t.Parallel()
	for _, family := range []string{"data", "lock", "write"} {
		t.Run(family, func(t *testing.T) {
			t.Parallel()
			env := fixture.NewEnv(t)
			ctx, c := fixture.Context(t), env.Client
			fixture.Must(t, tableAdmin(t, ctx, env).DeleteColumnFamily(ctx, "u", family))
			u := percolator.Cell{Table: "u", Row: "r", Column: "c"}
			began := time.Now()
			_, err := c.Update(ctx, func(_ context.Context, tx *percolator.Txn) error {
				return errors.Join(tx.Set(u, []byte("v")), tx.Set(fixture.Cell("secondary", "c"), nil))
			})
			wantRemedy(t, "a primary", err, `"u"`)
			if family != "write" { // without it nothing can be rolled back there: the outcome is open until the family is back
				if errors.Is(err, percolator.ErrOutcomeUnknown) {
					t.Errorf("not a definite refusal: %v", err)
				}
				err := fixture.Update(ctx, c, func(tx *percolator.Txn) error {
					return errors.Join(tx.Set(fixture.Cell("primary", "c"), nil), tx.Set(u, []byte("v")))
				})
				wantRemedy(t, "a secondary", err, `"u"`)
				locks := fixture.CellsOf(t, ctx, env, "t", "lock")
				if family != "lock" {
					locks += fixture.CellsOf(t, ctx, env, "u", "lock")
				}
				if locks != 0 {
					t.Errorf("%d locks left", locks)
				}
			}
			if d := time.Since(began); d > 15*time.Second {
				t.Errorf("it took %v to learn that", d)
			}
			fixture.Must(t, percolator.CreateSchema(ctx, env.Project, env.Instance, fixture.Schema(), env.Options()...))
			env.Clock.Advance(fixture.LockTTL)
			fixture.Must(t, fixture.Update(ctx, c, func(tx *percolator.Txn) error {
				return errors.Join(tx.Set(u, []byte("again")), tx.Set(fixture.Cell("secondary", "c"), nil))
			}))
			fixture.WantNow(t, ctx, c, u, "again")
		})
	}
}

// The answer for one row of a bulk request carries the remedy, too.
func TestNotifyFamilyDeletedBehindOurBack(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	fixture.Must(t, tableAdmin(t, ctx, env).DeleteColumnFamily(ctx, "t", "notify"))
	wantRemedy(t, "a weak notification", fixture.Update(ctx, env.Client, func(tx *percolator.Txn) error { return tx.Notify(fixture.Cell("r", "poke")) }), `"t"`)
	wantRemedy(t, "beside a write", fixture.Update(ctx, env.Client, func(tx *percolator.Txn) error {
		return errors.Join(tx.Set(fixture.Cell("a", "c"), nil), tx.Notify(fixture.Cell("r", "poke")))
	}), `"t"`)
	if n := fixture.CellsOf(t, ctx, env, "t", "lock"); n != 0 {
		t.Errorf("%d locks left", n)
	}
}

// A store that is down when the client starts is told within the context's time, by its address:
// Google's pool gives up a refused connection after three attempts.
func TestStoreDownAtStart(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx, cancel := context.WithTimeout(fixture.Context(t), 2*time.Second)
	defer cancel()
	began := time.Now()
	_, err := percolator.NewClient(ctx, percolator.Config{Project: "p", Instance: "i", Oracle: env.Oracle}, emulator.Connect(nobody)...)
	if status.Code(err) != codes.Unavailable && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want Unavailable, or that the context has ended", err)
	}
	if err == nil || !strings.Contains(err.Error(), nobody) {
		t.Errorf("%v, want an error that names %s", err, nobody)
	}
	if d := time.Since(began); d > 10*time.Second {
		t.Errorf("it took %v", d)
	}
}

// A stored schema that no CreateSchema can have stored is corrupt: taken at its word it would let
// callers write into the meta table.
func TestStoredSchemaThatIsNotValid(t *testing.T) {
	t.Parallel()
	for _, stored := range []string{`{"Format":7,"Tables":[{"Name":"percolator_meta"}]}`, `{"Format":7,"Tables":[{"Name":"t","Weak":["a\u0000"]}]}`, `{"Format":7,"Tables":[{"Name":"t"},{"Name":"t"}]}`} {
		env := fixture.NewEnv(t)
		ctx := fixture.Context(t)
		mut := bigtable.NewMutation()
		mut.Set("meta", "schema", 1000, []byte(stored))
		fixture.Must(t, env.Store().Open("percolator_meta").Apply(ctx, "meta", mut))
		c, err := percolator.NewClient(ctx, percolator.Config{Project: env.Project, Instance: env.Instance, Oracle: env.Oracle}, env.Options()...)
		if !errors.Is(err, percolator.ErrCorrupt) {
			t.Errorf("%s: %v", stored, err)
		}
		if err == nil {
			fixture.Must(t, c.Close())
		}
	}
}

// The table of the primary is gone, so no marker can be placed there; but the transaction knows
// that it has not committed and never will, and takes back the locks that it placed elsewhere.
func TestTableOfThePrimaryDeletedBehindOurBack(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx, c := fixture.Context(t), env.Client
	fixture.Must(t, tableAdmin(t, ctx, env).DeleteTable(ctx, "u"))
	wantRemedy(t, "a primary", fixture.Update(ctx, c, func(tx *percolator.Txn) error {
		return errors.Join(tx.Set(percolator.Cell{Table: "u", Row: "r", Column: "c"}, nil), tx.Set(fixture.Cell("x", "c"), nil), tx.Set(fixture.Cell("y", "c"), nil))
	}), `"u"`)
	if n := fixture.CellsOf(t, ctx, env, "t", "lock") + fixture.CellsOf(t, ctx, env, "t", "data"); n != 0 {
		t.Errorf("%d cells left", n)
	}
	fixture.WantNow(t, ctx, c, fixture.Cell("x", "c"), "")
}

// A client with an app profile that the instance does not have is told that, and not to create
// tables.
func TestAppProfileThatIsNotThere(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	_, err := percolator.NewClient(fixture.Context(t), percolator.Config{
		Project: env.Project, Instance: env.Instance, Oracle: env.Oracle, AppProfile: "gone",
	}, env.Options()...)
	if fixture.WantErr(t, err, percolator.ErrInvalidArgument); errors.Is(err, percolator.ErrSchemaMismatch) || !strings.Contains(err.Error(), `no such app profile; correct`) {
		t.Errorf("%v, want a remedy for the app profile", err)
	}
}
