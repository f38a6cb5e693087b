package observers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gopercolator/percolator/internal/engine/membership"
	"github.com/gopercolator/percolator/internal/scanning"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

// fakeDirectory is what percolator_meta and the oracle know of workers, in virtual time: a worker
// that has died is listed until its lease ends.
type fakeDirectory struct {
	mu      sync.Mutex
	lease   time.Duration
	expires map[string]time.Time
	infos   map[string]model.WorkerInfo
	bounds  map[string]model.TableBounds
	down    bool
	hangs   int // looks that get no answer
	looks   int
	writes  int
}

// oracleNow is virtual time, which begins before timestamps do.
func oracleNow() tso.Timestamp { return tso.At(time.Now().Add(30 * 365 * 24 * time.Hour)) }

func newFakeDirectory() *fakeDirectory {
	return &fakeDirectory{
		lease: 30 * time.Second, expires: map[string]time.Time{}, infos: map[string]model.WorkerInfo{}, bounds: map[string]model.TableBounds{},
	}
}

func (d *fakeDirectory) Workers(ctx context.Context) (membership.Workers, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.hangs > 0 {
		d.hangs--
		d.mu.Unlock()
		<-ctx.Done()
		d.mu.Lock()
		return membership.Workers{}, ctx.Err()
	}
	if d.looks++; d.down {
		return membership.Workers{}, errors.New("no answer")
	}
	seen := membership.Workers{Workers: model.Workers{Now: oracleNow(), Bounds: map[string]model.TableBounds{}}}
	for table, b := range d.bounds {
		seen.Bounds[table] = b
	}
	for name, until := range d.expires {
		if until.After(time.Now()) {
			w := d.infos[name]
			w.Expires = oracleNow().Add(time.Until(until))
			seen.Live = append(seen.Live, w)
		}
	}
	slices.SortFunc(seen.Live, func(a, b model.WorkerInfo) int { return strings.Compare(a.Name, b.Name) })
	return seen, nil
}

func (d *fakeDirectory) Register(_ context.Context, w model.WorkerInfo, _ membership.Workers) (model.WorkerInfo, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.writes++
	d.expires[w.Name], d.infos[w.Name] = time.Now().Add(d.lease), w
	w.Expires = oracleNow().Add(d.lease)
	return w, nil
}

func (d *fakeDirectory) Due(w model.WorkerInfo, seen membership.Workers) bool {
	return w.Expires.Sub(seen.Now) <= d.lease*2/3 || !slices.ContainsFunc(seen.Live, func(o model.WorkerInfo) bool { return o.Name == w.Name })
}

func (d *fakeDirectory) Deregister(_ context.Context, w model.WorkerInfo) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.expires, w.Name)
	return nil
}

func (d *fakeDirectory) SetBounds(_ context.Context, _ membership.Workers, next map[string]model.TableBounds) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.writes++
	d.bounds = next
	return true, nil
}

// do changes or reads what members use at the same time.
func (d *fakeDirectory) do(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f()
}

// partitioned is a number of members of one directory.
type partitioned struct {
	*testing.T
	directory *fakeDirectory
	members   map[string]*partition
	stops     map[string]func(died bool)
}

func newPartitioned(t *testing.T) *partitioned {
	return &partitioned{t, newFakeDirectory(), map[string]*partition{}, map[string]func(bool){}}
}

// add starts a member that takes a set of columns, and knows of tablets. Half of the columns have
// an owner, the cells of the others have one.
func (p *partitioned) add(name, columns string, tablets ...string) {
	places := scanning.NewPlaces(func(context.Context, string) ([]string, error) { return tablets, nil }, time.Now, newRandom())
	places.Pick(p.Context(), "t", percolator.All())
	m := &partition{
		directory: p.directory, places: places, tables: []string{"t"}, cannot: func(error) {},
		self: model.WorkerInfo{Name: name, Columns: columns}, owners: new(owners), unreachable: func() bool { return false },
	}
	for i := range 50 {
		c := &column{Column: Column{"t", fmt.Sprint(columns, i)}, owned: []ownership{byColumn, byCell}[i%2]}
		m.owners.columns = append(m.owners.columns, c)
	}
	p.members[name] = m
	ctx, cancel := context.WithCancel(p.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		m.run(ctx)
	}()
	p.stops[name] = func(died bool) {
		var until time.Time
		p.directory.do(func() { until = p.directory.expires[name] })
		cancel()
		<-ended
		if died { // without deregistering
			p.directory.do(func() { p.directory.expires[name] = until })
		}
		delete(p.members, name)
		delete(p.stops, name)
	}
}

