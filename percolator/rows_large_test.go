package percolator_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
)

// page has a field that is younger than the stored rows.
type page struct {
	Key   string `percolator:",key"`
	Title string `percolator:"title"`
	Body  []byte `percolator:"body"`
	Views int64  `percolator:"views"`
}

// A transaction that has read more than its snapshot keeps still writes only what it changes.
func TestRowsPutAfterReadingMoreThanIsKept(t *testing.T) {
	t.Parallel()
	env, ctx := fixture.NewEnv(t), fixture.Context(t)
	rows, err := percolator.RowOf[page]("t")
	fixture.Must(t, err)
	keys := rowNames(2400) // of 16 KiB: beyond 32 MiB
	body := func(i int) []byte { return bytes.Repeat([]byte{byte(i)}, 16<<10) }
	for from := 0; from < len(keys); from += 400 {
		fixture.Must(t, fixture.Update(ctx, env.Client, func(tx *percolator.Txn) error {
			for i, key := range keys[from : from+400] {
				if err := tx.Set(fixture.Cell(key, "body"), body(from+i)); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	fixture.Must(t, env.Client.Flush(ctx))
	for name, read := range map[string]func(ctx context.Context, tx *percolator.Txn) (map[string]page, error){
		"by GetMulti": func(ctx context.Context, tx *percolator.Txn) (map[string]page, error) {
			return rows.GetMulti(ctx, tx, keys...)
		},
		"by Get": func(ctx context.Context, tx *percolator.Txn) (map[string]page, error) {
			found := map[string]page{}
			for _, key := range keys {
				row, err := rows.Get(ctx, tx, key)
				if err != nil {
					return nil, err
				}
				found[key] = row
			}
			return found, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			const changed = "changed "
			env.FaultsOf(env.Client).Forget()
			_, err := env.Client.Update(ctx, func(ctx context.Context, tx *percolator.Txn) error {
				found, err := read(ctx, tx)
				if err != nil {
					return err
				}
				for i, key := range keys {
					row := found[key]
					switch {
					case i == len(keys)-2:
						row.Body[0]++
					case !bytes.Equal(row.Body, body(i)):
						return fmt.Errorf("row %s has another body", key)
					case i == 0 || i == len(keys)-1:
						row.Title = changed + name
					}
					if err := rows.Put(tx, row); err != nil {
						return err
					}
				}
				return nil
			})
			fixture.Must(t, err)
			var written []string
			for _, r := range env.FaultsOf(env.Client).Requests() {
				if fixture.IsPrewrite(r) {
					written = append(written, fmt.Sprint(r.Row, " ", columnsSet(r)))
				}
			}
			slices.Sort(written)
			want := []string{keys[0] + " [title title]", keys[len(keys)-2] + " [body body]", keys[len(keys)-1] + " [title title]"} // lock and data
			if !slices.Equal(written, want) {
				t.Errorf("%d rows were written, the first of them %q, want %q", len(written), written[:min(len(written), 4)], want)
			}
			fixture.WantNow(t, ctx, env.Client, fixture.Cell(keys[len(keys)-1], "title"), changed+name)
			fixture.WantNow(t, ctx, env.Client, fixture.Cell(keys[len(keys)-1], "views"), "")
		})
	}
}

// Where a transaction may have forgotten what it has read, Put and Delete say so.
func TestRowsPutAfterReadingMoreThanIsRemembered(t *testing.T) {
	t.Parallel()
	env, ctx := fixture.NewEnv(t), fixture.Context(t)
	rows, err := percolator.RowOf[page]("t")
	fixture.Must(t, err)
	tx := fixture.MustBegin(t, ctx, env.Client)
	long := strings.Repeat("k", percolator.MaxRowKeyBytes-10)
	key := func(i int) string { return fmt.Sprintf("%s%06d", long, i) }
	last := -1
	for ; last < 6000; last += 100 {
		var keys []string
		for i := range 100 {
			keys = append(keys, key(last+1+i))
		}
		found, err := rows.GetMulti(ctx, tx, keys...)
		fixture.Must(t, err)
		if len(found) > 0 {
			t.Fatal("there are rows")
		}
	}
	fixture.Must(t, rows.Put(tx, page{Key: key(0)}))
	fixture.Must(t, rows.Delete(tx, key(1)))
	fixture.WantErr(t, rows.Put(tx, page{Key: key(last)}), percolator.ErrTooLarge)
	fixture.WantErr(t, rows.Delete(tx, key(last)), percolator.ErrTooLarge)
	fixture.Must(t, tx.Set(fixture.Cell(key(last), "title"), nil))
	fixture.Must(t, tx.Rollback(ctx))
}
