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

const mailTTL = 30 * time.Second

// expiringMail has people with a unique index over mail, whose values live for mailTTL.
func expiringMail() *percolator.Schema {
	return &percolator.Schema{Tables: []percolator.Table{
		{Name: "people", TTL: mailTTL, Indexes: []percolator.Index{{Name: "mail", Column: "mail", Unique: true}}},
	}}
}

// A value expires as well when its client dies behind the commit point, and another one rolls the
// lock forward (I27).
func TestTimeToLiveOfAnAbandonedCommit(t *testing.T) {
	t.Parallel()
	env := percolatortest.New(t, expiringMail())
	ctx, dead := fixture.Context(t), env.NewClient()
	env.FaultsOf(dead).Handle(func(r percolatortest.Request) percolatortest.Action {
		if r.Method == "MutateRows" && strings.HasPrefix(r.Table, "people") {
			return percolatortest.Crash
		}
		return percolatortest.Pass
	})
	fixture.Must(t, fixture.Update(ctx, dead, func(tx *percolator.Txn) error {
		return errors.Join(fixture.Mail.Set(tx, "ann", "ann@x"), fixture.Mail.Set(tx, "bob", "bob@x"))
	}))
	_ = dead.Flush(ctx)
	env.FaultsOf(dead).Crash()
	look := func() string {
		s, err := env.Client.Snapshot(ctx)
		fixture.Must(t, err)
		var seen []string
		for e, err := range s.Scan(ctx, "people", percolator.All()) {
			fixture.Must(t, err)
			seen = append(seen, string(e.Value))
			if e.Expires != e.CommitTS.Add(mailTTL) {
				t.Errorf("committed at %v, expires at %v", e.CommitTS.Time(), e.Expires.Time())
			}
		}
		for e, err := range s.ScanIndex(ctx, "people", "mail", percolator.All()) {
			fixture.Must(t, err)
			seen = append(seen, string(e.Value))
		}
		return strings.Join(seen, " ")
	}
	if seen := look(); seen != "ann@x bob@x ann@x bob@x" {
		t.Errorf("at first: %q", seen)
	}
	env.Clock.Advance(mailTTL)
	if seen := look(); seen != "" {
		t.Errorf("in the end: %q", seen)
	}
}

// A value that is put again lives anew, and so does its entry in an index (I27).
func TestTimeToLiveOfAValueThatIsPutAgain(t *testing.T) {
	t.Parallel()
	s := expiringMail()
	env := percolatortest.New(t, s)
	ctx, c := fixture.Context(t), env.Client
	for range 2 {
		fixture.SetPeople(t, ctx, c, fixture.Mail, "ann", "ann@x")
		env.Clock.Advance(mailTTL * 2 / 3)
	}
	fixture.WantIndex(t, ctx, c, "mail")
	fixture.WantErr(t, fixture.Update(ctx, c, func(tx *percolator.Txn) error { return fixture.Mail.Set(tx, "bob", "ann@x") }), percolator.ErrUnique)

	// Without a time to live the entry would end before the cell.
	s.Tables[0].TTL = 0
	fixture.WantErr(t, percolator.CreateSchema(ctx, env.Project, env.Instance, s, env.Options()...), percolator.ErrSchemaMismatch)
}

// The entries of an index say when the values expire, as those of a scan do.
func TestScanIndexSaysWhenValuesExpire(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, func(t *testing.T) {
		env := percolatortest.New(t, expiringMail())
		ctx, c := context.Background(), env.Client
		fixture.SetPeople(t, ctx, c, fixture.Mail, "ann", "ann@x")
		s, err := c.Snapshot(ctx)
		fixture.Must(t, err)
		var byScan, byIndex percolator.Entry
		for e, err := range s.Scan(ctx, "people", percolator.All()) {
			fixture.Must(t, err)
			byScan = e
		}
		for e, err := range s.ScanIndex(ctx, "people", "mail", percolator.All()) {
			fixture.Must(t, err)
			byIndex = e
		}
		if byScan.Expires == 0 || byIndex.Expires != byScan.Expires {
			t.Errorf("by the scan it expires at %d, by the index at %d", byScan.Expires, byIndex.Expires)
		}
	})
}