func (p *partitioned) end() {
	for _, stop := range p.stops {
		stop(false)
	}
}

// made is when the bounds were made.
func (p *partitioned) made() (ts tso.Timestamp) {
	p.directory.do(func() { ts = p.directory.bounds["t"].Made })
	return ts
}

func (p *partitioned) counts() (looks, writes int) {
	p.directory.do(func() { looks, writes = p.directory.looks, p.directory.writes })
	return looks, writes
}

// hands is how many members search a row.
func (p *partitioned) hands(row string) int {
	n := 0
	for _, m := range p.members {
		if r := m.share("t"); row >= r.Start && (r.End == "" || row < r.End) {
			n++
		}
	}
	return n
}

// want checks how many members search each of many rows.
func (p *partitioned) want(when string, least, most int) {
	p.Helper()
	for i := range 1000 {
		row := fmt.Sprintf("row%03d", i)
		if n := p.hands(row); n < least || n > most {
			p.Fatalf("%s: %d members search %s, want %d to %d", when, n, row, least, most)
		}
	}
}

var sampledTablets = []string{"row100", "row200", "row300", "row400", "row500", "row600", "row700", "row800", "row900"}

// Members register, deregister and die: when all have looked, one of them searches every row. A
// dead member's rows wait for its lease to end.
func TestPartitionFollowsItsMembers(t *testing.T) {
	percolatortest.Bubble(t, func(t *testing.T) {
		p := newPartitioned(t)
		p.add("a", "x", sampledTablets...)
		synctest.Wait()
		p.want("a has just come", 1, 1)
		time.Sleep(30 * time.Second)
		p.want("a is alone", 1, 1)
		for _, name := range []string{"c", "b", "d"} {
			p.add(name, "x", sampledTablets...)
			time.Sleep(maxMembersPause)
			time.Sleep(maxMembersPause)
			p.want(name+" has come", 1, 1)
		}
		time.Sleep(maxMembersPause)
		p.want("four are there", 1, 1)
		for name, m := range p.members {
			if m.share("t") == percolator.All() {
				t.Errorf("%s searches everything", name)
			}
		}
		p.stops["c"](false)
		time.Sleep(maxMembersPause + time.Second)
		p.want("one has left", 1, 1)
		p.stops["a"](true)
		time.Sleep(p.directory.lease + maxMembersPause + time.Second)
		p.want("one has died", 1, 1)
		p.stops["b"](true)
		p.stops["d"](true)
		p.add("e", "x", sampledTablets...)
		time.Sleep(p.directory.lease + maxMembersPause + time.Second)
		p.want("a new one is alone", 1, 1)
		p.end()
	})
}

// A member that cannot read the list, or is not in it, searches everything.
func TestPartitionWithoutTheList(t *testing.T) {
	percolatortest.Bubble(t, func(t *testing.T) {
		p := newPartitioned(t)
		p.add("a", "x", sampledTablets...)
		p.add("b", "x", sampledTablets...)
		time.Sleep(30 * time.Second)
		p.want("both look", 1, 1)
		p.directory.do(func() { p.directory.down = true })
		time.Sleep(maxMembersPause + time.Second)
		p.want("nobody can look", 2, 2)
		p.directory.do(func() { p.directory.down = false })
		time.Sleep(2 * maxMembersPause)
		p.want("both look again", 1, 1)
		p.directory.do(func() { delete(p.directory.expires, "a") }) // somebody took it for dead
		time.Sleep(2*maxMembersPause + time.Second)
		p.want("a has registered itself again", 1, 1)
		p.end()
	})
}

