package emulator_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// newIndexedScript is newScript with an index over the values.
func newIndexedScript(t *testing.T) *script {
	t.Helper()
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	indexed := &percolator.Schema{Tables: []percolator.Table{{Name: table, Indexes: []percolator.Index{{Name: "values", Column: column}}}}}
	s := &script{T: t, ctx: ctx, env: percolatortest.New(t, indexed, percolatortest.Address(storeAddr))}
	setup := s.begin("setup")
	setup.set("x", "10")
	setup.set("y", "20")
	setup.commits()
	setup.flushes()
	return s
}

// beginLockingReads starts a transaction of a new client whose whole read set conflicts.
func (s *script) beginLockingReads(name string) *session {
	s.Helper()
	c := s.env.NewClient(percolatortest.Name(name))
	tx, err := c.Begin(s.ctx, percolator.LockReads())
	if err != nil {
		s.Fatalf("%s: begin: %v", name, err)
	}
	return &session{script: s, name: name, client: c, faults: s.env.FaultsOf(c), tx: tx}
}

// readSet is one way to read x and y.
type readSet struct {
	name string
	read func(x *session) (map[string]string, error)
}

var readSets = []readSet{
	{"Get", func(x *session) (map[string]string, error) {
		found := map[string]string{}
		for _, row := range []string{"x", "y"} {
			v, err := x.get(row)
			if err != nil {
				return nil, err
			}
			found[row] = v
		}
		return found, nil
	}},
	{"GetMulti", func(x *session) (map[string]string, error) {
		values, err := x.tx.GetMulti(x.ctx, cell("x"), cell("y"))
		if err != nil {
			return nil, err
		}
		return map[string]string{"x": string(values[0]), "y": string(values[1])}, nil
	}},
	{"Scan", func(x *session) (map[string]string, error) {
		return gather(x.tx.Scan(x.ctx, table, percolator.All()))
	}},
	{"Scan of a range and a column", func(x *session) (map[string]string, error) {
		return gather(x.tx.Scan(x.ctx, table, percolator.Between("x", "z"), column))
	}},
	{"ScanIndex", func(x *session) (map[string]string, error) {
		return gather(x.tx.ScanIndex(x.ctx, table, "values", percolator.Between("0", "9")))
	}},
}

func gather(entries func(func(percolator.Entry, error) bool)) (map[string]string, error) {
	found := map[string]string{}
	for e, err := range entries {
		if err != nil {
			return nil, err
		}
		found[e.Cell.Row] = string(e.Value)
	}
	return found, nil
}

func (x *session) readsBy(how readSet, want map[string]string) {
	x.Helper()
	if got, err := how.read(x); err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		x.Errorf("%s reads by %s %v, %v, want %v", x.name, how.name, got, err, want)
	}
}

// G2-item, write skew, by every way to read: allowed without LockReads, prevented with it, whoever
// of the two has it.
func TestWriteSkewOfReadSets(t *testing.T) {
	fixture.Long(t)
	both := map[string]string{"x": "10", "y": "20"}
	for _, how := range readSets {
		t.Run(how.name, func(t *testing.T) {
			t.Run("allowed", func(t *testing.T) {
				s := newIndexedScript(t)
				t1, t2 := s.begin("T1"), s.begin("T2")
				t1.readsBy(how, both)
				t2.readsBy(how, both)
				t1.set("x", "11")
				t2.set("y", "21")
				t1.commits()
				t2.commits()
				s.finally("x=11", "y=21")
			})
			t.Run("prevented", func(t *testing.T) {
				s := newIndexedScript(t)
				t1, t2 := s.beginLockingReads("T1"), s.beginLockingReads("T2")
				t1.readsBy(how, both)
				t2.readsBy(how, both)
				t1.set("x", "11")
				t2.set("y", "21")
				t1.commits()
				t2.conflicts()
				s.finally("x=11", "y=20")
			})
			t.Run("prevented by the second", func(t *testing.T) {
				s := newIndexedScript(t)
				t1, t2 := s.begin("T1"), s.beginLockingReads("T2")
				t1.readsBy(how, both)
				t2.readsBy(how, both)
				t1.set("x", "11")
				t2.set("y", "21")
				t1.commits()
				t2.conflicts() // it read x
				s.finally("x=11", "y=20")
			})
			t.Run("prevented by the first", func(t *testing.T) {
				s := newIndexedScript(t)
				t1, t2 := s.beginLockingReads("T1"), s.begin("T2")
				t1.readsBy(how, both)
				t2.readsBy(how, both)
				t1.set("x", "11")
				t2.set("y", "21")
				t1.commits()
				t2.conflicts() // T1 read y
				s.finally("x=11", "y=20")
			})
			t.Run("prevented while both commit", func(t *testing.T) {
				s := newIndexedScript(t)
				t1, t2 := s.beginLockingReads("T1"), s.beginLockingReads("T2")
				t1.readsBy(how, both)
				t2.readsBy(how, both)
				t1.set("x", "11")
				t2.set("y", "21")
				point := t1.holdsCommits()
				committing := t1.startCommit()
				point.Wait(t, 1)
				other := t2.startCommit() // with T1's locks in its way; it may wait for them, as it looks up what its index entries replace
				point.Release()
				if err := committing.result(); err != nil {
					t.Errorf("T1 commits: %v", err)
				}
				if err := other.result(); !errors.Is(err, percolator.ErrConflict) {
					t.Errorf("T2 commits: %v, want ErrConflict", err)
				}
				s.finally("x=11", "y=20")
			})
		})
	}
}

