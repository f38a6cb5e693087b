package observers

import (
	"testing"
	"testing/synctest"
	"time"
)

// ownedBy returns the members that own each column.
func (p *partitioned) ownedBy() map[Column][]string {
	by := map[Column][]string{}
	for name, m := range p.members {
		for _, c := range m.owners.columns {
			if !c.elsewhere.Load() {
				by[c.Column] = append(by[c.Column], name)
			}
		}
	}
	return by
}

// When all have looked, each column has one owner, and only those of members that came or left have
// moved.
func TestColumnsHaveOneOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPartitioned(t)
		defer p.end()
		before := map[Column][]string{}
		settled := func(when, changed string) {
			t.Helper()
			time.Sleep(2 * maxMembersPause)
			now, share := p.ownedBy(), map[string]int{}
			for c, owners := range now {
				if len(owners) != 1 {
					t.Fatalf("%s: %q owned by %v", when, c.Name, owners)
				}
				share[owners[0]]++
				if old := before[c]; old != nil && old[0] != owners[0] && old[0] != changed && owners[0] != changed {
					t.Errorf("%s: %q moved from %s to %s", when, c.Name, old[0], owners[0])
				}
			}
			for name := range p.members {
				if share[name] == 0 {
					t.Errorf("%s: %s owns nothing", when, name)
				}
			}
			before = now
		}
		for _, name := range []string{"a", "b", "c"} {
			p.add(name, "x")
			settled(name+" has come", name)
		}
		p.add("other", "y")
		settled("one with other columns has come", "other")
		p.stops["b"](false)
		settled("b has left", "b")
		p.stops["a"](true)
		time.Sleep(p.directory.lease)
		settled("a has died", "a")
		p.directory.do(func() { p.directory.down = true })
		time.Sleep(2 * maxMembersPause)
		for name, m := range p.members {
			for _, c := range m.owners.columns {
				if c.elsewhere.Load() {
					t.Errorf("%s leaves %q to others without knowing them", name, c.Name)
				}
			}
		}
	})
}

// A question for hints ends when a column moves.
func TestQuestionsEndWhenColumnsMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPartitioned(t)
		defer p.end()
		p.add("a", "x")
		time.Sleep(maxMembersPause)
		asking, stop := p.members["a"].owners.untilMoved(t.Context())
		defer stop()
		time.Sleep(time.Minute)
		if asking.Err() != nil {
			t.Fatal("it has ended, though nothing moved")
		}
		p.add("b", "x")
		time.Sleep(2 * maxMembersPause)
		if asking.Err() == nil {
			t.Fatal("it goes on")
		}
	})
}