// Two looks in a row without an answer do not cost a member its lease.
func TestPartitionSurvivesTwoLooksWithoutAnAnswer(t *testing.T) {
	percolatortest.Bubble(t, func(t *testing.T) {
		p := newPartitioned(t)
		p.add("a", "x", sampledTablets...)
		time.Sleep(time.Minute)
		left := func() (left time.Duration) {
			p.directory.do(func() { left = time.Until(p.directory.expires["a"]) })
			return left
		}
		for range 20 {
			for left() > p.directory.lease*2/3+time.Second { // until it is about to renew it
				time.Sleep(10 * time.Millisecond)
			}
			p.directory.do(func() { p.directory.hangs = 2 })
			for _, before := p.counts(); ; time.Sleep(10 * time.Millisecond) {
				if _, written := p.counts(); written > before {
					break
				}
				if left() <= 0 {
					t.Fatal("the lease has run out")
				}
			}
		}
		p.end()
	})
}

// Two such looks do not either when the first of them is as late as it can be: the last one before
// it came when the lease was not quite due, because other members had come since.
func TestPartitionSurvivesTwoLateLooksWithoutAnAnswer(t *testing.T) {
	percolatortest.Bubble(t, func(t *testing.T) {
		p := newPartitioned(t)
		p.add("a", "x")
		time.Sleep(time.Minute)
		state := func() (written int, left time.Duration) {
			p.directory.do(func() { written, left = p.directory.writes, time.Until(p.directory.expires["a"]) })
			return written, left
		}
		renewal := func() {
			for before, _ := state(); ; time.Sleep(time.Millisecond) {
				if written, left := state(); written > before {
					return
				} else if left < time.Second { // real requests take time, and clocks differ
					t.Fatalf("the lease has %v left", left)
				}
			}
		}
		join := func(name string) {
			p.directory.do(func() {
				p.directory.expires[name], p.directory.infos[name] = time.Now().Add(time.Hour), model.WorkerInfo{Name: name, Columns: "y"}
			})
		}
		renewal()
		join("b")
		renewal()
		for _, name := range []string{"c", "d"} { // the looks after one and two seconds see one more each
			join(name)
			time.Sleep(minMembersPause + 10*time.Millisecond)
		}
		for _, left := state(); left > p.directory.lease*2/3; _, left = state() {
			time.Sleep(time.Millisecond)
		}
		p.directory.do(func() { p.directory.hangs = 2 })
		renewal()
		p.end()
	})
}

// Members that take other columns leave nothing to each other.
func TestPartitionIsAmongThoseWithTheSameColumns(t *testing.T) {
	percolatortest.Bubble(t, func(t *testing.T) {
		p := newPartitioned(t)
		p.add("a", "x", sampledTablets...)
		p.add("b", "y", sampledTablets...)
		p.add("c", "x", sampledTablets...)
		p.add("d", "y", sampledTablets...)
		time.Sleep(30 * time.Second)
		p.want("two of each", 2, 2)
		p.end()
	})
}

// A table with few tablets is searched by everybody until somebody knows where its rows are, and
// again for a while once that is long ago.
func TestPartitionLearnsWhereRowsAre(t *testing.T) {
	percolatortest.Bubble(t, func(t *testing.T) {
		p := newPartitioned(t)
		p.add("a", "x")
		p.add("b", "x")
		meet := func(m *partition) {
			for i := range 1000 {
				m.places.Met("t", fmt.Sprintf("row%03d", i))
			}
		}
		time.Sleep(30 * time.Second)
		p.want("nobody knows", 2, 2)
		meet(p.members["b"])
		time.Sleep(2*maxMembersPause + time.Second)
		p.want("b knows", 1, 1)
		time.Sleep(boundsFor)
		p.want("that was long ago", 2, 2)
		meet(p.members["a"])
		time.Sleep(2*maxMembersPause + time.Second)
		p.want("a knows", 1, 1)
		p.end()
	})
}