// holdsCommits stops the transaction before its commit point, whichever cell is the primary.
func (x *session) holdsCommits() *percolatortest.Hold {
	h := percolatortest.NewHold()
	x.faults.Handle(func(r percolatortest.Request) percolatortest.Action {
		if r.Sets("write") {
			return h
		}
		return percolatortest.Pass
	})
	return h
}

// The doctors on call: the one may leave only while the other stays. x and y are the doctors, "10"
// and "20" their shifts, "off" is off.
func TestDoctorsOnCall(t *testing.T) {
	leave := func(x *session, how readSet, who string) {
		x.Helper()
		found, err := how.read(x)
		if err != nil {
			x.Errorf("%s: %v", x.name, err)
		}
		for other, shift := range found {
			if other != who && shift != "off" {
				x.set(who, "off")
				return
			}
		}
	}
	for _, how := range readSets {
		t.Run(how.name, func(t *testing.T) {
			t.Run("both leave", func(t *testing.T) {
				s := newIndexedScript(t)
				t1, t2 := s.begin("T1"), s.begin("T2")
				leave(t1, how, "x")
				leave(t2, how, "y")
				t1.commits()
				t2.commits()
				s.finally("x=off", "y=off")
			})
			t.Run("one stays", func(t *testing.T) {
				s := newIndexedScript(t)
				t1, t2 := s.beginLockingReads("T1"), s.beginLockingReads("T2")
				leave(t1, how, "x")
				leave(t2, how, "y")
				t1.commits()
				t2.conflicts()
				again := s.beginLockingReads("T2 again")
				leave(again, how, "y")
				again.commits()
				s.finally("x=off", "y=20")
			})
		})
	}
}

// G2 with predicates is not prevented: what a search did not find was not read. Both transactions
// find nothing and add what the other one searched for. Reading a cell that everybody who adds
// writes makes them conflict.
func TestPhantomsAreAllowed(t *testing.T) {
	searches := map[string]func(x *session) (map[string]string, error){
		"Scan": func(x *session) (map[string]string, error) {
			return gather(x.tx.Scan(x.ctx, table, percolator.Prefix("z")))
		},
		"ScanIndex": func(x *session) (map[string]string, error) {
			return gather(x.tx.ScanIndex(x.ctx, table, "values", percolator.Prefix("3")))
		},
	}
	for name, search := range searches {
		for _, guarded := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, guarded %v", name, guarded), func(t *testing.T) {
				s := newIndexedScript(t)
				t1, t2 := s.beginLockingReads("T1"), s.beginLockingReads("T2")
				for i, x := range []*session{t1, t2} {
					if found, err := search(x); err != nil || len(found) != 0 {
						t.Errorf("%s finds %v, %v", x.name, found, err)
					}
					if guarded {
						x.reads("guard", "")
						x.set("guard", x.name)
					}
					x.set(fmt.Sprint("z", i), "30")
				}
				t1.commits()
				_, err := t2.tx.Commit(t2.ctx)
				if errors.Is(err, percolator.ErrConflict) != guarded || err != nil && !guarded {
					t.Errorf("T2 commits: %v, guarded %v", err, guarded)
				}
			})
		}
	}
}
