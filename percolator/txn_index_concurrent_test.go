package percolator_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

// Claims, changes and releases of unique values by two clients: in no snapshot do two rows hold one
// value, and the index lists exactly what the rows hold.
func TestUniqueIndexUnderConcurrentChanges(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	clients := []*percolator.Client{env.Client, env.NewClient()}
	commits := make(chan tso.Timestamp, 1000)
	var refused atomic.Int64
	var wg sync.WaitGroup
	for g := range 6 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range 12 {
				row, other := fmt.Sprint("row", (g+i)%5), fmt.Sprint("row", (g+2*i+1)%5)
				value := fmt.Sprint("mail", (g*i+i)%4)
				ts, err := clients[g%2].Update(ctx, func(ctx context.Context, tx *percolator.Txn) error {
					switch i % 4 {
					case 0:
						return fixture.Mail.Delete(tx, row)
					case 1: // hand over what the other row holds
						v, err := fixture.Mail.GetOr(ctx, tx, other, "")
						if err != nil || v == "" || row == other {
							return err
						}
						return errors.Join(fixture.Mail.Delete(tx, other), fixture.Mail.Set(tx, row, v))
					}
					return fixture.Mail.Set(tx, row, value)
				})
				switch {
				case errors.Is(err, percolator.ErrUnique):
					refused.Add(1)
				case err != nil:
					t.Error(err)
				default:
					commits <- ts
				}
			}
		}()
	}
	wg.Wait()
	close(commits)
	for ts := range commits {
		s, err := env.Client.Snapshot(ctx, percolator.AsOfTimestamp(ts))
		fixture.Must(t, err)
		holder, byIndex := map[string]string{}, map[string]string{}
		for e, err := range s.Scan(ctx, "people", percolator.All(), "mail") {
			fixture.Must(t, err)
			if before, twice := holder[string(e.Value)]; twice {
				t.Errorf("at %d %s and %s hold %s", ts, before, e.Cell.Row, e.Value)
			}
			holder[string(e.Value)] = e.Cell.Row
		}
		for e, err := range s.ScanIndex(ctx, "people", "mail", percolator.All()) {
			fixture.Must(t, err)
			byIndex[string(e.Value)] = e.Cell.Row
		}
		if fmt.Sprint(holder) != fmt.Sprint(byIndex) {
			t.Errorf("at %d the rows hold %v and the index says %v", ts, holder, byIndex)
		}
	}
	if refused.Load() == 0 {
		t.Error("nobody was refused: the values were never contested")
	}
}

// The value that a dead transaction was about to claim is free; one that it had claimed is not.
func TestUniqueIndexBehindDeadClient(t *testing.T) {
	t.Parallel()
	for _, committed := range []bool{false, true} {
		env := fixture.NewEnv(t)
		ctx := fixture.Context(t)
		dead := env.NewClient()
		tx := fixture.MustBegin(t, ctx, dead)
		fixture.Must(t, fixture.Mail.Set(tx, "ann", "a@x"))
		var stopped atomic.Bool
		env.FaultsOf(dead).Handle(func(r percolatortest.Request) percolatortest.Action {
			if stopped.Load() || fixture.IsCommit(r) && !committed {
				return percolatortest.Crash
			}
			stopped.Store(fixture.IsCommit(r))
			return percolatortest.Pass
		})
		if _, err := tx.Commit(ctx); (err == nil) != committed {
			t.Fatalf("commit: %v", err)
		}
		dead.Flush(ctx)
		env.Clock.Advance(fixture.LockTTL)
		err := fixture.Update(ctx, env.Client, func(tx *percolator.Txn) error { return fixture.Mail.Set(tx, "bob", "a@x") })
		if errors.Is(err, percolator.ErrUnique) != committed || err != nil && !committed {
			t.Errorf("committed %v: %v", committed, err)
		}
		want := "a@x:bob"
		if committed {
			want = "a@x:ann"
		}
		if got := fixture.ListIndexNow(t, ctx, env.Client, "mail", percolator.All()); got != want {
			t.Errorf("committed %v: the index holds %q, want %q", committed, got, want)
		}
	}
}