// Tablets are looked at again before what is known of them is too old.
func TestPartitionRenewsTablets(t *testing.T) {
	percolatortest.Bubble(t, func(t *testing.T) {
		p := newPartitioned(t)
		p.add("a", "x", sampledTablets...)
		p.add("b", "x", sampledTablets...)
		time.Sleep(30 * time.Second)
		made := p.made()
		for range 180 {
			time.Sleep(10 * time.Second)
			p.want("half an hour", 1, 1)
		}
		if p.made() == made {
			t.Error("the bounds were never renewed")
		}
		p.end()
	})
}

// What a member costs when nothing changes: six looks a minute, and a renewal when a third of its
// lease has passed.
func TestPartitionIdleCost(t *testing.T) {
	percolatortest.Bubble(t, func(t *testing.T) {
		p := newPartitioned(t)
		p.directory.lease = 5 * time.Minute // with a session
		p.add("a", "x", sampledTablets...)
		time.Sleep(time.Minute)
		const minutes = 60
		looks, writes := p.counts()
		time.Sleep(minutes * time.Minute)
		// A change of the bounds, every 7.5 minutes, has it look more often for some seconds.
		looksNow, writesNow := p.counts()
		if n := looksNow - looks; n > 6*minutes+8*5 {
			t.Errorf("%d looks in %d minutes", n, minutes)
		}
		if n := writesNow - writes; n > minutes*60/100+minutes/7+1 {
			t.Errorf("%d writes in %d minutes", n, minutes)
		}
		p.end()
	})
}

// TestBoundsOfOtherTablesStay: workers that take columns of different tables share the row of
// bounds. If each kept only those of its own tables, they would keep erasing each other's.
func TestBoundsOfOtherTablesStay(t *testing.T) {
	percolatortest.Bubble(t, func(t *testing.T) {
		d := newFakeDirectory()
		tablets := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i"}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{}, 2)
		for _, table := range []string{"t", "u"} {
			places := scanning.NewPlaces(func(context.Context, string) ([]string, error) { return tablets, nil }, time.Now, newRandom())
			places.Pick(t.Context(), table, percolator.All())
			m := &partition{
				directory: d, places: places, tables: []string{table}, owners: new(owners), unreachable: func() bool { return false }, cannot: func(error) {},
				self: model.WorkerInfo{Name: "worker-" + table, Columns: "of " + table},
			}
			go func() { m.run(ctx); ended <- struct{}{} }()
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		d.mu.Lock()
		looks, writes, bounds := d.looks, d.writes, len(d.bounds)
		d.mu.Unlock()
		time.Sleep(time.Minute)
		synctest.Wait()
		d.mu.Lock()
		looks, writes = d.looks-looks, d.writes-writes
		d.mu.Unlock()
		cancel()
		<-ended
		<-ended
		if bounds != 2 {
			t.Errorf("%d tables have bounds, of 2", bounds)
		}
		// docs: six looks a minute for each, and at most six writes a minute without sessions.
		if looks > 14 || writes > 14 {
			t.Errorf("%d looks and %d writes in a minute of two workers of which nothing changes", looks, writes)
		}
	})
}

// TestRegisteredColumns: a worker registers the columns it takes as bytes, and none rather than
// some.
func TestRegisteredColumns(t *testing.T) {
	t.Parallel()
	of := func(names ...string) model.WorkerInfo {
		c := &coverage{taken: map[Column]*column{}}
		for _, n := range names {
			c.taken[Column{"docs", n}] = &column{}
		}
		return model.WorkerInfo{Takes: c.registeredColumns()}
	}
	w := of("in", "\xff")
	for column, want := range map[string]bool{"in": true, "\xff": true, "out": false} {
		if takes, known := w.TakesColumn("docs", column); takes != want || !known {
			t.Errorf("column %q: takes %v, known %v", column, takes, known)
		}
	}
	if takes, _ := w.TakesColumn("other", "in"); takes {
		t.Error("it takes a column of another table")
	}
	if takes, known := of("in", strings.Repeat("x", registeredBytes)).TakesColumn("docs", "in"); takes || known {
		t.Error("what does not fit is registered in part")
	}
}
