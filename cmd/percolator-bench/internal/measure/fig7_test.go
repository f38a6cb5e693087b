package measure

import (
	"bytes"
	"context"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/grpc/stats"
)

// The workload is the paper's: clusters of 3.3 documents in the mean, and 93 % of all documents not
// alone. Whole groupings, one kind of key after the other, and lookups document by document give
// the same clusters.
func TestFig7Clusters(t *testing.T) {
	t.Parallel()
	for _, documents := range []int{1, 100, 40_000} {
		crawl := newFig7Crawl(documents, 7)
		all := make([]fig7Document, documents)
		c := newFig7Clusters()
		entries := 0
		for n := range all {
			all[n] = crawl.document(n)
			canonical, made := c.add(all[n])
			entries += made
			if canonical > uint32(n) || (made == fig7Kinds) != (canonical == uint32(n)) {
				t.Fatalf("document %d of %d: canonical %d with %d entries", n, documents, canonical, made)
			}
		}
		for n, canonical := range fig7Rounds(all) {
			if canonical != c.of[uint32(n)] {
				t.Fatalf("document %d of %d: canonical %d by rounds, %d by lookups", n, documents, canonical, c.of[uint32(n)])
			}
		}
		if entries != len(c.entries()) {
			t.Errorf("%d entries were made, the indexes have %d", entries, len(c.entries()))
		}
		if documents < 10_000 {
			continue
		}
		if math.Abs(c.mean()-3.3) > 0.05 || math.Abs(c.notAlone()-0.93) > 0.01 {
			t.Errorf("%d documents: %.3f in a cluster, %.3f not alone", documents, c.mean(), c.notAlone())
		}
	}
}

// What arrives later changes nothing about those before, nor does a copy that goes on.
func TestFig7ClustersGoOn(t *testing.T) {
	t.Parallel()
	crawl := newFig7Crawl(1000, 1)
	base := newFig7Clusters()
	for n := range 1000 {
		base.add(crawl.document(n))
	}
	entries, mean := len(base.entries()), base.mean()
	more := base.clone()
	for n := 1000; n < 2000; n++ {
		more.add(crawl.document(n))
	}
	if len(base.entries()) != entries || base.mean() != mean || len(more.of) != 2000 {
		t.Errorf("%d entries and mean %v became %d and %v; the copy has %d documents", entries, mean, len(base.entries()), base.mean(), len(more.of))
	}
	for n := range uint32(1000) {
		if base.of[n] != more.of[n] {
			t.Errorf("document %d moved from %d to %d", n, base.of[n], more.of[n])
		}
	}
}

func TestFig7Rows(t *testing.T) {
	t.Parallel()
	rows := map[string]bool{}
	first := map[byte]int{}
	for n := range uint32(10_000) {
		row := fig7Row(n)
		rows[row] = true
		first[row[0]]++
	}
	if len(rows) != 10_000 || len(first) != 16 || len(fig7Row(0)) != 16 {
		t.Errorf("%d rows, beginning with %d characters", len(rows), len(first))
	}
	d := newFig7Crawl(1000, 3).document(1_000_000)
	if got, err := decodeFig7[fig7Document](encodeFig7(d)); err != nil || got != d {
		t.Errorf("%+v was read as %+v, %v", d, got, err)
	}
	if _, err := decodeFig7[fig7Document]([]byte("short")); err == nil {
		t.Error("five bytes are a document")
	}
	if got, err := decodeFig7[uint32](encodeFig7[uint32](77)); err != nil || got != 77 {
		t.Errorf("cluster 77 was read as %d, %v", got, err)
	}
	if _, err := decodeFig7[uint32](nil); err == nil {
		t.Error("nothing names a cluster")
	}
}

// As many documents arrive as the rate says, in order, at the same moments for the same seed, and
// rates share no document.
func TestFig7Arrivals(t *testing.T) {
	t.Parallel()
	crawl := newFig7Crawl(100, 5)
	a := crawl.arrivals(100, 50, 3*time.Second)
	if len(a.due) != 150 || !slices.IsSorted(a.due) || a.due[149] >= 3*time.Second || a.awake() != 100 || a.number(0) != 101 || a.end() != 251 {
		t.Errorf("%d arrivals from %d to %d, the last after %v", len(a.due), a.number(0), a.end(), a.due[len(a.due)-1])
	}
	if !slices.Equal(a.due, crawl.arrivals(100, 50, 3*time.Second).due) || slices.Equal(a.due, crawl.arrivals(251, 50, 3*time.Second).due) {
		t.Error("moments do not follow from seed and documents")
	}
	if b := crawl.arrivals(0, 0.1, time.Second); len(b.due) != 1 {
		t.Errorf("%d arrivals, want the one that there always is", len(b.due))
	}
}

