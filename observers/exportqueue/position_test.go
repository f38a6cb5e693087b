package exportqueue_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/observers/exportqueue"
	"github.com/gopercolator/percolator/observers/internal/sliced"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
)

// beyond is further back than any transaction of the tests' clients can write: half the retention,
// a request lifetime, and what a position may lie back.
const beyond = 32 * time.Minute

// searches records where the searches of a client begin.
type searches struct {
	mu   sync.Mutex
	from []string
}

// watch records what c reads from now on.
func (e *env) watch(c *percolator.Client) *searches {
	s := &searches{}
	e.FaultsOf(c).Handle(func(r percolatortest.Request) percolatortest.Action {
		if r.Method == percolatortest.ReadRows && r.Rows == 0 && r.Table == "exports" {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.from = append(s.from, r.Row)
		}
		return percolatortest.Pass
	})
	return s
}

// lowest returns where the lowest search since the last call began.
func (s *searches) lowest() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	from := s.from
	s.from = nil
	return slices.Min(from)
}

// addAt commits one entry and returns the row of its slice.
func (e *env) addAt(key, value string) (slice string) {
	e.Helper()
	tx := e.begin(e.client)
	e.queueIn(tx, key, value)
	e.commit(tx)
	return sliced.Row(0, tx.StartTimestamp())
}

// run makes one run for the notification of a slice, as a worker does: after the commit it erases
// the notification.
func (e *env) run(searcher *percolator.Client, slice string, to *receiver) {
	e.Helper()
	tx := e.begin(e.client)
	notified, err := e.queue.Run(e.ctx, searcher, tx, 0, slice, to.deliver)
	if err != nil {
		e.Fatal(err)
	}
	e.commit(tx)
	e.erase(notified, tx.StartTimestamp())
}

func (e *env) erase(notified percolator.Cell, upTo tso.Timestamp) {
	e.Helper()
	if err := errors.Join(admin.New(e.client).ClearNotification(e.ctx, notified, upTo), e.client.Flush(e.ctx)); err != nil {
		e.Fatal(err)
	}
}

func onePartition(c *exportqueue.Config) { c.Partitions = 1 }

// Entries are delivered and deleted for hours. A run passes over those of the last half hour, not
// over all of them.
func TestARunBeginsAboveWhatWasDeliveredLongAgo(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	const every = 2 * time.Minute
	e := newEnv(t, onePartition)
	searcher := e.NewClient()
	reads := e.watch(searcher)
	var to receiver
	w, _ := e.exportSearching(e.client, searcher, &to, observers.Config{})
	var all []string
	passed := 0
	for i := range 60 {
		all = append(all, e.addAt("k", fmt.Sprint(i)))
		e.idle(w)
		from := reads.lowest()
		passed = 0
		for _, slice := range all {
			if slice >= from {
				passed++
			}
		}
		e.Clock.Advance(every)
	}
	if got := values(to.entries()); len(got) != len(all) || !slices.IsSorted(all) {
		t.Fatalf("delivered %v", got)
	}
	if most := int(beyond/every) + 2; passed > most {
		t.Errorf("the last run passed over the entries of %d slices, want at most %d of %d", passed, most, len(all))
	}
	if left := e.pending(); len(left) != 0 {
		t.Errorf("left in the queue: %v", left)
	}
}

// A transaction commits as late as it may, after newer entries were delivered and the position has
// moved (I22). What follows it does not overtake it.
func TestAPositionWaitsForTransactionsThatMayCommit(t *testing.T) {
	t.Parallel()
	e := newEnv(t, onePartition)
	var to receiver
	e.run(e.client, e.addAt("k", "long ago"), &to)
	e.Clock.Advance(beyond)
	late := e.begin(e.client)
	e.queueIn(late, "k", "late")
	for _, v := range []string{"1", "2"} { // the second run begins where the first one stored
		e.Clock.Advance(14 * time.Minute)
		e.run(e.client, e.addAt("k", v), &to)
	}
	e.commit(late)
	e.run(e.client, e.addAt("k", "follower"), &to)
	if v := values(to.entries()); !slices.Equal(v, []string{"k=long ago", "k=1", "k=2", "k=late", "k=follower"}) {
		t.Errorf("delivered %v", v)
	}
}

