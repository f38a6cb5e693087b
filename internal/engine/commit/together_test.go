package commit

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/testing/layertest"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// members are transactions that have begun together.
type members struct {
	*history
	txs []*Txn
}

func beginTogether(t *testing.T, n int) members {
	t.Helper()
	h := newHistory(t, layertest.StartEmulator(t), "i")
	txs, err := h.c.BeginTogether(h.ctx, n)
	if err != nil {
		t.Fatal(err)
	}
	txs[0].with.least = time.Minute // for all that do not end before
	return members{h, txs}
}

// must fails the test for an error.
func (m members) must(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

// commitAll commits members at the same time.
func (m members) commitAll(txs ...*Txn) (commitTS []tso.Timestamp, errs []error) {
	commitTS, errs = make([]tso.Timestamp, len(txs)), make([]error, len(txs))
	var committing sync.WaitGroup
	for i, tx := range txs {
		committing.Go(func() { commitTS[i], errs[i] = tx.Commit(m.ctx) })
	}
	committing.Wait()
	return commitTS, errs
}

// records are the start and commit timestamps of the committed versions in a row of one column, the
// newest first.
func (m members) records(row string) (records []string) {
	m.t.Helper()
	versions, err := m.c.Store.ReadVersions(m.ctx, "t", row, store.RecordsAndLocks(nil, 100))
	m.must(err)
	for _, v := range versions {
		if len(v.Locks) > 0 {
			m.t.Errorf("row %s has a lock", row)
		}
		for _, w := range v.Writes {
			if w.Kind != layout.KindRollback {
				records = append(records, fmt.Sprint(w.StartTS, "@", w.CommitTS))
			}
		}
	}
	return records
}

// Members that come to their commits at the same time share one: with a start timestamp below all
// of theirs, and one commit timestamp (I32).
func TestCommitTogether(t *testing.T) {
	t.Parallel()
	m := beginTogether(t, 3)
	for i, tx := range m.txs {
		m.must(tx.Set(cell(fmt.Sprint(i), "c"), []byte("v")))
	}
	commitTS, errs := m.commitAll(m.txs...)
	m.must(errors.Join(errs...))
	m.must(m.c.Bulk.Flush(m.ctx))
	first := m.txs[0].StartTimestamp() - 1
	for i, tx := range m.txs {
		want := fmt.Sprint(first, "@", commitTS[0])
		if got := strings.Join(m.records(fmt.Sprint(i)), " "); got != want || !tx.Shared() || commitTS[i] != commitTS[0] || tx.StartTimestamp() != first+1+tso.Timestamp(i) {
			t.Errorf("member %d: records %s, want %s; it began at %d and committed at %d", i, got, want, tx.StartTimestamp(), commitTS[i])
		}
	}
}

// Two members that write or lock one cell conflict as transactions at the same time do: one commits
// (I32).
func TestMembersThatOverlap(t *testing.T) {
	t.Parallel()
	write := func(_ context.Context, tx *Txn) error { return tx.Set(cell("hot", "c"), []byte("v")) }
	lock := func(ctx context.Context, tx *Txn) error {
		_, err := tx.GetForUpdate(ctx, cell("hot", "c"))
		if errors.Is(err, model.ErrNotFound) {
			return nil
		}
		return err
	}
	for name, does := range map[string][2]func(context.Context, *Txn) error{
		"two writes": {write, write}, "a write and a lock": {write, lock}, "two locks": {lock, lock},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := beginTogether(t, 3)
			for i, do := range does {
				m.must(errors.Join(do(m.ctx, m.txs[i]), m.txs[i].Set(cell(fmt.Sprint(i), "c"), []byte("v"))))
			}
			m.must(m.txs[2].Set(cell("2", "c"), []byte("v")))
			_, errs := m.commitAll(m.txs...)
			m.must(m.c.Bulk.Flush(m.ctx))
			lost := 0
			for i, err := range errs {
				var conflict *model.ConflictError
				if errors.As(err, &conflict) && conflict.Cell == cell("hot", "c") && i < 2 {
					lost++
				} else if err != nil {
					t.Errorf("member %d: %v", i, err)
				}
				if n := len(m.records(fmt.Sprint(i))); (n == 1) != (err == nil) {
					t.Errorf("member %d: %v, and %d records", i, err, n)
				}
			}
			if n := len(m.records("hot")); lost != 1 || n != 1 {
				t.Errorf("%d of two conflict, and %d have committed", lost, n)
			}
		})
	}
}

