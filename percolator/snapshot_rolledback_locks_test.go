package percolator_test

import (
	"context"
	"testing"
	"time"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// A cell with a value, over which one transaction after another died: each was rolled back and has
// left its record. A reader that resolves the last one's lock must look deeper than these records,
// and find the value.
func TestValueBeneathRolledBackLocks(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, &percolator.Schema{Tables: []percolator.Table{{Name: "t"}}})
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	cell := percolator.Cell{Table: "t", Row: "r", Column: "c"}
	write := func(c *percolator.Client, value string) error {
		tx, err := c.Begin(ctx)
		if err != nil {
			return err
		}
		if err := tx.Set(cell, []byte(value)); err != nil {
			return err
		}
		_, err = tx.Commit(ctx)
		return err
	}
	if err := write(env.Client, "v"); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		dying := env.NewClient()
		faults := env.FaultsOf(dying)
		faults.Handle(func(r percolatortest.Request) percolatortest.Action {
			if r.Method == percolatortest.CheckAndMutateRow && r.Sets("write") {
				faults.Crash()
			}
			return percolatortest.Pass
		})
		if err := write(dying, "never"); err == nil {
			t.Fatal("a client that had crashed has committed")
		}
		env.Clock.Advance(11 * time.Second)
		for _, read := range []struct {
			how string
			get func(s *percolator.Snapshot) ([]byte, error)
		}{
			{"Get", func(s *percolator.Snapshot) ([]byte, error) { return s.Get(ctx, cell) }},
			{"GetMulti", func(s *percolator.Snapshot) ([]byte, error) {
				values, err := s.GetMulti(ctx, cell, percolator.Cell{Table: "t", Row: "other", Column: "c"})
				if err != nil {
					return nil, err
				}
				return values[0], nil
			}},
		} {
			s, err := env.Client.Snapshot(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := read.get(s); string(got) != "v" || err != nil {
				t.Errorf("%s after %d dead transactions: %q, %v", read.how, i+1, got, err)
			}
		}
	}
}