// Documents are loaded when they are due although those before them are still being loaded,
// together if they had to wait, and not after the stop.
func TestFig7Offer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newFig7Crawl(100, 1).arrivals(100, 20, 10*time.Second)
		started := time.Now()
		var mu sync.Mutex
		at := map[int]time.Duration{}
		took, most := 250*time.Millisecond, 0
		load := func(_ context.Context, numbers []int) error {
			mu.Lock()
			for _, n := range numbers {
				at[n] = time.Since(started)
			}
			most = max(most, len(numbers))
			mu.Unlock()
			time.Sleep(took)
			return nil
		}
		var stop atomic.Bool
		if err := a.offer(t.Context(), started, &stop, 3, load); err != nil {
			t.Fatal(err)
		}
		for i, due := range a.due {
			if at[a.number(i)] != due {
				t.Errorf("document %d was due after %v and loaded after %v", a.number(i), due, at[a.number(i)])
			}
		}
		if most != 1 {
			t.Errorf("%d documents were loaded together although none had to wait", most)
		}
		clear(at)
		started, took = time.Now(), 5*time.Second // loaders are too few
		if err := a.offer(t.Context(), started, &stop, 3, load); err != nil || most != 3 || len(at) != len(a.due) {
			t.Errorf("%d of %d documents were loaded, %d together, %v", len(at), len(a.due), most, err)
		}
		clear(at)
		stop.Store(true)
		if err := a.offer(t.Context(), time.Now(), &stop, 3, load); err != nil || len(at) > 0 {
			t.Errorf("%d documents were loaded after the stop, %v", len(at), err)
		}
	})
}

// Documents that were never clustered count with the time they had waited when arrivals ended.
func TestFig7Outcome(t *testing.T) {
	t.Parallel()
	started := time.Now()
	o := fig7Outcome{started: started, arrivals: fig7Arrivals{duration: 10 * time.Second}}
	for i := range 10 {
		o.arrivals.due = append(o.arrivals.due, time.Duration(i)*time.Second)
		o.clustered = append(o.clustered, started.Add(time.Duration(i)*time.Second+100*time.Millisecond))
	}
	if o.saturated() || o.inTime() != 10 || o.delivery().latency.mean() != 100 || o.delivery().delivered != 1 || o.delivery().clustered != 10 {
		t.Errorf("all in time: %d, %+v", o.inTime(), o.delivery())
	}
	if o.behind() {
		t.Error("all wait equally long, and are behind")
	}
	late := fig7Outcome{started: started, arrivals: o.arrivals}
	for i, due := range o.arrivals.due {
		late.clustered = append(late.clustered, started.Add(due+time.Duration(i)*time.Second))
	}
	if !late.behind() {
		t.Error("waiting grows from 0 to 9 s, and is not behind")
	}
	o.clustered[9] = started.Add(12 * time.Second)
	if o.saturated() || o.inTime() != 9 || o.delivery().clustered != 10 || o.delivery().latency.ms(100) != 3000 {
		t.Errorf("one late: %d, %+v", o.inTime(), o.delivery())
	}
	o.clustered[2] = time.Time{}
	if d := o.delivery(); !o.saturated() || d.offered != 10 || d.clustered != 9 || d.latency.ms(100) != 8000 || d.latency.count() != 10 {
		t.Errorf("one never: %+v", d)
	}
}

func TestFig7Crossover(t *testing.T) {
	t.Parallel()
	at := func(rate, observers, batch float64) (r fig7Rate) {
		r.rate = rate
		r.observers.latency, r.batch.latency = recorded([]time.Duration{time.Duration(observers * 1e6)}), recorded([]time.Duration{time.Duration(batch * 1e6)})
		return r
	}
	if c := crossoverOf([]fig7Rate{at(10, 1, 100), at(1000, 99, 100)}, 3600); c != nil {
		t.Errorf("observers are faster everywhere, but there is a crossover: %+v", *c)
	}
	// From a hundredth to a hundred times as long, on the way from 10 to 1000: the middle is 100.
	c := crossoverOf([]fig7Rate{at(1, 1, 100), at(10, 1, 100), at(1000, 10_000, 100), at(2000, 1, 100)}, 3600)
	if c == nil || c.first != 1000 || math.Abs(c.rate-100) > 1e-6 || math.Abs(c.percent-10_000) > 1e-4 {
		t.Errorf("crossover: %+v", c)
	}
	full := at(1000, 50, 100)
	full.observers.saturated, full.observers.delivered = true, 700
	c = crossoverOf([]fig7Rate{at(10, 1, 100), full}, 3600)
	if c == nil || !c.saturation || c.first != 1000 || c.rate != 700 || math.Abs(c.percent-70_000) > 1e-4 {
		t.Errorf("observers are saturated: %+v", c)
	}
	full.batch.saturated = true
	if c = crossoverOf([]fig7Rate{at(10, 1, 100), full}, 3600); c != nil {
		t.Errorf("both are saturated: %+v", c)
	}
	if c = crossoverOf([]fig7Rate{at(10, 200, 100)}, 100); c == nil || c.first != 10 || c.rate != 10 {
		t.Errorf("batch is faster from the first rate on: %+v", c)
	}
}

