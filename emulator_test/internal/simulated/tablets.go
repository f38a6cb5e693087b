package simulated

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/gopercolator/percolator/internal/engine/store"
)

// Tablets are how tables are cut.
type Tablets struct {
	Most    int           // of a table, about; 0: 1
	Recut   time.Duration // how often tablets split and merge; 0: a minute
	Longest time.Duration // that a tablet is away at a time (TabletAway); 0: 2 s
}

// Disks are what tablets lie on. A tablet serves one read at a time, which pays for every byte that
// it passes over, whatever its query lets through.
type Disks struct {
	Speed int64 // bytes that one tablet passes over in a second; 0: no limit
}

// tablet is a part of a table, from start to the start of the next one.
type tablet struct {
	start string
	hash  hash
	free  time.Time // when it has served the reads so far
}

// pass is how long it takes until the tablet has passed over n more bytes.
func (tb *tablet) pass(n, speed int64) time.Duration {
	if speed == 0 || n == 0 {
		return 0
	}
	now := time.Now()
	if tb.free.Before(now) {
		tb.free = now
	}
	tb.free = tb.free.Add(time.Duration(float64(n) / float64(speed) * float64(time.Second)))
	return tb.free.Sub(now)
}

// tablet is the one that has a key, and where it ends. The caller holds t.mu.
func (t *table) tablet(key string) (tb *tablet, end string) {
	i := 1
	if len(t.tablets) > 1 {
		i = sort.Search(len(t.tablets), func(i int) bool { return t.tablets[i].start > key })
	}
	if i < len(t.tablets) {
		end = t.tablets[i].start
	}
	return t.tablets[i-1], end
}

// tabletBelow is the one that has the keys just below end; "" is the end of the table. The caller
// holds t.mu.
func (t *table) tabletBelow(end string) *tablet {
	i := len(t.tablets)
	if end != "" {
		i = sort.Search(len(t.tablets), func(i int) bool { return t.tablets[i].start >= end })
	}
	return t.tablets[i-1]
}

// away refuses what needs a tablet that no server has at present. The caller holds t.mu.
func (t *table) away(tb *tablet) error {
	faults := &t.cluster.faults
	if faults.rates.Load() == nil {
		return nil
	}
	h := t.cluster.seed.with(awayMark).with(t.hash).with(uint64(tb.hash))
	if _, holds := t.cluster.spell(TabletAway, h, cmp.Or(t.cluster.config.Tablets.Longest, 2*time.Second)); !holds {
		return nil
	}
	faults.happened(TabletAway)
	return unavailable(fmt.Sprintf("the tablet from %q on is being loaded", tb.start))
}

// reach refuses a mutation of a row whose tablet is away.
func (t *table) reach(key string) error {
	if t.cluster.faults.rates.Load() == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.recut()
	tb, _ := t.tablet(key)
	return t.away(tb)
}

const (
	placesMost  = 256 // where a table may be cut
	placeEvery  = 8   // of so many new rows about one is such a place
	statesOfCut = 4   // a cut stays for so many turns
)

// addPlace notes where the table may be cut. The caller holds t.mu.
func (t *table) addPlace(key string) {
	if t.cluster.config.Tablets.Most <= 1 || t.placed(key).below(placeEvery) > 0 {
		return
	}
	if len(t.places) == placesMost {
		at := t.placed(key).with(cutMark).below(placesMost)
		t.places = slices.Delete(t.places, at, at+1)
	}
	if at, found := slices.BinarySearch(t.places, key); !found {
		t.places = slices.Insert(t.places, at, key)
	}
}

func (t *table) placed(key string) hash {
	return t.cluster.seed.with(cutMark).with(t.hash).with(xxhash.Sum64String(key))
}

// recut splits and merges tablets when it is time: each place is a cut for some turns and none for
// others. The caller holds t.mu.
func (t *table) recut() {
	cfg := &t.cluster.config.Tablets
	if cfg.Most <= 1 {
		return
	}
	turn := 1 + time.Now().UnixNano()/int64(cmp.Or(cfg.Recut, time.Minute))
	if turn == t.cutAt {
		return
	}
	t.cutAt = turn
	before, share := t.tablets, float64(cfg.Most)/float64(max(len(t.places), 1))
	t.tablets = []*tablet{before[0]}
	for _, key := range t.places {
		h := t.placed(key)
		if h.with((uint64(turn)+uint64(h))/statesOfCut).float() >= share {
			continue
		}
		at, found := slices.BinarySearchFunc(before, key, func(tb *tablet, key string) int { return cmp.Compare(tb.start, key) })
		if found {
			t.tablets = append(t.tablets, before[at])
		} else {
			t.tablets = append(t.tablets, &tablet{start: key, hash: h})
		}
	}
}

// parts are the entries by tablet, in the order of the tablets.
func (t *table) parts(entries []*entry) []*part {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.recut(); len(t.tablets) == 1 || len(entries) == 1 {
		return []*part{{entries: entries}}
	}
	of := map[*tablet]*part{}
	var out []*part
	for _, e := range entries {
		tb, _ := t.tablet(e.row)
		if of[tb] == nil {
			of[tb] = new(part)
			out = append(out, of[tb])
		}
		of[tb].entries = append(of[tb].entries, e)
	}
	return out
}

// cuts are where tablets end.
func (t *table) cuts() (keys []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.recut()
	for _, tb := range t.tablets[1:] {
		keys = append(keys, tb.start)
	}
	return keys
}

// SampleKeys implements store.Backend.
func (c *Connection) SampleKeys(ctx context.Context, table string) (keys []string, err error) {
	err = c.repeat(ctx, store.AttemptsOf(ctx), func() (hash, error) {
		r, err := c.send(ctx, opSampleKeys, table, "")
		if err != nil {
			return r.hash, err
		}
		f := r.fate(false)
		if err := r.wait(ctx, f.out); err != nil {
			return r.hash, c.receive(ctx, err)
		}
		keys = r.table.cuts()
		return r.hash, r.answer(ctx, f, nil)
	})
	if err != nil {
		return nil, err
	}
	return keys, nil
}