// A slice that has notifications holds the position, however old it is: here half of its entries
// are left, and the next run is for another slice.
func TestADirtySliceHoldsThePosition(t *testing.T) {
	t.Parallel()
	e := newEnv(t, func(c *exportqueue.Config) { c.Partitions, c.MaxEntries = 1, 1 })
	reads := e.watch(e.client)
	e.add("k", "1")
	old := e.addAt("k", "2")
	e.Clock.Advance(2 * beyond)
	recent := e.addAt("k", "3")
	var to receiver
	for range 3 {
		e.run(e.client, recent, &to)
	}
	if v := values(to.entries()); !slices.Equal(v, []string{"k=1", "k=2", "k=3"}) {
		t.Fatalf("delivered %v", v)
	}
	e.run(e.client, old, &to) // finds nothing and cleans the slice
	e.run(e.client, e.addAt("k", "4"), &to)
	reads.lowest()
	e.run(e.client, e.addAt("k", "5"), &to)
	if from := reads.lowest(); from <= old {
		t.Errorf("the search begins at %s when the slice %s is clean", from, old)
	}
}

// An observer's search passes two slices, which transactions A and B then notify; they commit
// before the search comes to their entries. The oracle's clock has jumped since their commit
// timestamps, so the slices are old enough for the position. The second look finds both (I22).
func TestAPositionDoesNotPassWhatASearchHasMissed(t *testing.T) {
	t.Parallel()
	e := newEnv(t, onePartition)
	hold, committed := percolatortest.NewHold(), make(chan error, 2)
	var missed string
	for i, value := range []string{"A", "B"} {
		writer := e.NewClient()
		e.FaultsOf(writer).Handle(func(r percolatortest.Request) percolatortest.Action {
			if r.Method == percolatortest.MutateRows && r.Sets("notify") {
				return hold
			}
			return percolatortest.Pass
		})
		tx := e.begin(writer)
		e.queueIn(tx, "k", value)
		missed = sliced.Row(0, tx.StartTimestamp())
		go func() {
			_, err := tx.Commit(e.ctx)
			committed <- errors.Join(err, writer.Flush(e.ctx))
		}()
		hold.Wait(t, i+1)
		e.Clock.Advance(apart)
	}

	e.Clock.Advance(2 * beyond)
	read := &slowRead{from: []byte("000."), there: make(chan struct{}), goOn: make(chan []byte, 1)}
	searcher, slice := e.slowReader(read), e.addAt("k", "1")
	var to receiver
	ran := make(chan error, 1)
	tx := e.begin(e.client)
	go func() { _, err := e.queue.Run(e.ctx, searcher, tx, 0, slice, to.deliver); ran <- err }()
	<-read.there
	hold.Release()
	if err := errors.Join(<-committed, <-committed); err != nil {
		t.Fatal(err)
	}
	read.goOn <- []byte(missed)
	if err := <-ran; err != nil {
		t.Fatal(err)
	}
	e.commit(tx)
	e.run(e.client, e.addAt("k", "follower"), &to)
	if v := values(to.entries()); !slices.Equal(v, []string{"k=1", "k=A", "k=B", "k=follower"}) {
		t.Errorf("delivered %v", v)
	}
}

// A run that has delivered and does not commit moves no position; the next one begins where it
// began, and delivers the same.
func TestAPositionIsStoredWithTheDeletions(t *testing.T) {
	t.Parallel()
	e := newEnv(t, onePartition)
	reads := e.watch(e.client)
	var to receiver
	e.run(e.client, e.addAt("k", "0"), &to)
	e.Clock.Advance(2 * beyond)
	slice := e.addAt("k", "1")
	reads.lowest()
	tx := e.begin(e.client)
	if _, err := e.queue.Run(e.ctx, e.client, tx, 0, slice, to.deliver); err != nil {
		t.Fatal(err)
	}
	if err := tx.Rollback(e.ctx); err != nil {
		t.Fatal(err)
	}
	before := reads.lowest()
	e.run(e.client, slice, &to)
	if from := reads.lowest(); from != before {
		t.Errorf("after a run that did not commit the search begins at %s, not at %s", from, before)
	}
	e.run(e.client, e.addAt("k", "2"), &to)
	if from := reads.lowest(); from <= before {
		t.Errorf("after a run that committed the search begins at %s", from)
	}
	if v := values(to.entries()); !slices.Equal(v, []string{"k=0", "k=1", "k=1", "k=2"}) {
		t.Errorf("delivered %v", v)
	}
}
