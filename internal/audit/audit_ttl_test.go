package audit_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

var expiringSchema = &percolator.Schema{Tables: []percolator.Table{{Name: "t", TTL: time.Minute, Indexes: []percolator.Index{
	{Name: "badge", Column: "badge", Unique: true}, {Name: "holder", Column: "holder"},
}}}}

// Values that have expired, and are not collected yet, stand neither in the way of another row's in
// a unique index, nor need a transaction that puts the next ones erase their entries.
func TestAuditOfValuesThatHaveExpired(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, expiringSchema)
	ctx := fixture.Context(t)
	put := func(row, holder string) {
		t.Helper()
		_, err := env.Client.Update(ctx, func(_ context.Context, tx *percolator.Txn) error {
			return errors.Join(tx.Set(fixture.Cell(row, "badge"), []byte("b")), tx.Set(fixture.Cell(row, "holder"), []byte(holder)))
		})
		if err := errors.Join(err, env.Client.Flush(ctx)); err != nil {
			t.Fatal(err)
		}
	}
	put("a", "h")
	if r := env.Audit(t); r.IndexEntries != 2 {
		t.Errorf("%d index entries were compared, want 2", r.IndexEntries)
	}
	env.Clock.Advance(2 * time.Minute)
	put("b", "h") // the badge
	env.Clock.Advance(2 * time.Minute)
	put("b", "other") // the holder
	if r := env.Audit(t); r.IndexEntries != 2 {
		t.Errorf("%d index entries were compared, want 2", r.IndexEntries)
	}
}

// A lock of a value that will expire says so.
func TestAuditOfLocksOfValuesThatExpire(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, expiringSchema)
	c := env.NewClient()
	env.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
		if r.Sets("write") {
			return percolatortest.Crash
		}
		return percolatortest.Pass
	})
	_, err := c.Update(fixture.Context(t), func(_ context.Context, tx *percolator.Txn) error {
		return tx.Set(fixture.Cell("r", "holder"), []byte("h"))
	})
	if err == nil {
		t.Fatal("the client did not crash")
	}
	if r := env.Audit(t); r.Locks != 2 {
		t.Errorf("%d locks, want 2: a cell and its entry", r.Locks)
	}
}

// An entry expires when its cell does.
func TestAuditOfAnEntryThatExpiresAtAnotherTime(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, expiringSchema)
	ctx := fixture.Context(t)
	mustSet(t, env.Client, "h", fixture.Cell("r", "holder"))
	if err := env.Client.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	tbl, longer := env.Store().Open("t.holder"), bigtable.NewMutation()
	var key string
	err := tbl.ReadRows(ctx, bigtable.InfiniteRange(""), func(r bigtable.Row) bool {
		key = r.Key()
		for _, it := range r["write"] {
			it.Value[len(it.Value)-1]++ // of the expiry, which ends the record
			_, column, _ := strings.Cut(it.Column, ":")
			longer.Set("write", column, it.Timestamp, it.Value)
		}
		return true
	})
	if err := errors.Join(err, tbl.Apply(ctx, key, longer)); err != nil {
		t.Fatal(err)
	}
	r, err := percolatortest.Audit(ctx, env.Store(), model.AuditConfig{Schema: expiringSchema})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Findings) != 1 || r.Findings[0].Rule != model.RuleIndex {
		t.Errorf("the audit found %v", r.Findings)
	}
}
