package repair_test

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// Beside a hold for backups a lock that has outlived collection, as no entry leads to it, is of a
// transaction that never committed (J8). There is nothing to report.
func TestRepairOfALockWithoutAnEntry(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testRepairOfALockWithoutAnEntry)
}

func testRepairOfALockWithoutAnEntry(t *testing.T) {
	s := newTorn(t, fixture.ShortRetention)
	s.pay(s.Client, "6", "4")
	dying := s.NewClient()
	s.FaultsOf(dying).HandleJournal(func(percolatortest.Request) percolatortest.Action { return percolatortest.LoseRequest })
	s.FaultsOf(dying).Handle(func(r percolatortest.Request) percolatortest.Action {
		if r.Row == "a" { // the primary
			return percolatortest.LoseRequest
		}
		return percolatortest.Pass
	})
	tx := fixture.MustBegin(t, s.ctx, dying)
	fixture.Must(t, tx.Set(u("a"), []byte("1")))
	fixture.Must(t, tx.Set(u("c"), []byte("9"))) // in a row that no other entry names
	died := make(chan error)
	go func() {
		_, err := tx.Commit(s.ctx)
		died <- err
	}()
	locks := func() int { return fixture.CellsOf(t, s.ctx, s.Env, "u", "lock") }
	fixture.Eventually(t, "the lock of the secondary", func() bool { return locks() == 1 })
	s.FaultsOf(dying).Crash()
	if <-died == nil {
		t.Fatal("a dead client committed")
	}
	s.Clock.Advance(2 * time.Minute)
	fixture.Collect(t, s.ctx, s.Client)
	if n := locks(); n != 1 {
		t.Fatalf("%d locks have outlived collection", n)
	}
	b, err := s.admin.CollectionBounds(s.ctx)
	fixture.Must(t, err)
	for range 8 { // as commands leave them that were killed while they waited; which comes first is chance
		fixture.Must(t, fixture.ErrOf(s.admin.TakeHold(s.ctx, b.Safepoint+1, time.Hour, "killed")))
	}
	s.hold, s.to, err = s.admin.TakeBackupHold(s.ctx, time.Hour, "backups", nil)
	fixture.Must(t, err)
	if s.hold.Timestamp != b.Safepoint+1 || s.hold.To != s.to {
		t.Fatalf("%+v for copies to %d", s.hold, s.to)
	}
	if r := s.repair(); r.RolledBack != 1 || r.Found != 0 {
		t.Errorf("%+v", r)
	}
	s.wants("6", "4")
	s.audit()
}

// A hold says that collection stood still for the copies that it was taken for, and for no others.
// A row of an earlier round may hold the lock of a transaction that committed, and whose record was
// collected between the rounds. The repair reports that it rolls such a lock back.
func TestRepairBesideTheHoldOfALaterRound(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testRepairBesideTheHoldOfALaterRound)
}

func testRepairBesideTheHoldOfALaterRound(t *testing.T) {
	s := newTorn(t, fixture.ShortRetention)
	s.pay(s.Client, "6", "4")
	tx := fixture.MustBegin(t, s.ctx, s.dead())
	fixture.Must(t, tx.Set(u("a"), []byte("1")))
	fixture.Must(t, tx.Set(u("b"), []byte("9")))
	committed := fixture.MustCommit(t, s.ctx, tx)
	fixture.Must(t, fixture.Update(s.ctx, s.Client, func(tx *percolator.Txn) error { return tx.Set(u("a"), []byte("2")) }))
	s.Clock.Advance(30 * time.Second)
	first, to, err := s.admin.TakeBackupHold(s.ctx, time.Hour, "the first round", nil)
	fixture.Must(t, err)
	putBack := s.save("u", "b")
	fixture.Must(t, s.admin.ReleaseHold(s.ctx, first))

	s.Clock.Advance(45 * time.Second)
	fixture.Must(t, fixture.ErrOf(mustCollector(t, s, nil).Collect(s.ctx)))
	second, _, err := s.admin.TakeBackupHold(s.ctx, time.Hour, "the second", nil)
	fixture.Must(t, err)
	if second.Timestamp <= committed || second.Timestamp > to {
		t.Fatalf("the second hold is at %d, the transaction committed at %d, the first round is of %d", second.Timestamp, committed, to)
	}
	putBack()
	s.to = to
	if r := s.repair(); r.Found != 1 || r.Findings[0].Cell != u("b") {
		t.Errorf("%+v", r)
	}
}

// So with a hold for backups at the very timestamp of one that the copies were made beside.
func TestRepairBesideALaterHoldAtTheSameTimestamp(t *testing.T) {
	t.Parallel()
	percolatortest.Bubble(t, testRepairBesideALaterHoldAtTheSameTimestamp)
}

func testRepairBesideALaterHoldAtTheSameTimestamp(t *testing.T) {
	s := newTorn(t, fixture.ShortRetention)
	_, secondary := s.collected(func() {
		s.Clock.Advance(2 * time.Minute)
		var err error
		s.to, err = s.Oracle.Next(s.ctx)
		fixture.Must(t, err)
		h, err := s.admin.TakeHold(s.ctx, s.to, time.Hour, "as a backup takes it")
		fixture.Must(t, err)
		s.Clock.Advance(2 * time.Minute)
		fixture.Must(t, fixture.ErrOf(mustCollector(t, s, nil).Collect(s.ctx)))
		later, _, err := s.admin.TakeBackupHold(s.ctx, time.Hour, "later", nil)
		fixture.Must(t, err)
		if later.Timestamp != h.Timestamp {
			t.Errorf("holds at %d and %d", h.Timestamp, later.Timestamp)
		}
		fixture.Must(t, s.admin.ReleaseHold(s.ctx, h))
	})
	if r := s.repair(); r.Found != 1 || r.Findings[0].Cell != secondary {
		t.Errorf("%+v", r)
	}
}

// Only TakeBackupHold says what copies can be repaired to. Holds whose reasons are no UTF-8, as
// former versions took them, can be extended.
func TestExtendedHoldIsForNoCopies(t *testing.T) {
	t.Parallel()
	s := newTorn(t)
	h, err := s.admin.TakeHold(s.ctx, 0, time.Hour, "an export")
	fixture.Must(t, err)
	b := binary.BigEndian.AppendUint64(nil, uint64(h.Timestamp))
	b = binary.BigEndian.AppendUint64(b, uint64(h.Expires))
	for id, reason := range map[string]string{"latin": "termin\xe9e", "short": "\xffbackup"} {
		fixture.Plant(t, s.ctx, s.Env, "percolator_meta", "meta", "meta", "hold:"+id, 1000, string(b)+reason)
	}
	for _, id := range []string{h.ID, "latin", "short"} {
		got, err := s.admin.ExtendHold(s.ctx, model.Hold{ID: id, To: 1}, time.Hour)
		if err != nil || got.To != 0 {
			t.Errorf("%+v, %v", got, err)
		}
	}
	_, err = s.admin.TakeHold(s.ctx, 0, time.Hour, "\xff")
	fixture.WantErr(t, err, percolator.ErrInvalidArgument)
}
