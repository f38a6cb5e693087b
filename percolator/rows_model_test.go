package percolator_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
)

// What Put, Insert and Delete leave behind is what Get returns, in the same transaction and after
// it, whatever the transaction had read and written before, and whatever columns the row had: no
// field is left out because it was taken for unchanged.
func TestRowsAgainstModel(t *testing.T) {
	t.Parallel()
	type row struct {
		Key string  `percolator:",key"`
		A   string  `percolator:"a"`
		B   int64   `percolator:"b"`
		C   *string `percolator:"c"`
		D   []int   `percolator:"d,json"`
	}
	rows, err := percolator.RowOf[row]("t")
	fixture.Must(t, err)
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	for seed := range uint64(60) {
		dice := rand.New(rand.NewPCG(seed, 5))
		key := fmt.Sprint("row", seed)
		some := func() row {
			r := row{Key: key}
			if dice.IntN(2) == 0 {
				r.A = fmt.Sprint(dice.IntN(2))
			}
			r.B = int64(dice.IntN(3))
			if dice.IntN(2) == 0 {
				c := fmt.Sprint(dice.IntN(2))
				r.C = &c
			}
			if dice.IntN(2) == 0 {
				r.D = []int{dice.IntN(2)}
			}
			return r
		}
		var want *row // nil: there is none
		for range 12 {
			tx := fixture.MustBegin(t, ctx, env.Client)
			next := want
			said := ""
			for range 1 + dice.IntN(6) {
				switch op := dice.IntN(6); op {
				case 0, 1:
					said += " get"
					got, err := rows.Get(ctx, tx, key)
					if next == nil {
						fixture.WantErr(t, err, percolator.ErrNotFound)
					} else if fixture.Must(t, err); !reflect.DeepEqual(got, *next) {
						t.Fatalf("seed %d,%s: %+v, want %+v", seed, said, got, *next)
					}
				case 2, 3:
					r := some()
					if next != nil && dice.IntN(2) == 0 { // one field changes
						r = *next
						r.B = int64(dice.IntN(3))
						if dice.IntN(3) == 0 {
							r.A = ""
						}
					}
					said += fmt.Sprintf(" put %+v", r)
					fixture.Must(t, rows.Put(tx, r))
					next = &r
				case 4:
					said += " delete"
					fixture.Must(t, rows.Delete(tx, key))
					next = nil
				case 5:
					column := []string{"a", "c", "none"}[dice.IntN(3)]
					said += " read " + column
					if _, err := tx.GetForUpdate(ctx, fixture.Cell(key, column)); err != nil && !errors.Is(err, percolator.ErrNotFound) {
						t.Fatal(err)
					}
				}
			}
			if dice.IntN(4) == 0 {
				fixture.Must(t, tx.Rollback(ctx))
				continue
			}
			fixture.MustCommit(t, ctx, tx)
			want = next
			s, err := env.Client.Snapshot(ctx)
			fixture.Must(t, err)
			got, err := rows.Get(ctx, s, key)
			if want == nil {
				fixture.WantErr(t, err, percolator.ErrNotFound)
			} else if fixture.Must(t, err); !reflect.DeepEqual(got, *want) {
				t.Fatalf("seed %d: after%s: %+v, want %+v", seed, said, got, *want)
			}
		}
	}
}