// Whatever is wrong in a store counts.
func TestFig7Audit(t *testing.T) {
	t.Parallel()
	s := &fig7Store{crawl: newFig7Crawl(50, 1), base: newFig7Clusters()}
	var good []fig7Stored
	add := func(c *fig7Clusters, n int) {
		d := s.crawl.document(n)
		canonical, _ := c.add(d)
		good = append(good, fig7Stored{row: fig7Row(d.Number), document: d, clustered: true, cluster: canonical})
	}
	for n := range 50 {
		add(s.base, n)
	}
	a := s.crawl.arrivals(50, 10, time.Second)
	all := s.base.clone()
	for n := 50; n < a.end(); n++ {
		add(all, n)
	}
	always := func(int) bool { return true }
	if got := s.audit(good, always, a); got.differences != 0 || got.checked != 61 || got.clusters.mean() != all.mean() {
		t.Errorf("a right store: %d of %d differ, mean cluster %v", got.differences, got.checked, got.clusters.mean())
	}
	last := len(good) - 1
	for what, harm := range map[string]func(stored []fig7Stored) []fig7Stored{
		"one is missing":               func(st []fig7Stored) []fig7Stored { return st[:last] },
		"one of the base is missing":   func(st []fig7Stored) []fig7Stored { return st[1:] },
		"one has no cluster":           func(st []fig7Stored) []fig7Stored { st[last].clustered = false; return st },
		"another cluster":              func(st []fig7Stored) []fig7Stored { st[last].cluster++; return st },
		"another cluster in the base":  func(st []fig7Stored) []fig7Stored { st[3].cluster++; return st },
		"another key":                  func(st []fig7Stored) []fig7Stored { st[last].document.Keys[1]++; return st },
		"another row":                  func(st []fig7Stored) []fig7Stored { st[last].row = "x"; return st },
		"one is there for another one": func(st []fig7Stored) []fig7Stored { st[last] = st[last-1]; return st },
	} {
		if got := s.audit(harm(slices.Clone(good)), always, a); got.differences == 0 {
			t.Errorf("%s: no difference", what)
		}
	}
	if got := s.audit(good[:last], func(n int) bool { return n != a.end()-1 }, a); got.differences != 0 {
		t.Errorf("one that need not be there is missing: %d differences", got.differences)
	}
	d := s.crawl.document(3)
	row, value := fig7KeyRow(0, d.Keys[0]), encodeFig7(s.base.index[0][d.Keys[0]])
	if entries := s.base.entries(); !bytes.Equal(entries[row], value) || len(value) == 0 || entries["0/zz"] != nil || entries["9"+row[1:]] != nil ||
		bytes.Equal(entries[row], nil) || bytes.Equal(entries[row], encodeFig7[uint32](1<<30)) {
		t.Error("an entry that is there is not, or one that is not there is")
	}
}

// Requests count by method, and a client is quiet when none has been under way for a while.
func TestFig7Requests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := requestCounter{own: true}
		one := r.TagRPC(t.Context(), &stats.RPCTagInfo{FullMethodName: "/google.bigtable.v2.Bigtable/ReadRows"})
		other := r.TagRPC(t.Context(), &stats.RPCTagInfo{FullMethodName: btpb.Bigtable_MutateRow_FullMethodName})
		r.HandleRPC(one, &stats.Begin{})
		r.HandleRPC(one, &stats.OutHeader{})
		r.HandleRPC(one, &stats.OutPayload{Payload: &btpb.ReadRowsRequest{}})
		r.HandleRPC(other, &stats.Begin{})
		r.HandleRPC(other, &stats.OutPayload{Payload: &btpb.MutateRowRequest{}})
		r.HandleRPC(other, &stats.End{})
		go func() {
			time.Sleep(time.Minute)
			r.HandleRPC(one, &stats.End{})
		}()
		started := time.Now()
		if err := r.awaitQuiet(t.Context(), time.Second); err != nil || time.Since(started) < time.Minute+time.Second {
			t.Errorf("quiet after %v, %v", time.Since(started), err)
		}
		if n := r.take(); len(n) != 2 || n["ReadRows"] != 1 || n["MutateRow"] != 1 || len(r.take()) != 0 {
			t.Errorf("requests: %v", n)
		}
		r.HandleRPC(one, &stats.Begin{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := r.awaitQuiet(ctx, time.Second); err == nil {
			t.Error("quiet while a request is under way")
		}
	})
}

// fig7Rounds is the clustering of a whole repository at once: three groupings, one after the other,
// as MapReduces do it. Documents come in the order of their numbers; the result is the canonical
// document of each.
func fig7Rounds(documents []fig7Document) []uint32 {
	leader := make([]int, len(documents)) // who stands for the document, itself if it does
	left := make([]int, len(documents))   // who takes part in the next round
	for i := range documents {
		leader[i], left[i] = i, i
	}
	for kind := range fig7Kinds {
		first := make(map[uint32]int, len(left))
		var next []int
		for _, i := range left {
			key := documents[i].Keys[kind]
			if of, ok := first[key]; ok {
				leader[i] = of
				continue
			}
			first[key] = i
			next = append(next, i)
		}
		left = next
	}
	out := make([]uint32, len(documents))
	for i := range documents { // leaders come before those they lead
		if out[i] = documents[i].Number; leader[i] != i {
			out[i] = out[leader[i]]
		}
	}
	return out
}
