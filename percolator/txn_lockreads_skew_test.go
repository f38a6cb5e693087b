package percolator_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/tso"
)

// onCall is how a transaction finds out which doctors are on call: each has a row of people, and
// the column city says "yes" or "no".
type onCall func(ctx context.Context, r percolator.Reader, doctors ...string) (map[string]bool, error)

func doctor(name string) percolator.Cell {
	return percolator.Cell{Table: "people", Row: name, Column: "city"}
}

func onCallByGet(ctx context.Context, r percolator.Reader, doctors ...string) (map[string]bool, error) {
	found := map[string]bool{}
	for _, d := range doctors {
		v, err := r.Get(ctx, doctor(d))
		if err != nil && !errors.Is(err, percolator.ErrNotFound) {
			return nil, err
		}
		found[d] = string(v) == "yes"
	}
	return found, nil
}

func onCallByGetMulti(ctx context.Context, r percolator.Reader, doctors ...string) (map[string]bool, error) {
	var cells []percolator.Cell
	for _, d := range doctors {
		cells = append(cells, doctor(d))
	}
	values, err := r.GetMulti(ctx, cells...)
	found := map[string]bool{}
	for i, v := range values {
		found[doctors[i]] = string(v) == "yes"
	}
	return found, err
}

func onCallByScan(columns ...string) onCall {
	return func(ctx context.Context, r percolator.Reader, _ ...string) (map[string]bool, error) {
		found := map[string]bool{}
		for e, err := range r.Scan(ctx, "people", percolator.All(), columns...) {
			if err != nil {
				return nil, err
			}
			found[e.Cell.Row] = string(e.Value) == "yes"
		}
		return found, nil
	}
}

func onCallByTypedScan(ctx context.Context, r percolator.Reader, _ ...string) (map[string]bool, error) {
	found := map[string]bool{}
	for e, err := range fixture.City.Scan(ctx, r, percolator.All()) {
		if err != nil {
			return nil, err
		}
		found[e.Cell.Row] = e.Value == "yes"
	}
	return found, nil
}

func waysToRead() map[string]onCall {
	return map[string]onCall{"Get": onCallByGet, "GetMulti": onCallByGetMulti, "Scan": onCallByScan(), "Scan of a column": onCallByScan("city"), "typed Scan": onCallByTypedScan,
		"ScanIndex": onCallByIndex}
}

// skew has two doctors leave at the same time, each because the other one stays, and returns how
// the second fares.
func skew(t *testing.T, read onCall, opts ...percolator.TxnOption) error {
	t.Helper()
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	fixture.Must(t, fixture.Update(ctx, env.Client, func(tx *percolator.Txn) error {
		return errors.Join(tx.Set(doctor("ann"), []byte("yes")), tx.Set(doctor("bob"), []byte("yes")))
	}))
	fixture.Must(t, env.Client.Flush(ctx))
	leave := func(who, other string) *percolator.Txn {
		tx := fixture.MustBegin(t, ctx, env.Client, opts...)
		found, err := read(ctx, tx, "ann", "bob")
		fixture.Must(t, err)
		if !found[other] {
			t.Fatalf("%s does not see %s on call: %v", who, other, found)
		}
		fixture.Must(t, tx.Set(doctor(who), []byte("no")))
		return tx
	}
	a, b := leave("ann", "bob"), leave("bob", "ann")
	fixture.MustCommit(t, ctx, a)
	_, err := b.Commit(ctx)
	fixture.Must(t, env.Client.Flush(ctx))
	for _, table := range []string{"people", "people.city"} {
		if n := fixture.CellsOf(t, ctx, env, table, "lock"); n != 0 {
			t.Errorf("%d locks left in %s", n, table)
		}
	}
	return err
}

// Both doctors leave under snapshot isolation, however they look; under LockReads the second one
// cannot.
func TestLockReadsPreventsWriteSkew(t *testing.T) {
	t.Parallel()
	for name, read := range waysToRead() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fixture.Must(t, skew(t, read))
			var conflict *percolator.ConflictError
			if err := skew(t, read, percolator.LockReads()); !errors.As(err, &conflict) || conflict.Cell != doctor("ann") && conflict.Cell != doctor("bob") {
				t.Errorf("the second doctor: %v, want a conflict on a cell that it read", err)
			}
		})
	}
}

// However many leave and come back at once, somebody is on call in every snapshot.
func TestLockReadsKeepsAnInvariant(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	doctors := []string{"ann", "bob", "cid", "dan"}
	fixture.Must(t, fixture.Update(ctx, env.Client, func(tx *percolator.Txn) error { return tx.Set(doctor("ann"), []byte("yes")) }))
	clients := []*percolator.Client{env.Client, env.NewClient()}
	commits := make(chan tso.Timestamp, 1000)
	var wg sync.WaitGroup
	for name, read := range waysToRead() {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range 6 {
				who := doctors[(len(name)+i)%len(doctors)]
				ts, err := clients[i%2].Update(ctx, func(ctx context.Context, tx *percolator.Txn) error {
					found, err := read(ctx, tx, doctors...)
					if err != nil {
						return err
					}
					others := 0
					for d, yes := range found {
						if yes && d != who {
							others++
						}
					}
					if others > 0 && found[who] {
						return tx.Set(doctor(who), []byte("no"))
					}
					return tx.Set(doctor(who), []byte("yes"))
				}, percolator.LockReads())
				if err != nil {
					t.Errorf("%s: %v", name, err)
					return
				}
				commits <- ts
			}
		}()
	}
	wg.Wait()
	close(commits)
	for ts := range commits {
		s, err := env.Client.Snapshot(ctx, percolator.AsOfTimestamp(ts))
		fixture.Must(t, err)
		found, err := onCallByGetMulti(ctx, s, doctors...)
		fixture.Must(t, err)
		yes := 0
		for _, is := range found {
			if is {
				yes++
			}
		}
		if yes == 0 {
			t.Errorf("at %d nobody is on call", ts)
		}
	}
}

