package percolator_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/internal/engine/commit"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// hostileNames are columns that would be other columns, several, or none, if anything took them for
// a pattern, a path or a line.
var hostileNames = []string{".*", "a|b", `\`, "\n", "\xff", "a", "b", "a.b", "axb", "a\nb", ".+", "[a-b]", "(?i)A", "A", `\C`, `\x61`, "\x01", "\xff\xff", ":", "data:a",
	"ä", "aa", strings.Repeat("\xff", percolator.MaxColumnBytes)}

// namesEnv has a table in which each of the columns is observed and indexed.
func namesEnv(t *testing.T) *percolatortest.Env {
	t.Helper()
	table := percolator.Table{Name: "t", Observed: hostileNames}
	for i, name := range hostileNames {
		table.Indexes = append(table.Indexes, percolator.Index{Name: fmt.Sprint("ix", i), Column: name})
	}
	return percolatortest.New(t, &percolator.Schema{Tables: []percolator.Table{table}})
}

// value is what a column holds.
func value(i int) string { return fmt.Sprint("value ", i) }

// Every column reads back only itself, by every way to read, with one name, a few (ranges) and many
// (a pattern).
func TestHostileNamesReadBackOnlyThemselves(t *testing.T) {
	t.Parallel()
	env := namesEnv(t)
	ctx, c := fixture.Context(t), env.Client
	tx := fixture.MustBegin(t, ctx, c)
	for i, name := range hostileNames {
		fixture.Must(t, tx.Set(fixture.Cell("all", name), []byte(value(i))))
		if i%2 == 0 {
			fixture.Must(t, tx.Set(fixture.Cell("half", name), []byte(value(i))))
		}
	}
	readHostileNames(t, env, tx) // its own writes
	fixture.MustCommit(t, ctx, tx)
	fixture.Must(t, c.Flush(ctx))
	s, err := c.Snapshot(ctx)
	fixture.Must(t, err)
	readHostileNames(t, env, s)
	tx = fixture.MustBegin(t, ctx, c, percolator.LockReads())
	readHostileNames(t, env, tx)
	fixture.MustCommit(t, ctx, tx)
}

func readHostileNames(t *testing.T, env *percolatortest.Env, r percolator.Scanner) {
	t.Helper()
	ctx := fixture.Context(t)
	held := func(row string, i int) bool { return row == "all" || i%2 == 0 }
	for _, row := range []string{"all", "half", "none"} {
		for i, name := range hostileNames {
			want := ""
			if row != "none" && held(row, i) {
				want = value(i)
			}
			fixture.WantValue(t, ctx, r, fixture.Cell(row, name), want)
		}
	}
	for i := range hostileNames {
		for _, n := range []int{1, 4, 7} { // up to four are named by ranges, more by a pattern
			if n > 1 && i%3 != 0 {
				continue
			}
			var cells []percolator.Cell
			var names, want []string
			for j := range n {
				k := (i + j*j) % len(hostileNames)
				if len(hostileNames[k]) > 100 && n > 5 {
					continue // more than one filter holds
				}
				names = append(names, hostileNames[k])
				for _, row := range []string{"all", "half"} {
					cells = append(cells, fixture.Cell(row, hostileNames[k]))
					if held(row, k) {
						want = append(want, row+"/"+hostileNames[k]+"="+value(k))
					}
				}
			}
			values, err := r.GetMulti(ctx, cells...)
			fixture.Must(t, err)
			var got []string
			for k, v := range values {
				if v != nil {
					got = append(got, cells[k].Row+"/"+cells[k].Column+"="+string(v))
				}
			}
			slices.Sort(got)
			slices.Sort(want)
			want = slices.Compact(want)
			if got = slices.Compact(got); !slices.Equal(got, want) {
				t.Errorf("GetMulti of %q: %q, want %q", names, got, want)
			}
			got = nil
			for e, err := range r.Scan(ctx, "t", percolator.All(), names...) {
				fixture.Must(t, err)
				got = append(got, e.Cell.Row+"/"+e.Cell.Column+"="+string(e.Value))
			}
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("scan of %q: %q, want %q", names, got, want)
			}
			if slices.ContainsFunc(names, func(name string) bool { return len(name) > 100 }) && n > 1 {
				continue // two bounds for each name and family are more than one filter holds
			}
			got = nil
			o := percolator.ScanOptions{Rows: []percolator.Range{percolator.Row("none"), percolator.Row("half"), percolator.Row("all")}, Columns: names[1:],
				ColumnRanges: []percolator.Range{percolator.Row(names[0])}}
			for e, err := range r.ScanWith(ctx, "t", o) {
				fixture.Must(t, err)
				got = append(got, e.Cell.Row+"/"+e.Cell.Column+"="+string(e.Value))
			}
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("scan of the ranges of %q: %q, want %q", names, got, want)
			}
		}
	}
	for i, name := range hostileNames {
		want := []string{"all"}
		if i%2 == 0 {
			want = append(want, "half")
		}
		var got []string
		for e, err := range r.ScanIndex(ctx, "t", fmt.Sprint("ix", i), percolator.All()) {
			fixture.Must(t, err)
			if e.Cell.Column != name || string(e.Value) != value(i) {
				t.Errorf("the index of %q has an entry for %s with %q", name, e.Cell, e.Value)
			}
			got = append(got, e.Cell.Row)
		}
		if !slices.Equal(got, want) {
			t.Errorf("the index of %q lists %q, want %q", name, got, want)
		}
	}
}

// Acknowledgments, notifications and their erasure concern one column and one observer each,
// whatever both are called.
func TestHostileNamesAreAcknowledgedByThemselves(t *testing.T) {
	t.Parallel()
	env := namesEnv(t)
	ctx, c := fixture.Context(t), env.Client
	observers := []string{".*", "\n\xff|"}
	tx := fixture.MustBegin(t, ctx, c)
	for i, name := range hostileNames {
		fixture.Must(t, tx.Set(fixture.Cell("r", name), []byte(value(i))))
	}
	fixture.MustCommit(t, ctx, tx)
	fixture.Must(t, c.Flush(ctx))
	notified := func() (columns []string) {
		for p, err := range admin.New(c).ScanPending(ctx, "t", percolator.All()) {
			fixture.Must(t, err)
			for _, n := range p.Notified {
				columns = append(columns, n.Cell.Column)
			}
		}
		return columns
	}
	left := slices.Sorted(slices.Values(hostileNames))
	if got := notified(); !slices.Equal(got, left) {
		t.Fatalf("notified %q", got)
	}
	for i, name := range hostileNames {
		if i%3 == 2 {
			tx := fixture.MustBegin(t, ctx, c)
			fixture.Must(t, admin.New(c).ClearNotification(ctx, fixture.Cell("r", name), tx.StartTimestamp()))
			fixture.Must(t, c.Flush(ctx))
			left = slices.DeleteFunc(left, func(n string) bool { return n == name })
		} else {
			for j, o := range observers {
				tx := fixture.MustBegin(t, ctx, c)
				ack, err := (*commit.Txn)(tx).Acknowledge(ctx, fixture.Cell("r", name), o, observers)
				fixture.Must(t, err)
				if !ack.Run || string(ack.Value) != value(i) || ack.Finished != (j == len(observers)-1) {
					t.Errorf("%q of %q: %+v", o, name, ack)
				}
				fixture.MustCommit(t, ctx, tx)
				again, err := (*commit.Txn)(fixture.MustBegin(t, ctx, c)).Acknowledge(ctx, fixture.Cell("r", name), o, observers)
				fixture.Must(t, err)
				if again.Run {
					t.Errorf("%q of %q runs twice", o, name)
				}
			}
			left = slices.DeleteFunc(left, func(n string) bool { return n == name })
		}
		if got := notified(); !slices.Equal(got, left) {
			t.Errorf("after %q: notified %q, want %q", name, got, left)
		}
	}
}

// Writers of different columns of a row do not meet, those of one do: in a predicate of one column,
// of a few, and of all between two.
func TestHostileNamesConflictWithThemselvesOnly(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, &percolator.Schema{Tables: []percolator.Table{{Name: "t"}}})
	ctx, c := fixture.Context(t), env.Client
	other := env.NewClient()
	for i, name := range hostileNames {
		for _, n := range []int{1, 3, 6} {
			row := fmt.Sprint(i, " ", n)
			var names []string
			for j := range n {
				names = append(names, hostileNames[(i+2*j)%len(hostileNames)])
			}
			for _, foreign := range []string{hostileNames[(i+1)%len(hostileNames)], name} {
				tx := fixture.MustBegin(t, ctx, c)
				for _, col := range names {
					fixture.Must(t, tx.Set(fixture.Cell(row, col), []byte("ours")))
				}
				fixture.Must(t, fixture.Update(ctx, other, func(tx *percolator.Txn) error { return tx.Set(fixture.Cell(row, foreign), []byte("theirs")) }))
				_, err := tx.Commit(ctx)
				if want := slices.Contains(names, foreign); errors.Is(err, percolator.ErrConflict) != want || err != nil && !want {
					t.Errorf("writing %q while %q was written: %v", names, foreign, err)
				}
			}
			fixture.Must(t, fixture.Update(ctx, c, func(tx *percolator.Txn) error { return tx.Delete(fixture.Cell(row, name)) }))
			fixture.WantNow(t, ctx, c, fixture.Cell(row, name), "")
			if n > 1 {
				fixture.WantNow(t, ctx, c, fixture.Cell(row, names[1]), "ours")
			}
		}
	}
}

// The name of an observer becomes part of a column, so it cannot hold the byte that separates its
// parts.
func TestAcknowledgeRefusesNames(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	for _, name := range []string{"", "a\x00b"} {
		tx := fixture.MustBegin(t, ctx, env.Client)
		fixture.WantErr(t, fixture.ErrOf((*commit.Txn)(tx).Acknowledge(ctx, fixture.Cell("r", "seen"), name, []string{name})), percolator.ErrInvalidArgument)
		fixture.WantErr(t, fixture.ErrOf((*commit.Txn)(tx).Acknowledge(ctx, fixture.Cell("r", "seen"), "O", []string{"O", name})), percolator.ErrInvalidArgument)
	}
}
