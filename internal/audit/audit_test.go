package audit_test

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

var auditSchema = &percolator.Schema{Tables: []percolator.Table{
	{Name: "t", Observed: []string{"watched"}},
	{Name: "people", Indexes: []percolator.Index{{Name: "mail", Column: "mail", Unique: true}, {Name: "city", Column: "city"}}},
}}

func mustSet(t *testing.T, c *percolator.Client, value string, cells ...percolator.Cell) {
	t.Helper()
	ctx := fixture.Context(t)
	fixture.Must(t, fixture.Update(ctx, c, func(tx *percolator.Txn) (err error) {
		for _, cell := range cells {
			err = errors.Join(err, tx.Set(cell, []byte(value)))
		}
		return err
	}))
	fixture.Must(t, c.Flush(ctx))
}

// newAudited is an environment with something of everything: overwritten, deleted and only locked
// cells, a rolled-back transaction, an observed cell and indexed ones.
func newAudited(t *testing.T) *percolatortest.Env {
	t.Helper()
	env := percolatortest.New(t, auditSchema)
	ctx := fixture.Context(t)
	mustSet(t, env.Client, "old", fixture.Cell("r", "c"))
	mustSet(t, env.Client, "new", fixture.Cell("r", "c"), fixture.Cell("s", "c"), fixture.Cell("r", "watched"))
	person := func(row, column string) percolator.Cell {
		return percolator.Cell{Table: "people", Row: row, Column: column}
	}
	mustSet(t, env.Client, "oslo", person("ann", "city"), person("bob", "city"), person("cy", "city"))
	mustSet(t, env.Client, "ann@example.com", person("ann", "mail"))
	mustSet(t, env.Client, "bergen", person("bob", "city"))
	_, err := env.Client.Update(ctx, func(ctx context.Context, tx *percolator.Txn) error {
		if _, err := tx.GetForUpdate(ctx, fixture.Cell("s", "c")); err != nil {
			return err
		}
		return tx.Delete(person("cy", "city"))
	})
	if err != nil {
		t.Fatal(err)
	}
	loser, err := env.Client.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []string{"q", "r"} {
		if err := loser.Set(fixture.Cell(row, "c"), []byte("lost")); err != nil {
			t.Fatal(err)
		}
	}
	mustSet(t, env.Client, "newer", fixture.Cell("r", "c"))
	if _, err := loser.Commit(ctx); err == nil {
		t.Fatal("the loser has won")
	}
	if err := env.Client.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	return env
}

func TestAuditOfASoundStore(t *testing.T) {
	t.Parallel()
	env := newAudited(t)
	var markers, records int
	r := env.Audit(t, func(cfg *model.AuditConfig) {
		cfg.Visit = func(r model.AuditedRecord) {
			records++
			if r.Kind == 'R' {
				markers++
			}
		}
	})
	if r.Rows == 0 || r.Notifications != 1 || r.IndexEntries != 3 || markers != 1 || records != r.Records {
		t.Errorf("%d markers, %d records, report %+v", markers, records, r)
	}
}

