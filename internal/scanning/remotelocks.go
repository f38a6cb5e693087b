package scanning

import (
	"context"
	"hash/fnv"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/ordered"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso/coordination"
)

// RemoteLocks keep the scanners of other workers off rows: the lightweight lock service of section
// 2.4 of the paper, which the oracle provides. They only save work; correctness rests on the
// transactions. A row stays locked from when a scanner reads it until none of its cells runs or
// waits for its first attempt. If it were unlocked once queued, the next worker would queue it too,
// and all but one of the runs would find nothing to do, or conflict. A time limit ends that: a
// worker whose runs hang must not keep an idle one off its rows.
//
// One request locks a page; a page without dirty rows costs none. Finished rows are unlocked with
// the next page, or within a second. The methods may be called concurrently.
type RemoteLocks struct {
	service    coordination.RowLocks            // nil: none
	unfinished func(rows []layout.RowID) []bool // which rows have cells to run, or running
	now        func() time.Time
	holder     string

	// calls holds a token during a request and the changes it makes: a request must not unlock a
	// row that has been locked again since it was decided on. In virtual time no goroutine may wait
	// for a mutex meanwhile.
	calls chan struct{}

	mu      sync.Mutex
	held    map[uint64]*heldRow // by hash
	resting time.Time           // until when a failed service is not asked
}

type heldRow struct {
	layout.RowID
	hands   int       // scanners that work on it
	queued  time.Time // when the last scanner was done with it
	renewed time.Time // or locked; zero: no request for it was answered
}

const (
	lockTTL      = 10 * time.Second       // of a worker that dies; others keep off its rows so long
	lockTimeout  = 250 * time.Millisecond // for one request; the scanner goes on without
	lockRest     = 2 * time.Second        // after a failure
	lockCallRows = 1024                   // in one request
	lockRenewal  = lockTTL / 4            // so that two renewals may fail, with their pauses
	lockHold     = lockTTL                // then renewal of a waiting or running row stops
	lockLost     = 4                      // lost rows after which a renewal pauses
	keepEvery    = time.Second
)

// NewRemoteLocks returns the locks of a worker, none of them taken.
func NewRemoteLocks(service coordination.RowLocks, unfinished func(rows []layout.RowID) []bool, now func() time.Time) *RemoteLocks {
	return &RemoteLocks{service: service, unfinished: unfinished, now: now, holder: uuid.NewString(), calls: make(chan struct{}, 1), held: map[uint64]*heldRow{}}
}

// Lock locks rows in order and returns how many it got; all of them if the service cannot be asked.
// They are the caller's until Done.
func (l *RemoteLocks) Lock(ctx context.Context, rows []model.Pending) int {
	if l.service == nil || len(rows) == 0 || l.atRest() {
		return len(rows)
	}
	names := ordered.Map(rows, func(r model.Pending) uint64 { return hash(r.Table, r.Row) })
	l.calls <- struct{}{}
	defer func() { <-l.calls }()
	asked := l.now()
	n, err := l.lockRows(ctx, names)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil { // they may be locked all the same
		l.resting, n = l.now().Add(lockRest), len(rows)
		asked = time.Time{}
	}
	n = max(0, min(n, len(rows)))
	for i, r := range rows[:n] {
		h := l.held[names[i]]
		if h == nil {
			h = &heldRow{RowID: layout.RowID{Table: r.Table, Key: r.Row}}
			l.held[names[i]] = h
		}
		h.hands++
		h.renewed = asked
	}
	return n
}

// Done reports that a scanner has queued what is in rows.
func (l *RemoteLocks) Done(ctx context.Context, rows []model.Pending) {
	if l.service == nil || len(rows) == 0 {
		return
	}
	l.mu.Lock()
	for _, r := range rows {
		if h := l.held[hash(r.Table, r.Row)]; h != nil {
			h.hands--
			h.queued = l.now()
		}
	}
	l.mu.Unlock()
	l.Keep(ctx)
}

// Run calls Keep every second until ctx ends.
func (l *RemoteLocks) Run(ctx context.Context) {
	if l.service == nil {
		return
	}
	tick := time.NewTicker(keepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			l.Keep(ctx)
		}
	}
}

// Keep unlocks finished rows and renews the rest if it is time. What it cannot unlock expires. If
// nothing is locked it sends nothing.
func (l *RemoteLocks) Keep(ctx context.Context) { l.update(ctx, false) }

// Close unlocks everything.
func (l *RemoteLocks) Close(ctx context.Context) { l.update(ctx, true) }

func (l *RemoteLocks) update(ctx context.Context, everything bool) {
	l.calls <- struct{}{}
	defer func() { <-l.calls }()
	unlock, renew := l.sort(everything)
	ctx = context.WithoutCancel(ctx) // which may have ended because the worker stops
	for len(unlock) > 0 {
		n := min(len(unlock), lockCallRows)
		if err := l.unlockRows(ctx, unlock[:n]); err != nil {
			l.rest()
			return
		}
		unlock = unlock[n:]
	}
	for lost := 0; len(renew) > 0 && lost < lockLost; {
		n := min(len(renew), lockCallRows)
		asked := l.now()
		got, err := l.lockRows(ctx, renew[:n])
		if err != nil {
			l.rest()
			return
		}
		got = max(0, min(got, n))
		l.kept(renew[:got], asked)
		if got < n { // it had expired, and another worker was faster
			l.forget(renew[got])
			lost, got = lost+1, got+1
		}
		renew = renew[got:]
	}
}

// sort removes the rows to unlock from held, and lists those to renew. While the service rests it
// returns only rows whose lock was not answered: one attempt is made to unlock them.
func (l *RemoteLocks) sort(everything bool) (unlock, renew []uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.held) == 0 {
		return nil, nil
	}
	now := l.now()
	resting := now.Before(l.resting)
	names, rows := make([]uint64, 0, len(l.held)), make([]layout.RowID, 0, len(l.held))
	for name, h := range l.held {
		if h.hands <= 0 {
			names, rows = append(names, name), append(rows, h.RowID)
		}
	}
	var still []bool
	if !everything {
		still = l.unfinished(rows)
	}
	for i, name := range names {
		if still != nil && still[i] {
			continue
		}
		if !resting || l.held[name].renewed.IsZero() {
			unlock = append(unlock, name)
		}
		delete(l.held, name)
	}
	for name, h := range l.held {
		switch {
		case h.hands <= 0 && now.Sub(h.queued) >= lockHold:
			// The row waits behind long runs, and another worker may have time for it.
			delete(l.held, name)
		case !resting && now.Sub(h.renewed) >= lockRenewal && !everything:
			renew = append(renew, name)
		}
	}
	return unlock, renew
}

func (l *RemoteLocks) kept(names []uint64, asked time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range names {
		if h := l.held[name]; h != nil {
			h.renewed = asked
		}
	}
}

func (l *RemoteLocks) forget(name uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, name)
}

func (l *RemoteLocks) atRest() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now().Before(l.resting)
}

func (l *RemoteLocks) rest() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.resting = l.now().Add(lockRest)
}

func (l *RemoteLocks) lockRows(ctx context.Context, names []uint64) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	return l.service.LockRows(ctx, l.holder, lockTTL, names)
}

func (l *RemoteLocks) unlockRows(ctx context.Context, names []uint64) error {
	ctx, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	return l.service.UnlockRows(ctx, l.holder, names)
}

// hash names a row to the service: no key leaves its store.
func hash(table, row string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(table))
	_, _ = h.Write([]byte{0})
	_, _ = h.Write([]byte(row))
	return h.Sum64()
}
