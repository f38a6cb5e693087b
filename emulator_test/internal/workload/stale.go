package workload

import (
	"context"
	"math"
	"sort"
	"sync"
	"time"

	"github.com/gopercolator/percolator/emulator_test/internal/history"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/tso"
)

// freshness is what a snapshot with MaxStaleness has to contain.
type freshness struct {
	mu    sync.Mutex
	marks []mark
	told  map[*percolator.Client]tso.Timestamp // the greatest that its sessions know
}

// mark is a moment of the history that had come by a time.
type mark struct {
	time   time.Time
	moment int64
}

// markEvery is how long marks are apart, at least.
const markEvery = 2 * time.Millisecond

func (f *freshness) mark(h *history.Recording) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := len(f.marks); n == 0 || time.Since(f.marks[n-1].time) >= markEvery {
		moment := h.Moment()
		f.marks = append(f.marks, mark{time.Now(), moment})
	}
}

// before is a moment that had come by a time; 0: none is known.
func (f *freshness) before(t time.Time) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if i := sort.Search(len(f.marks), func(i int) bool { return f.marks[i].time.After(t) }); i > 0 {
		return f.marks[i-1].moment
	}
	return 0
}

// tell remembers a timestamp of a client's own.
func (f *freshness) tell(client *percolator.Client, ts tso.Timestamp) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.told == nil {
		f.told = map[*percolator.Client]tso.Timestamp{}
	}
	f.told[client] = max(f.told[client], ts)
}

func (f *freshness) toldTo(client *percolator.Client) tso.Timestamp {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.told[client]
}

// toldToAny is the greatest timestamp that any client was told.
func (f *freshness) toldToAny() (ts tso.Timestamp) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, told := range f.told {
		ts = max(ts, told)
	}
	return ts
}

// How stale a snapshot may be: some are younger than what a client has at hand, some beyond the
// retention.
const (
	stalenessLeast  = time.Millisecond
	stalenessDigits = 7
)

func (s *Session) viewStale(ctx context.Context) {
	s.viewNotOlder(ctx, time.Duration(float64(stalenessLeast)*math.Pow(10, stalenessDigits*s.Rand.Float64())))
}

// Visit reads a snapshot, does nothing for a time, and reads one that may be older. It is for a
// session that has a client of its own, whose newest timestamp becomes too old meanwhile.
func (s *Session) Visit(ctx context.Context, idle time.Duration) {
	s.viewNotOlder(ctx, 0)
	wait(ctx, idle)
	s.viewNotOlder(ctx, 2*idle)
}

// viewNotOlder reads a snapshot that may be stale, but is not refused for ever as too old.
func (s *Session) viewNotOlder(ctx context.Context, d time.Duration) {
	const attempts = 4
	cells := s.someCells()
	for left := attempts - 1; ; left-- {
		rec := s.History.Begin(s.Name, "view stale")
		err := s.viewWithin(ctx, rec, d, cells)
		if !tooOld(ctx, err) || s.Dead() {
			return
		}
		if left == 0 {
			rec.Broken("with MaxStaleness %v it was refused %d times: %v", d, attempts, err)
			return
		}
	}
}

// viewWithin reads some cells. What others had committed before the time that the snapshot may be
// stale, what this client had, and now and then what any had, is in it.
func (s *Session) viewWithin(ctx context.Context, rec *history.Txn, d time.Duration, cells []percolator.Cell) error {
	moment, told := s.fresh.before(time.Now().Add(-d)), s.fresh.toldTo(s.Client)
	var least tso.Timestamp
	if d%2 == 1 { // no random number of its own, which would change those after it
		least = s.fresh.toldToAny()
		told = max(told, least)
	}
	return s.view(ctx, rec, func(ctx context.Context, snap *percolator.Snapshot) error {
		ts := snap.StartTimestamp()
		rec.StartedSince(ts, moment)
		if ts < told {
			rec.Broken("with MaxStaleness %v, AtLeast %d, the snapshot is of %d, and should be of %d", d, least, ts, told)
		}
		s.fresh.tell(s.Client, ts)
		r := Reader{Scanner: snap, rec: rec}
		if err := r.checkBank(ctx); err != nil {
			return err
		}
		_, err := r.cells(ctx, cells...)
		return err
	}, percolator.MaxStaleness(d), percolator.AtLeast(least))
}