// A client that dies leaves locks, and nothing that an audit minds.
func TestAuditWithLocksLeft(t *testing.T) {
	t.Parallel()
	env := newAudited(t)
	c := env.NewClient()
	env.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
		if r.Sets("write") {
			return percolatortest.Crash
		}
		return percolatortest.Pass
	})
	tx, err := c.Begin(fixture.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, cell := range []percolator.Cell{fixture.Cell("r", "watched"), {Table: "people", Row: "ann", Column: "mail"}} {
		if err := tx.Set(cell, []byte("dead@example.com")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := tx.Commit(fixture.Context(t)); err == nil {
		t.Fatal("the client did not crash")
	}
	if r := env.Audit(t); r.Locks != 4 {
		t.Errorf("%d locks, want 4: two cells and two entries", r.Locks)
	}
}

// A lock to which no entry leads outlives the table of its primary: its transaction never commits.
func TestAuditWithALockOfADroppedTable(t *testing.T) {
	t.Parallel()
	env := newAudited(t)
	s := stored{t, env, fixture.Context(t)}
	at, gone := fixture.Cell("z", "c"), percolator.Cell{Table: "gone", Row: "r", Column: "c"}
	start := s.newest(fixture.Cell("r", "c")).Commit + 1
	s.set(at, "lock", start, lockBytes(start, gone))
	for _, dropped := range []tso.Timestamp{start, start - 1} {
		s.set(percolator.Cell{Table: "percolator_meta", Row: "meta", Column: "dropped"}, "meta", 1, fmt.Appendf(nil, `{"gone":{"At":%d}}`, dropped))
		r, err := percolatortest.Audit(s.ctx, env.Store(), model.AuditConfig{Schema: auditSchema})
		if err != nil {
			t.Fatal(err)
		}
		if sound := dropped >= start; sound != (r.Found == 0) || r.StrayLocks != 1 {
			t.Errorf("dropped at %d: %s", dropped, r)
		}
	}
}

// stored is what the tests damage: the newest version of a cell, and where it is.
type stored struct {
	*testing.T
	env *percolatortest.Env
	ctx context.Context
}

// records lists a cell's write records, oldest first.
func (s stored) records(at percolator.Cell) (rs []model.AuditedRecord) {
	s.Helper()
	cfg := model.AuditConfig{Schema: auditSchema, Visit: func(r model.AuditedRecord) {
		if r.Cell == at {
			rs = append(rs, r)
		}
	}}
	if _, err := percolatortest.Audit(s.ctx, s.env.Store(), cfg); err != nil {
		s.Fatal(err)
	}
	slices.SortFunc(rs, func(a, b model.AuditedRecord) int { return int(a.Commit - b.Commit) })
	if len(rs) == 0 {
		s.Fatalf("%s has no records", at)
	}
	return rs
}

func (s stored) newest(at percolator.Cell) model.AuditedRecord {
	rs := s.records(at)
	return rs[len(rs)-1]
}

func (s stored) set(at percolator.Cell, family string, ts tso.Timestamp, value []byte) {
	mut := bigtable.NewMutation()
	mut.Set(family, at.Column, bigtable.Timestamp(ts)*1000, value)
	s.apply(at, mut)
}

func (s stored) erase(at percolator.Cell, family string) {
	mut := bigtable.NewMutation()
	mut.DeleteCellsInColumn(family, at.Column)
	s.apply(at, mut)
}

func (s stored) apply(at percolator.Cell, mut *bigtable.Mutation) {
	s.Helper()
	if err := s.env.Store().Open(at.Table).Apply(s.ctx, at.Row, mut); err != nil {
		s.Fatal(err)
	}
}

func (s stored) watermark(ts tso.Timestamp) {
	for _, column := range []string{"safepoint", "mark"} {
		s.set(percolator.Cell{Table: "percolator_meta", Row: "meta", Column: column}, "meta", 1, binary.BigEndian.AppendUint64(nil, uint64(ts)))
	}
}

func writeBytes(start tso.Timestamp, kind byte) []byte {
	return append(binary.BigEndian.AppendUint64(nil, uint64(start)), kind)
}

// lockBytes is a lock as docs/internals/PROTOCOL.md describes it.
func lockBytes(start tso.Timestamp, primary percolator.Cell) []byte {
	b := binary.BigEndian.AppendUint64([]byte{1, 'P', 0}, uint64(start))
	b = binary.AppendUvarint(b, 1000)
	for _, f := range []string{primary.Table, primary.Row, primary.Column, ""} {
		b = append(binary.AppendUvarint(b, uint64(len(f))), f...)
	}
	return b
}

func TestAuditFinds(t *testing.T) {
	t.Parallel()
	rc, watched := fixture.Cell("r", "c"), fixture.Cell("r", "watched")
	mail := percolator.Cell{Table: "people", Row: "ann", Column: "mail"}
	const future = tso.MaxTimestamp / 2
	for name, test := range map[string]struct {
		rule    model.AuditRule
		damage  func(s stored)
		collect bool
	}{
		"a record too short":         {model.RuleDecodable, func(s stored) { s.set(rc, "write", future, []byte("short")) }, false},
		"a record before its start":  {model.RuleDecodable, func(s stored) { s.set(rc, "write", 7, writeBytes(8, 'P')) }, false},
		"a record of unknown kind":   {model.RuleDecodable, func(s stored) { s.set(rc, "write", 8, writeBytes(7, 'X')) }, false},
		"a marker elsewhere":         {model.RuleDecodable, func(s stored) { s.set(rc, "write", 8, writeBytes(7, 'R')) }, false},
		"a lock that ends too early": {model.RuleDecodable, func(s stored) { s.set(rc, "lock", future, lockBytes(future, rc)[:15]) }, false},
		"a timestamp in between": {model.RuleDecodable, func(s stored) {
			// The emulator does not take one, so the timestamp is none at all.
			s.set(rc, "data", 0, []byte("v"))
		}, false},
		"two locks": {model.RuleOneLock, func(s stored) {
			s.set(rc, "lock", future, lockBytes(future, rc))
			s.set(rc, "lock", future+1, lockBytes(future+1, rc))
		}, false},
		"a lock beside the record": {model.RuleLockOrWrite, func(s stored) {
			start := s.newest(rc).Start
			s.set(rc, "lock", start, lockBytes(start, rc))
		}, false},
		"a lock beside the marker": {model.RuleLockOrWrite, func(s stored) {
			start := s.newest(fixture.Cell("q", "c")).Start
			s.set(fixture.Cell("q", "c"), "lock", start, lockBytes(start, rc))
		}, false},
		"a lock below a record": {model.RuleOverlap, func(s stored) { s.set(rc, "lock", 5, lockBytes(5, rc)) }, false},
		"a lock of nobody": {model.RulePrimary, func(s stored) {
			s.set(rc, "lock", future, lockBytes(future, percolator.Cell{Table: "x", Row: "r", Column: "c"}))
		}, false},
		"overlapping writers": {model.RuleOverlap, func(s stored) {
			n := s.newest(rc)
			s.set(rc, "write", n.Commit+1, writeBytes(n.Commit-1, 'D'))
		}, false},
		"a marker beside the record": {model.RuleMarker, func(s stored) {
			n := s.newest(rc)
			s.set(rc, "write", n.Start, writeBytes(n.Start, 'R'))
		}, false},
		"a marker on the primary": {model.RuleMarker, func(s stored) {
			n := s.newest(watched)
			s.set(fixture.Cell("z", "c"), "write", n.Start, writeBytes(n.Start, 'R'))
		}, false},
		"two commit timestamps": {model.RuleOneCommit, func(s stored) {
			n := s.newest(rc)
			s.set(fixture.Cell("z", "c"), "write", n.Commit+1, writeBytes(n.Start, 'D'))
		}, false},
		"no data":         {model.RuleData, func(s stored) { s.erase(rc, "data") }, false},
		"no notification": {model.RuleObserved, func(s stored) { s.erase(watched, "notify") }, false},
		"a notification too old": {model.RuleObserved, func(s stored) {
			s.erase(watched, "notify")
			s.set(watched, "notify", 5, nil)
		}, false},
		"an acknowledgment too old": {model.RuleObserved, func(s stored) {
			s.erase(watched, "notify")
			s.set(fixture.Cell("r", "\x00ack\x00o\x00watched"), "write", 7, writeBytes(6, 'L'))
		}, false},
		"no entry": {model.RuleIndex, func(s stored) {
			s.erase(percolator.Cell{Table: "people.mail", Row: "ann@example.com\x00\x01", Column: "row"}, "write")
		}, false},
		"no cell": {model.RuleIndex, func(s stored) { s.erase(mail, "write") }, false},
		"another cell": {model.RuleIndex, func(s stored) {
			e := percolator.Cell{Table: "people.mail", Row: "ann@example.com\x00\x01", Column: "row"}
			s.set(e, "data", s.newest(e).Start, []byte("bob"))
		}, false},
		"a watermark above the safepoint": {model.RuleWatermark, func(s stored) {
			s.set(percolator.Cell{Table: "percolator_meta", Row: "meta", Column: "mark"}, "meta", 1, binary.BigEndian.AppendUint64(nil, 9))
		}, false},

		"a lock without an entry": {model.RuleEntry, func(s stored) {
			start := s.newest(rc).Start
			s.set(fixture.Cell("z", "c"), "lock", start, lockBytes(start, rc))
		}, false},
		"a notification without an entry": {model.RuleEntry, func(s stored) { s.set(fixture.Cell("z", "watched"), "notify", future, nil) }, false},
		"a notification that counts as settled": {model.RuleEntry, func(s stored) {
			for _, key := range s.journal() {
				s.set(percolator.Cell{Table: "percolator_journal", Row: "\x41" + key[:17], Column: "low"}, "journal", 1000, nil)
			}
		}, false},
		"an entry that ends too early": {model.RuleDecodable, func(s stored) {
			s.set(percolator.Cell{Table: "percolator_journal", Row: s.journal()[0], Column: "batch"}, "journal", 1, []byte{1, 1, 5, 't'})
		}, false},
		"a row of no stream": {model.RuleDecodable, func(s stored) {
			s.set(percolator.Cell{Table: "percolator_journal", Row: "x", Column: "batch"}, "journal", 1, []byte{1})
		}, false},
		"a record without an entry": {model.RuleEntry, func(s stored) {
			s.set(fixture.Cell("z", "c"), "write", future+1, writeBytes(future, 'D'))
		}, false},
		"a header that is none": {model.RuleDecodable, func(s stored) {
			s.set(percolator.Cell{Table: "percolator_journal", Row: "\x41" + s.journal()[0][:17], Column: "session"}, "journal", 1, []byte("{"))
		}, false},
		"a list of the parked that is none": {model.RuleDecodable, func(s stored) {
			s.set(percolator.Cell{Table: "percolator_journal", Row: "\x40" + strings.Repeat("h", 32), Column: "parked:o"}, "journal", 5, []byte{1, 1})
		}, false},
		"a state of collection that is none": {model.RuleDecodable, func(s stored) {
			s.set(percolator.Cell{Table: "percolator_meta", Row: "collector", Column: "state"}, "meta", 1, []byte("{"))
		}, false},
		"parked, and not listed": {model.RuleParked, func(s stored) {
			s.set(fixture.Cell("r", "\x00park\x00o\x00watched"), "notify", s.newest(watched).Commit, []byte("{}"))
		}, false},

		"old records":   {model.RuleGarbage, func(s stored) { s.watermark(s.newest(rc).Commit) }, true},
		"an old marker": {model.RuleGarbage, func(s stored) { s.watermark(s.newest(fixture.Cell("q", "c")).Start) }, true},
		"old data": {model.RuleGarbage, func(s stored) {
			s.watermark(10)
			s.set(rc, "data", 5, []byte("v"))
		}, true},
		"an old lock": {model.RuleGarbage, func(s stored) {
			s.watermark(10)
			s.set(fixture.Cell("z", "c"), "lock", 5, lockBytes(5, rc))
		}, true},
		"listed, and not parked": {model.RuleGarbage, func(s stored) {
			s.watermark(s.newest(watched).Commit)
			s.list(watched, s.newest(watched).Commit-1)
		}, true},
		"listed, of a table that is gone": {model.RuleGarbage, func(s stored) {
			s.watermark(10)
			s.list(percolator.Cell{Table: "gone", Row: "r", Column: "watched"}, 5)
		}, true},
		"a position without a client": {model.RuleGarbage, func(s stored) {
			s.set(percolator.Cell{Table: "percolator_journal", Row: "\x41" + strings.Repeat("\x01", 17), Column: "low"}, "journal", 7, nil)
		}, true},
		"a share of a cycle that is over": {model.RuleGarbage, func(s stored) {
			collector := percolator.Cell{Table: "percolator_meta", Row: "collector", Column: "state"}
			s.set(collector, "meta", 1, []byte(`{"Phase":"done","Safepoint":9}`))
			collector.Column = "share-07"
			s.set(collector, "meta", 1, []byte(`{"Watermark":9}`))
		}, false},
		"a deleted cell": {model.RuleGarbage, func(s stored) {
			s.watermark(10)
			s.set(fixture.Cell("z", "c"), "write", 5, writeBytes(4, 'D'))
		}, true},
		"a lock record": {model.RuleGarbage, func(s stored) {
			s.watermark(10)
			s.set(fixture.Cell("z", "c"), "write", 5, writeBytes(4, 'L'))
		}, true},
		"two old runs": {model.RuleGarbage, func(s stored) {
			s.watermark(10)
			s.set(fixture.Cell("r", "\x00ack\x00o\x00watched"), "write", 5, writeBytes(4, 'L'))
			s.set(fixture.Cell("r", "\x00ack\x00o\x00watched"), "write", 7, writeBytes(6, 'L'))
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := stored{t, newAudited(t), fixture.Context(t)}
			test.damage(s)
			r, err := percolatortest.Audit(s.ctx, s.env.Store(), model.AuditConfig{Schema: auditSchema, Collected: test.collect})
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(r.Findings, func(f model.AuditFinding) bool { return f.Rule == test.rule && len(f.Timestamps) > 0 && f.Text != "" }) {
				t.Errorf("no finding of %q in: %s", test.rule, r)
			}
			if r.Found == 0 || !strings.Contains(r.String(), fmt.Sprintf("%d findings", r.Found)) {
				t.Errorf("the report does not tell of %d findings: %s", r.Found, r)
			}
		})
	}
}

// list has the journal list observer o of a cell as parked, as docs/internals/PROTOCOL.md describes
// it.
func (s stored) list(at percolator.Cell, through tso.Timestamp) {
	var names []byte
	for _, n := range []string{at.Table, at.Row, at.Column} {
		names = append(binary.AppendUvarint(names, uint64(len(n))), n...)
	}
	hash := sha256.Sum256(names)
	value := append(append([]byte{1}, names...), 2, '{', '}')
	s.set(percolator.Cell{Table: "percolator_journal", Row: "\x40" + string(hash[:]), Column: "parked:o"}, "journal", through, value)
}

// journal lists the rows of the journal that hold entries.
func (s stored) journal() (keys []string) {
	s.Helper()
	err := s.env.Store().Open("percolator_journal").ReadRows(s.ctx, bigtable.InfiniteRange(""), func(r bigtable.Row) bool {
		if len(r.Key()) == 25 {
			keys = append(keys, r.Key())
		}
		return true
	})
	if err != nil || len(keys) == 0 {
		s.Fatalf("%d rows of the journal hold entries: %v", len(keys), err)
	}
	return keys
}

// An entry at or below the watermark goes with the cycle of collection, unless a row that it names
// still needs it.
func TestAuditFindsEntriesLeftByCollection(t *testing.T) {
	t.Parallel()
	s := stored{t, percolatortest.New(t, auditSchema), fixture.Context(t)}
	for _, row := range []string{"r", "s", "r", "t", "r"} { // an entry each, in a row of its own
		mustSet(t, s.env.Client, "value", fixture.Cell(row, "c"))
	}
	mustSet(t, s.env.Client, "seen", fixture.Cell("r", "watched"))
	left := func() (n int) {
		r, err := percolatortest.Audit(s.ctx, s.env.Store(), model.AuditConfig{Schema: auditSchema, Collected: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range r.Findings {
			if f.Table == "percolator_journal" {
				n++
			}
		}
		return n
	}
	s.watermark(1)
	if n := left(); n != 0 {
		t.Errorf("%d rows of the journal should have gone, all of them newer than the watermark", n)
	}
	s.watermark(tso.MaxTimestamp / 2)
	rows, all := len(s.journal()), left()
	if rows != 6 || all != 2 { // the notification of r keeps whatever names r
		t.Errorf("%d of %d rows of the journal should have gone, want 2 of 6", all, rows)
	}
	s.erase(fixture.Cell("r", "watched"), "notify")
	if n := left(); n != rows {
		t.Errorf("%d of %d rows of the journal should have gone, want all", n, rows)
	}
}

// A lock without an entry is of a transaction that never commits (J8), and a journal that is being
// built leads to nothing yet.
func TestAuditToleratesLocksOfNoEntry(t *testing.T) {
	t.Parallel()
	s := stored{t, newAudited(t), fixture.Context(t)}
	s.set(fixture.Cell("z", "c"), "lock", tso.MaxTimestamp/2, lockBytes(tso.MaxTimestamp/2, fixture.Cell("z", "c")))
	if r := s.env.Audit(t); r.StrayLocks != 1 || r.Entries == 0 {
		t.Errorf("%d stray locks beside %d entries, want one", r.StrayLocks, r.Entries)
	}
	s.set(fixture.Cell("z", "watched"), "notify", tso.MaxTimestamp/2, nil)
	s.set(percolator.Cell{Table: "percolator_meta", Row: "meta", Column: "journal"}, "meta", 1, []byte(`{"Building":"b"}`))
	s.env.Audit(t)
}

// What is no fault: an acknowledged change without its notify cell, a late record, and garbage that
// has not been collected yet.
func TestAuditTolerates(t *testing.T) {
	t.Parallel()
	s := stored{t, newAudited(t), fixture.Context(t)}
	watched := fixture.Cell("r", "watched")
	n := s.newest(watched)
	s.erase(watched, "notify")
	s.set(fixture.Cell("r", "\x00ack\x00o\x00watched"), "write", n.Commit+2, writeBytes(n.Commit+1, 'L'))
	s.erase(fixture.Cell("s", "c"), "data")
	s.watermark(n.Commit)
	names := map[[2]string][]string{{"t", "watched"}: {"o"}}
	r := s.env.Audit(t, func(cfg *model.AuditConfig) { cfg.Observers = names })
	if r.LateRecords != 1 {
		t.Errorf("%d late records, want 1", r.LateRecords)
	}
	names[[2]string{"t", "watched"}] = []string{"o", "other"}
	r, err := percolatortest.Audit(s.ctx, s.env.Store(), model.AuditConfig{Schema: auditSchema, Observers: names})
	if err != nil || r.Found != 1 || r.Findings[0].Rule != model.RuleObserved {
		t.Errorf("with an observer that has not run: %v, %v", r, err)
	}
}

// A notification that a repeated request has set again for a settled change is none that is lost,
// if it is known who observes the column and all of them have run since.
func TestAuditToleratesRepeatedNotifications(t *testing.T) {
	t.Parallel()
	s := stored{t, newAudited(t), fixture.Context(t)}
	watched := fixture.Cell("z", "watched")
	at := s.newest(fixture.Cell("r", "watched")).Commit
	s.set(watched, "data", at-1, []byte("v"))
	s.set(watched, "write", at, writeBytes(at-1, 'P'))
	s.set(watched, "notify", at, nil)
	s.set(fixture.Cell("z", "\x00ack\x00o\x00watched"), "write", at+2, writeBytes(at+1, 'L'))
	s.set(fixture.Cell("z", "\x00ack\x00early\x00watched"), "write", at+3, writeBytes(at-1, 'L'))
	for _, c := range []struct {
		names           []string
		repeated, found int
	}{{nil, 0, 1}, {[]string{"o"}, 1, 0}, {[]string{"o", "other"}, 0, 1}, {[]string{"o", "early"}, 0, 1}} {
		r, err := percolatortest.Audit(s.ctx, s.env.Store(), model.AuditConfig{Schema: auditSchema, Observers: map[[2]string][]string{{"t", "watched"}: c.names}})
		fail := 0
		for _, f := range r.Findings {
			if f.Row == "z" && strings.Contains(f.Text, "leads to the notification") {
				fail++
			}
		}
		if err != nil || r.Repeated != c.repeated || fail != c.found {
			t.Errorf("observers %v: %v, %d repeated, %v", c.names, err, r.Repeated, r)
		}
	}
}