// Within a transaction the last write of a row counts, for what it claims and for what it releases.
func TestUniqueIndexFollowsTheLastWrite(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx, c := fixture.Context(t), env.Client
	fixture.Must(t, fixture.Update(ctx, c, func(tx *percolator.Txn) error {
		return errors.Join(fixture.Mail.Set(tx, "ann", "a@x"), fixture.Mail.Set(tx, "bob", "b@x"))
	}))
	for _, step := range []struct {
		change func(tx *percolator.Txn) error
		err    error
		want   string
	}{
		{func(tx *percolator.Txn) error { // wants b@x, then something that is free
			return errors.Join(fixture.Mail.Set(tx, "ann", "b@x"), fixture.Mail.Set(tx, "ann", "c@x"))
		}, nil, "b@x:bob c@x:ann"},
		{func(tx *percolator.Txn) error { // gives c@x up and takes it back; a third one cannot have it
			return errors.Join(fixture.Mail.Delete(tx, "ann"), fixture.Mail.Set(tx, "ann", "c@x"), fixture.Mail.Set(tx, "cid", "c@x"))
		}, percolator.ErrUnique, "b@x:bob c@x:ann"},
		{func(tx *percolator.Txn) error { // two want one value, and one thinks better of it
			return errors.Join(fixture.Mail.Set(tx, "cid", "d@x"), fixture.Mail.Set(tx, "dan", "d@x"), fixture.Mail.Delete(tx, "cid"))
		}, nil, "b@x:bob c@x:ann d@x:dan"},
		{func(tx *percolator.Txn) error {
			return errors.Join(fixture.Mail.Delete(tx, "dan"), fixture.Mail.Insert(tx, "eve", "d@x"))
		}, nil, "b@x:bob c@x:ann d@x:eve"},
		{func(tx *percolator.Txn) error { return fixture.Mail.Insert(tx, "eve", "e@x") }, percolator.ErrExists, "b@x:bob c@x:ann d@x:eve"},
		{func(tx *percolator.Txn) error { return fixture.ErrOf(tx.GetForUpdate(ctx, fixture.Mail.Cell("eve"))) }, nil, "b@x:bob c@x:ann d@x:eve"},
		{func(tx *percolator.Txn) error {
			return errors.Join(fixture.Mail.Set(tx, "fay", ""), fixture.Mail.Set(tx, "gil", ""))
		}, percolator.ErrUnique, "b@x:bob c@x:ann d@x:eve"}, // an empty value is one
	} {
		if err := fixture.Update(ctx, c, step.change); !errors.Is(err, step.err) {
			t.Errorf("%v, want %v", err, step.err)
		}
		if got := fixture.ListIndexNow(t, ctx, c, "mail", percolator.All()); got != step.want {
			t.Errorf("the index holds %q, want %q", got, step.want)
		}
	}
}

// A scan over an index sees the transaction's own writes where they belong in the order of values,
// with ranges exact at both ends, and on unique indexes, with values of any bytes.
func TestScanIndexWithOwnWritesAtTheEdges(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx, c := fixture.Context(t), env.Client
	values := []string{"", "\x00", "\x00\x01", "\x00\xff", "a", "a\x00", "a\x00b", "b", "\xff"}
	fixture.Must(t, fixture.Update(ctx, c, func(tx *percolator.Txn) error {
		for i, v := range values {
			if err := errors.Join(fixture.City.Set(tx, fmt.Sprint("old", i), v), fixture.Mail.Set(tx, fmt.Sprint("old", i), v)); err != nil {
				return err
			}
		}
		return nil
	}))
	tx := fixture.MustBegin(t, ctx, c)
	for i, v := range values { // every second one moves to a new row
		if i%2 == 0 {
			fixture.Must(t, errors.Join(fixture.City.Delete(tx, fmt.Sprint("old", i)), fixture.Mail.Delete(tx, fmt.Sprint("old", i)), fixture.City.Set(tx, fmt.Sprint("new", i), v), fixture.Mail.Set(tx, fmt.Sprint("new", i), v)))
		}
	}
	for _, index := range []string{"city", "mail"} {
		for _, from := range append(values, "a\x00\x01", "zz") {
			for _, to := range append(values, "a\x01") {
				var want, got []string
				for i, v := range values {
					if v >= from && (to == "" || v < to) {
						want = append(want, fmt.Sprintf("%q:%s%d", v, map[bool]string{true: "new", false: "old"}[i%2 == 0], i))
					}
				}
				for e, err := range tx.ScanIndex(ctx, "people", index, percolator.Between(from, to)) {
					fixture.Must(t, err)
					got = append(got, fmt.Sprintf("%q:%s", e.Value, e.Cell.Row))
				}
				if fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("%s from %q to %q: %s, want %s", index, from, to, got, want)
				}
			}
		}
	}
	fixture.Must(t, fixture.Mail.Set(tx, "other", "a"))
	fixture.WantErr(t, fixture.FirstError(tx.ScanIndex(ctx, "people", "mail", percolator.All())), percolator.ErrUnique) // "a" is the value of new4 already
	fixture.Must(t, fixture.Mail.Set(tx, "other", "free"))
	fixture.MustCommit(t, ctx, tx)
}
