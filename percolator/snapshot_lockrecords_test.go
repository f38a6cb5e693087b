package percolator_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
)

// Beneath the record of a lock lies what decides a cell: a put, a delete, or nothing. What has
// prewritten the cell since, and commits later, is no value of the snapshot (I15).
func TestValuesBeneathLockRecords(t *testing.T) {
	t.Parallel()
	ctx := fixture.Context(t)
	env := fixture.NewEnv(t)
	histories := []struct{ writes, want string }{{"", ""}, {"a", "a"}, {"ab", "b"}, {"a-", ""}, {"a-b", "b"}, {"-", ""}, {"ab-", ""}}
	cell := func(i int) percolator.Cell { return fixture.Cell(fmt.Sprint("row-", i), "c") }
	var cells []percolator.Cell
	for i, h := range histories {
		for _, w := range h.writes {
			fixture.Must(t, fixture.Update(ctx, env.Client, func(tx *percolator.Txn) error {
				if w == '-' {
					return tx.Delete(cell(i))
				}
				return tx.Set(cell(i), []byte(string(w)))
			}))
		}
		cells = append(cells, cell(i))
	}
	for range 2 {
		fixture.Must(t, fixture.Update(ctx, env.Client, func(tx *percolator.Txn) error {
			for _, c := range cells {
				if _, err := tx.GetForUpdate(ctx, c); err != nil && !errors.Is(err, percolator.ErrNotFound) {
					return err
				}
			}
			return nil
		}))
	}
	later := fixture.MustBegin(t, ctx, env.Client)
	s, err := env.Client.Snapshot(ctx)
	fixture.Must(t, err)
	for _, c := range cells {
		fixture.Must(t, later.Set(c, []byte("later")))
	}
	read := func(when string, c *percolator.Client) {
		t.Helper()
		again, err := c.Snapshot(ctx, percolator.AsOfTimestamp(s.StartTimestamp()))
		fixture.Must(t, err)
		values, err := again.GetMulti(ctx, cells...)
		fixture.Must(t, err)
		scanned := map[string]string{}
		for e, err := range again.Scan(ctx, "t", percolator.All()) {
			fixture.Must(t, err)
			scanned[e.Cell.Row] = string(e.Value)
		}
		for i, h := range histories {
			if string(values[i]) != h.want || scanned[cell(i).Row] != h.want {
				t.Errorf("%s, %q: GetMulti finds %q, a scan %q, want %q", when, h.writes, values[i], scanned[cell(i).Row], h.want)
			}
			alone, err := c.Snapshot(ctx, percolator.AsOfTimestamp(s.StartTimestamp()))
			fixture.Must(t, err)
			fixture.WantValue(t, ctx, alone, cell(i), h.want)
		}
	}
	read("before the later writes", env.NewClient())
	fixture.MustCommit(t, ctx, later)
	fixture.Must(t, env.Client.Flush(ctx))
	read("after the later writes", env.NewClient())
}
