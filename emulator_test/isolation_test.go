package emulator_test

import (
	"errors"
	"testing"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// The anomalies of Adya's and Berenson's definitions, one script each, in the manner of the
// Hermitage suite. Section 2.2 of the paper promises snapshot isolation: everything below is
// prevented, except write skew.

// G0, write cycles: of two transactions that write x and y, one does not commit, and the rows never
// mix.
func TestG0(t *testing.T) {
	t.Run("in turns", func(t *testing.T) {
		s := newScript(t)
		t1, t2 := s.begin("T1"), s.begin("T2")
		t1.set("x", "11")
		t2.set("x", "12")
		t1.set("y", "21")
		t1.commits()
		t2.set("y", "22")
		t2.conflicts()
		s.finally("x=11", "y=21")
	})
	t.Run("both committing", func(t *testing.T) {
		s := newScript(t)
		t1, t2 := s.begin("T1"), s.begin("T2")
		t1.set("x", "11")
		t1.set("y", "21")
		t2.set("y", "22") // the other way round: each would overwrite half of the other
		t2.set("x", "12")
		point := t1.holdsCommitPoint("x")
		committing := t1.startCommit()
		point.Wait(t, 1)
		t2.conflicts() // with T1's locks
		point.Release()
		if err := committing.result(); err != nil {
			t.Errorf("T1 commits: %v", err)
		}
		s.finally("x=11", "y=21")
	})
}

// G1a, aborted reads: nobody reads what a transaction wrote that did not commit.
func TestG1a(t *testing.T) {
	t.Run("rolled back", func(t *testing.T) {
		s := newScript(t)
		t1, t2 := s.begin("T1"), s.begin("T2")
		t1.set("x", "101")
		t2.reads("x", "10")
		t1.rollsBack()
		t2.reads("x", "10")
		t2.commits()
		s.finally("x=10", "y=20")
	})
	t.Run("aborted after its prewrite", func(t *testing.T) {
		s := newScript(t)
		t1, t2 := s.begin("T1"), s.begin("T2")
		t1.set("x", "101")
		t1.set("y", "201")
		t2.set("y", "21")
		t2.commits() // so T1 conflicts on y, having prewritten x
		cleaning := t1.holds("x", "", "lock")
		committing := t1.startCommit()
		cleaning.Wait(t, 1)

		t3 := s.begin("T3") // it meets T1's lock on x
		looked := percolatortest.NewHold()
		t3.faults.Handle(func(percolatortest.Request) percolatortest.Action { return looked.Copy() })
		reading := t3.startGet("x")
		looked.Wait(t, 1)
		cleaning.Release()
		if got := reading.result(); got != "x = 10" {
			t.Errorf("T3 reads %s, want x = 10", got)
		}
		if err := committing.result(); !errors.Is(err, percolator.ErrConflict) {
			t.Errorf("T1 commits: %v, want ErrConflict", err)
		}
		s.finally("x=10", "y=21")
	})
}

// G1b, intermediate reads: nobody reads a value that its writer replaced before it committed.
func TestG1b(t *testing.T) {
	s := newScript(t)
	t1, t2, t3 := s.begin("T1"), s.begin("T2"), s.begin("T3")
	t1.set("x", "101")
	t2.reads("x", "10")
	t1.set("x", "11")
	t1.reads("x", "11")
	t1.commits()
	t2.reads("x", "10")
	t3.reads("x", "10")
	t2.commits()
	s.finally("x=11", "y=20")
}

// G1c, circular information flow: of two transactions neither reads what the other one is about to
// commit.
func TestG1c(t *testing.T) {
	s := newScript(t)
	t1, t2 := s.begin("T1"), s.begin("T2")
	t1.set("x", "11")
	t2.set("y", "22")
	t1.reads("y", "20")
	t2.reads("x", "10")
	t1.commits()
	t2.reads("x", "10")
	t2.commits()
	s.finally("x=11", "y=22")
}

// OTV, observed transaction vanishes: who has seen one write of a transaction sees all of them,
// until the end.
func TestOTV(t *testing.T) {
	t.Run("the writer conflicts", func(t *testing.T) {
		s := newScript(t)
		t1, t2 := s.begin("T1"), s.begin("T2")
		t1.set("x", "11")
		t1.set("y", "19")
		t2.set("x", "12")
		t1.commits()
		t3 := s.begin("T3")
		t3.reads("x", "11")
		t2.set("y", "18")
		t2.conflicts()
		t3.reads("y", "19")
		t3.reads("x", "11")
		t3.commits()
		s.finally("x=11", "y=19")
	})
	t.Run("the writer commits", func(t *testing.T) {
		s := newScript(t)
		t1 := s.begin("T1")
		t1.set("x", "11")
		t1.set("y", "19")
		t1.commits()
		t2, t3 := s.begin("T2"), s.begin("T3")
		t3.reads("x", "11")
		t2.set("x", "12")
		t2.set("y", "18")
		t2.commits()
		t2.flushes()
		t3.reads("y", "19")
		t3.reads("x", "11")
		s.finally("x=12", "y=18")
	})
	t.Run("seen before its secondaries", func(t *testing.T) {
		s := newScript(t)
		t1 := s.begin("T1")
		t1.set("x", "11")
		t1.set("y", "19")
		secondary := t1.holds("y", "write", "")
		t1.commits()
		secondary.Wait(t, 1)
		t2 := s.begin("T2")
		t2.reads("x", "11")
		t2.reads("y", "19") // rolled forward by the reader
		secondary.Release()
		t2.reads("y", "19")
		s.finally("x=11", "y=19")
	})
}

// PMP, predicate-many-preceders: what a search finds does not change under the transaction, whether
// it reads or writes.
func TestPMP(t *testing.T) {
	t.Run("read", func(t *testing.T) {
		s := newScript(t)
		t1, t2 := s.begin("T1"), s.begin("T2")
		t1.finds([]string{"30"})
		t2.set("z", "30")
		t2.commits()
		t1.finds([]string{"30", "42"})
		s.begin("T3").finds([]string{"30"}, "z")
	})
	t.Run("write", func(t *testing.T) {
		s := newScript(t)
		t1, t2 := s.begin("T1"), s.begin("T2")
		t1.set("x", "20")
		t1.set("y", "30")
		t2.finds([]string{"20"}, "y")
		t2.deletes("y")
		t1.commits()
		t2.finds([]string{"20"})
		t2.conflicts()
		s.finally("x=20", "y=30")
	})
}

// P4, lost update: of two transactions that read x and then write it, one does not commit.
func TestLostUpdate(t *testing.T) {
	s := newScript(t)
	t1, t2 := s.begin("T1"), s.begin("T2")
	t1.reads("x", "10")
	t2.reads("x", "10")
	t1.set("x", "11")
	t2.set("x", "11") // the same value conflicts all the same
	t1.commits()
	t2.conflicts()
	s.finally("x=11", "y=20")
}

// G-single, read skew: a transaction does not see x from before and y from after another one.
func TestReadSkew(t *testing.T) {
	t.Run("read", func(t *testing.T) {
		s := newScript(t)
		t1, t2 := s.begin("T1"), s.begin("T2")
		t1.reads("x", "10")
		t2.reads("x", "10")
		t2.reads("y", "20")
		t2.set("x", "12")
		t2.set("y", "18")
		t2.commits()
		t2.flushes()
		t1.reads("y", "20")
		t1.commits()
		s.finally("x=12", "y=18")
	})
	t.Run("search", func(t *testing.T) {
		s := newScript(t)
		t1, t2 := s.begin("T1"), s.begin("T2")
		t1.finds([]string{"10", "20"}, "x", "y")
		t2.set("x", "12")
		t2.commits()
		t1.finds([]string{"10", "20"}, "x", "y")
		t1.finds([]string{"12"})
	})
	t.Run("write", func(t *testing.T) {
		s := newScript(t)
		t1, t2 := s.begin("T1"), s.begin("T2")
		t1.reads("x", "10")
		t2.set("x", "12")
		t2.set("y", "18")
		t2.commits()
		t1.finds([]string{"20"}, "y")
		t1.deletes("y")
		t1.conflicts()
		s.finally("x=12", "y=18")
	})
	t.Run("commit point passed during the read", func(t *testing.T) {
		s := newScript(t)
		t2 := s.begin("T2")
		t2.set("x", "12")
		t2.set("y", "18")
		point := t2.holdsCommitPoint("x")
		committing := t2.startCommit()
		point.Wait(t, 1) // T2 has its commit timestamp
		t1 := s.begin("T1")
		looked := percolatortest.NewHold()
		t1.faults.Handle(func(percolatortest.Request) percolatortest.Action { return looked.Copy() })
		reading := t1.startGet("y")
		looked.Wait(t, 2) // y, then the primary
		reading.stillGoesOn()
		point.Release()
		if err := committing.result(); err != nil {
			t.Errorf("T2 commits: %v", err)
		}
		if got := reading.result(); got != "y = 18" {
			t.Errorf("T1 reads %s, want y = 18", got)
		}
		t1.reads("x", "12")
	})
}

// Long fork: two readers do not see two independent writes in different orders.
func TestLongFork(t *testing.T) {
	t.Run("in turns", func(t *testing.T) {
		s := newScript(t)
		t1, t2 := s.begin("T1"), s.begin("T2")
		t1.set("x", "11")
		t2.set("y", "21")
		t1.commits()
		t3 := s.begin("T3")
		t2.commits()
		t4 := s.begin("T4")
		t4.reads("y", "21")
		t4.reads("x", "11")
		t3.reads("x", "11")
		t3.reads("y", "20")
		s.finally("x=11", "y=21")
	})
	t.Run("one committing", func(t *testing.T) {
		s := newScript(t)
		t1, t2 := s.begin("T1"), s.begin("T2")
		t1.set("x", "11")
		t2.set("y", "21")
		point := t2.holdsCommitPoint("y")
		committing := t2.startCommit()
		point.Wait(t, 1) // T2 has its commit timestamp, and nobody sees its write yet
		t4 := s.begin("T4")
		t1.commits()
		t3 := s.begin("T3")
		// T4 is going to see T2 without T1. So T3, which sees T1, must not be told that y is still
		// 20.
		t3.reads("x", "11")
		looked := percolatortest.NewHold()
		t3.faults.Handle(func(percolatortest.Request) percolatortest.Action { return looked.Copy() })
		reading := t3.startGet("y")
		looked.Wait(t, 2) // y, then the primary
		reading.stillGoesOn()
		point.Release()
		if err := committing.result(); err != nil {
			t.Errorf("T2 commits: %v", err)
		}
		if got := reading.result(); got != "y = 21" {
			t.Errorf("T3 reads %s, want y = 21", got)
		}
		t4.reads("x", "10")
		t4.reads("y", "21")
		s.finally("x=11", "y=21")
	})
}

// G2-item, write skew: snapshot isolation allows it, both commit. GetForUpdate prevents it.
func TestWriteSkew(t *testing.T) {
	t.Run("allowed", func(t *testing.T) {
		s := newScript(t)
		t1, t2 := s.begin("T1"), s.begin("T2")
		for _, x := range []*session{t1, t2} {
			x.reads("x", "10")
			x.reads("y", "20")
		}
		t1.set("x", "11")
		t2.set("y", "21")
		t1.commits()
		t2.commits()
		s.finally("x=11", "y=21")
	})
	t.Run("prevented by GetForUpdate", func(t *testing.T) {
		s := newScript(t)
		t1, t2 := s.begin("T1"), s.begin("T2")
		t1.reads("x", "10")
		t1.readsForUpdate("y", "20")
		t2.readsForUpdate("x", "10")
		t2.reads("y", "20")
		t1.set("x", "11")
		t2.set("y", "21")
		t1.commits()
		t2.conflicts()
		s.finally("x=11", "y=20")
	})
}
