package percolator_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// A conflict is the answer as soon as it is known: a row whose tablet does not answer must not hold
// it back for the request lifetime.
func TestConflictDoesNotWaitForUnavailableRows(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx, cancel := context.WithTimeout(fixture.Context(t), 15*time.Second)
	defer cancel()
	c := env.NewClient()
	tx := fixture.MustBegin(t, ctx, c)
	fixture.Must(t, tx.Set(fixture.Cell("primary", "c"), nil))
	fixture.Must(t, tx.Set(fixture.Cell("down", "c"), nil))
	fixture.Must(t, tx.Set(fixture.Cell("contested", "c"), nil))
	fixture.Put(t, ctx, env.Client, "contested", "c", "v")
	env.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
		if fixture.IsPrewrite(r) && r.Row == "down" {
			return percolatortest.LoseRequest
		}
		return percolatortest.Pass
	})
	began := time.Now()
	_, err := tx.Commit(ctx)
	fixture.WantErr(t, err, percolator.ErrConflict)
	if d := time.Since(began); d > 8*time.Second {
		t.Errorf("the conflict was told after %v", d)
	}
}

// Errors never contain values; the row of an index entry is one.
func TestConflictOnIndexDoesNotShowTheValue(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	mail := percolator.String("people", "mail")
	a, b := fixture.MustBegin(t, ctx, env.Client), fixture.MustBegin(t, ctx, env.Client)
	fixture.Must(t, mail.Set(a, "ann", "secret@example.org"))
	fixture.Must(t, mail.Set(b, "bob", "secret@example.org"))
	fixture.MustCommit(t, ctx, a)
	_, err := b.Commit(ctx)
	fixture.WantErr(t, err, percolator.ErrConflict)
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("the error shows a value: %v", err)
	}
	var conflict *percolator.ConflictError
	if !errors.As(err, &conflict) {
		t.Fatalf("%v is not a ConflictError", err)
	}
	if want := (percolator.Cell{Table: "people", Row: "bob", Column: "mail"}); conflict.Cell != want {
		t.Errorf("the conflict is on %s, want the cell that the caller wrote, %s", conflict.Cell, want)
	}
}