// Where another transaction has won against a member, the shared commit aborts, and the others
// commit by themselves (I32).
func TestMembersOfACommitThatAborts(t *testing.T) {
	t.Parallel()
	m := beginTogether(t, 3)
	for i, tx := range m.txs {
		m.must(tx.Set(cell(fmt.Sprint(i), "c"), []byte("v")))
	}
	other, err := m.c.Begin(m.ctx, TxnOptions{})
	m.must(errors.Join(err, other.Set(cell("1", "c"), []byte("other"))))
	won, err := other.Commit(m.ctx)
	m.must(err)
	_, errs := m.commitAll(m.txs...)
	m.must(m.c.Bulk.Flush(m.ctx))
	for i, tx := range m.txs {
		want := fmt.Sprint(tx.StartTimestamp(), "@")
		if i == 1 {
			want = fmt.Sprint(other.StartTimestamp(), "@", won)
		}
		if got := m.records(fmt.Sprint(i)); len(got) != 1 || !strings.HasPrefix(got[0], want) || tx.Shared() || errors.Is(errs[i], model.ErrConflict) != (i == 1) {
			t.Errorf("member %d: %v, records %v, want %s", i, errs[i], got, want)
		}
	}
}

// A member that comes when the others have committed commits by itself, at its own snapshot (I32).
func TestMemberThatIsLate(t *testing.T) {
	t.Parallel()
	m := beginTogether(t, 4)
	for i, tx := range m.txs {
		m.must(tx.Set(cell(fmt.Sprint(i), "c"), []byte("v")))
	}
	m.must(m.txs[3].Set(cell("0", "c"), []byte("late")))
	g := m.txs[0].with
	var errs [2]error
	var committing sync.WaitGroup
	for i := range errs {
		committing.Go(func() { _, errs[i] = m.txs[i].Commit(m.ctx) })
	}
	g.mu.Lock()
	for len(g.come) < 2 && m.ctx.Err() == nil {
		g.mu.Unlock()
		runtime.Gosched()
		g.mu.Lock()
	}
	g.out = 10   // so that it does not close this again
	close(g.all) // as if the first had waited for long enough
	g.mu.Unlock()
	committing.Wait()
	m.must(errors.Join(errs[:]...))
	if !m.txs[0].Shared() || !m.txs[1].Shared() {
		t.Error("the first two have not shared their commit")
	}
	if _, err := m.txs[2].Commit(m.ctx); err != nil || m.txs[2].Shared() {
		t.Errorf("the late one: %v", err)
	}
	if _, err := m.txs[3].Commit(m.ctx); !errors.Is(err, model.ErrConflict) {
		t.Errorf("one that writes what the first two have written: %v", err)
	}
	m.must(m.c.Bulk.Flush(m.ctx))
	if got, want := m.records("2"), fmt.Sprint(m.txs[2].StartTimestamp(), "@"); len(got) != 1 || !strings.HasPrefix(got[0], want) {
		t.Errorf("records %v, want %s", got, want)
	}
	if n := len(m.records("3")); n != 0 {
		t.Errorf("%d records of a transaction that conflicts", n)
	}
}

// What a member has buffered that ends without a commit is in no commit (I32).
func TestMemberThatRollsBack(t *testing.T) {
	t.Parallel()
	m := beginTogether(t, 3)
	for i, tx := range m.txs {
		m.must(tx.Set(cell(fmt.Sprint(i), "c"), []byte("v")))
	}
	m.must(m.txs[1].Rollback(m.ctx))
	_, errs := m.commitAll(m.txs[0], m.txs[2])
	m.must(errors.Join(errs...))
	m.must(m.c.Bulk.Flush(m.ctx))
	for i, want := range []int{1, 0, 1} {
		if got := len(m.records(fmt.Sprint(i))); got != want {
			t.Errorf("member %d: %d records", i, got)
		}
	}
}

// A shared commit has its limits, and members beyond them commit by themselves.
func TestLimitsOfACommitTogether(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(tx *Txn) error{
		"cells": func(tx *Txn) error {
			for i := range togetherCells {
				if err := tx.Set(cell("large", fmt.Sprintf("c%03d", i)), nil); err != nil {
					return err
				}
			}
			return nil
		},
		"bytes": func(tx *Txn) error { return tx.Set(cell("large", "c"), make([]byte, togetherBytes)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := beginTogether(t, 3)
			m.must(write(m.txs[0]))
			for i, tx := range m.txs {
				m.must(tx.Set(cell(fmt.Sprint(i), "c"), []byte("v")))
			}
			_, errs := m.commitAll(m.txs...)
			m.must(errors.Join(errs...))
			m.must(m.c.Bulk.Flush(m.ctx))
			for i, tx := range m.txs {
				if n := len(m.records(fmt.Sprint(i))); n != 1 || tx.Shared() != (i > 0) {
					t.Errorf("member %d: %d records, shared %t", i, n, tx.Shared())
				}
			}
		})
	}
}
