package observers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gopercolator/percolator/internal/engine/membership"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// ownedCells are 500 cells of columns whose cells have owners, 20 of each column.
const ownedCells = 20

// views returns what each of the members that share a set of columns takes for the owner of a
// column, or of a cell. "": it runs that itself, without regard to others.
func (p *partitioned) views(set string) map[string]map[string]string {
	views := map[string]map[string]string{}
	for name, m := range p.members {
		if m.self.Columns != set {
			continue
		}
		of := map[string]string{}
		for _, c := range m.owners.columns {
			if c.owned == byColumn {
				of[c.Name] = m.owners.of(c, "")
				continue
			}
			for i := range ownedCells {
				row := fmt.Sprint("row", i)
				of[c.Name+" of "+row] = m.owners.of(c, row)
			}
		}
		views[name] = of
	}
	return views
}

// agreed returns the owners of all columns and cells of a set. It requires that the members which
// share the set see the same, and give everything to one of them.
func (p *partitioned) agreed(when, set string) map[string]string {
	p.Helper()
	views := p.views(set)
	peers := slices.Sorted(maps.Keys(views))
	first := views[peers[0]]
	if len(first) != 25+25*ownedCells {
		p.Fatalf("%s: the test looks at %d columns and cells", when, len(first))
	}
	for what, owner := range first {
		switch {
		case len(peers) == 1 && owner != "":
			p.Errorf("%s: %s alone leaves %s to %q", when, peers[0], what, owner)
		case len(peers) > 1 && !slices.Contains(peers, owner):
			p.Errorf("%s: %s takes %q for the owner of %s", when, peers[0], owner, what)
		}
		for _, other := range peers[1:] {
			if views[other][what] != owner {
				p.Errorf("%s: %s takes %q for the owner of %s, %s takes %q", when, peers[0], owner, what, other, views[other][what])
			}
		}
	}
	return first
}

// isCell tells cells from columns in views.
func isCell(what string) bool { return len(what) > 5 }

// settle waits until all members have looked.
func (p *partitioned) settle() {
	time.Sleep(2 * maxMembersPause)
	synctest.Wait()
}

// When all have looked, each column and each cell has one owner, on which all agree. Cells move
// only from a member that has left, or to one that has come. A member with other columns takes
// nothing, and without the directory nobody leaves anything to others.
func TestColumnsAndCellsHaveOneOwner(t *testing.T) {
	percolatortest.Bubble(t, func(t *testing.T) {
		p := newPartitioned(t)
		defer p.end()
		var before map[string]string
		changed := func(when, who string) {
			t.Helper()
			p.settle()
			now, cells := p.agreed(when, "x"), map[string]int{}
			for what, owner := range now {
				if !isCell(what) {
					continue
				}
				cells[owner]++
				if old := before[what]; old != "" && owner != "" && old != owner && old != who && owner != who {
					t.Errorf("%s: %s moved from %s to %s", when, what, old, owner)
				}
			}
			for owner, n := range cells {
				if even := 25 * ownedCells / len(cells); n < even/2 || n > 2*even {
					t.Errorf("%s: %q has %d cells, an even share is %d", when, owner, n, even)
				}
			}
			before = now
		}
		for _, name := range []string{"a", "b", "c", "d"} {
			p.add(name, "x")
			changed(name+" has come", name)
		}
		p.add("other", "y")
		changed("one with other columns has come", "")
		p.agreed("it is alone", "y")
		p.add("another", "y")
		changed("there are two with other columns", "")
		p.agreed("there are two", "y")
		p.stops["b"](false)
		changed("b has left", "b")
		p.stops["a"](true)
		time.Sleep(p.directory.lease)
		changed("a has died", "a")
		p.directory.do(func() { p.directory.down = true })
		p.settle()
		for _, set := range []string{"x", "y"} {
			for name, of := range p.views(set) {
				for what, owner := range of {
					if owner != "" {
						t.Errorf("%s leaves %s to %s, without knowing that it lives", name, what, owner)
					}
				}
			}
		}
	})
}

// The columns that have an owner are divided evenly: no member has two more than another.
func TestColumnsAreDividedEvenly(t *testing.T) {
	percolatortest.Bubble(t, func(t *testing.T) {
		p := newPartitioned(t)
		defer p.end()
		for _, name := range []string{"a", "b", "c", "d", "e", "f", "g"} {
			p.add(name, "x")
			p.settle()
			if len(p.members) == 1 {
				continue
			}
			has := map[string]int{}
			for member := range p.members {
				has[member] = 0
			}
			for what, owner := range p.agreed(name+" has come", "x") {
				if !isCell(what) {
					has[owner]++
				}
			}
			shares := slices.Collect(maps.Values(has))
			if slices.Max(shares)-slices.Min(shares) > 1 {
				t.Errorf("%d members have %v", len(has), has)
			}
		}
	})
}

// failingRegister fails a number of writes as membership.Register does: it returns what it would
// have told, with the new lease.
type failingRegister struct {
	*fakeDirectory
	fail int
}

func (d *failingRegister) Register(ctx context.Context, w model.WorkerInfo, seen membership.Workers) (model.WorkerInfo, error) {
	if d.fail > 0 {
		d.fail--
		w.Expires = oracleNow().Add(d.lease)
		return w, errors.New("the list cannot be written")
	}
	return d.fakeDirectory.Register(ctx, w, seen)
}

// A worker that has become unreachable says so, even if its first attempt fails.
func TestDeafWorkerSaysSoAgain(t *testing.T) {
	d := &failingRegister{fakeDirectory: newFakeDirectory()}
	unreachable := false
	m := &partition{
		directory: d, cannot: func(error) {}, self: model.WorkerInfo{Name: "a"}, owners: new(owners),
		unreachable: func() bool { return unreachable },
	}
	m.owners.columns = []*column{{Column: Column{"t", "c"}, owned: byCell}}
	look := func() error { _, err := m.look(t.Context()); return err }
	if err := look(); err != nil {
		t.Fatal(err)
	}
	unreachable, d.fail = true, 1
	if err := look(); err == nil {
		t.Fatal("the write has not failed")
	}
	for range 5 {
		if err := look(); err != nil {
			t.Fatal(err)
		}
	}
	seen, err := d.Workers(t.Context())
	if err != nil || len(seen.Live) != 1 {
		t.Fatal(seen, err)
	}
	if seen.Live[0].Owns != "" {
		t.Errorf("after 5 looks the others still take the unreachable worker for an owner: %q", seen.Live[0].Owns)
	}
}