// Absence is read as well: of two transactions that each find the other's cell absent, one
// conflicts.
func TestLockReadsOfAbsence(t *testing.T) {
	t.Parallel()
	for name, read := range map[string]onCall{"Get": onCallByGet, "GetMulti": onCallByGetMulti} {
		for _, deleted := range []bool{false, true} {
			env := fixture.NewEnv(t)
			ctx := fixture.Context(t)
			if deleted {
				fixture.Must(t, fixture.Update(ctx, env.Client, func(tx *percolator.Txn) error {
					return errors.Join(tx.Set(doctor("ann"), []byte("yes")), tx.Set(doctor("bob"), []byte("yes")))
				}))
				fixture.Must(t, fixture.Update(ctx, env.Client, func(tx *percolator.Txn) error {
					return errors.Join(tx.Delete(doctor("ann")), tx.Delete(doctor("bob")))
				}))
			}
			arrive := func(who string) *percolator.Txn {
				tx := fixture.MustBegin(t, ctx, env.Client, percolator.LockReads())
				found, err := read(ctx, tx, "ann", "bob")
				fixture.Must(t, err)
				if found["ann"] || found["bob"] {
					t.Errorf("%s: found %v", name, found)
				}
				fixture.Must(t, tx.Set(doctor(who), []byte("yes")))
				return tx
			}
			a, b := arrive("ann"), arrive("bob")
			fixture.MustCommit(t, ctx, a)
			if _, err := b.Commit(ctx); !errors.Is(err, percolator.ErrConflict) {
				t.Errorf("%s, deleted %v: %v", name, deleted, err)
			}
		}
	}
}

func onCallByIndex(ctx context.Context, r percolator.Reader, _ ...string) (map[string]bool, error) {
	found := map[string]bool{}
	for e, err := range r.ScanIndex(ctx, "people", "city", percolator.Row("yes")) {
		if err != nil {
			return nil, err
		}
		found[e.Cell.Row] = true
	}
	return found, nil
}

// A scan over an index locks the indexed cells.
func TestLockReadsByIndex(t *testing.T) {
	t.Parallel()
	fixture.Must(t, skew(t, onCallByIndex))
	var conflict *percolator.ConflictError
	if err := skew(t, onCallByIndex, percolator.LockReads()); !errors.As(err, &conflict) || conflict.Cell != doctor("ann") && conflict.Cell != doctor("bob") {
		t.Errorf("the second doctor: %v, want a conflict on a cell that it read", err)
	}
}

// Only what was handed out is locked, and that before it is; a transaction's own entries come
// along.
func TestLockReadsByIndexLocksBeforeItHandsOut(t *testing.T) {
	t.Parallel()
	for _, written := range []string{"ann", "bob", "cid"} {
		env := fixture.NewEnv(t)
		ctx := fixture.Context(t)
		fixture.Must(t, fixture.Update(ctx, env.Client, func(tx *percolator.Txn) error {
			return errors.Join(fixture.City.Set(tx, "ann", "Bern"), fixture.City.Set(tx, "bob", "Oslo"), fixture.City.Set(tx, "cid", "Rome"))
		}))
		tx := fixture.MustBegin(t, ctx, env.Client, percolator.LockReads())
		fixture.Must(t, fixture.City.Set(tx, "new", "Cork"))
		var seen []string
		for e, err := range tx.ScanIndex(ctx, "people", "city", percolator.All()) {
			fixture.Must(t, err)
			if seen = append(seen, e.Cell.Row); e.Cell.Row == "bob" {
				break
			}
		}
		if len(seen) != 3 || seen[1] != "new" {
			t.Errorf("seen %q", seen)
		}
		fixture.Must(t, fixture.Update(ctx, env.Client, func(tx *percolator.Txn) error { return fixture.City.Set(tx, written, "Ulm") }))
		if _, err := tx.Commit(ctx); errors.Is(err, percolator.ErrConflict) != (written != "cid") {
			t.Errorf("%s was written meanwhile: %v", written, err)
		}
	}
}

// The locks that a scan over an index places change no entry.
func TestLockReadsByIndexChangesNoEntry(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx, c := fixture.Context(t), env.Client
	fixture.Must(t, fixture.Update(ctx, c, func(tx *percolator.Txn) error {
		return errors.Join(fixture.City.Set(tx, "ann", "Bern"), fixture.City.Set(tx, "bob", "Oslo"))
	}))
	fixture.Must(t, c.Flush(ctx))
	before := fixture.CellsOf(t, ctx, env, "people.city", "write")
	tx := fixture.MustBegin(t, ctx, c, percolator.LockReads())
	if got := fixture.ListIndex(t, ctx, tx, "city", percolator.All()); got != "Bern:ann Oslo:bob" {
		t.Errorf("scanned %s", got)
	}
	if ts := fixture.MustCommit(t, ctx, tx); ts <= tx.StartTimestamp() {
		t.Error("a transaction that read under LockReads did not commit")
	}
	fixture.Must(t, c.Flush(ctx))
	if n := fixture.CellsOf(t, ctx, env, "people.city", "write"); n != before {
		t.Errorf("%d records in the index, %d before", n, before)
	}
	if got := fixture.ListIndexNow(t, ctx, c, "city", percolator.All()); got != "Bern:ann Oslo:bob" {
		t.Errorf("now %s", got)
	}
}
