package settle

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/gopercolator/percolator/internal/journal"
	"github.com/gopercolator/percolator/internal/retry"
	"github.com/gopercolator/percolator/tso"
)

// When the session of a stream's owner has ended, a worker adopts the stream (J5): it reads the
// entries from the low position on, decides their transactions, resolves their locks, dispatches
// what is notified, and moves the position. It looks again at what is not settled, ever more
// rarely, as long as the header stands. That several workers do so at once costs work and nothing
// else; an advisory lock keeps all but one from it.
const (
	adoptEvery   = 500 * time.Millisecond // how often the adopter looks for ended sessions
	adoptTTL     = 3 * time.Second        // of its advisory lock
	adoptRows    = 64                     // rows of a stream that are read at once
	rarestAdopt  = 5 * time.Minute
	adoptTimeout = 30 * time.Second // of one turn at a stream
)

// adoptLock is the name of the advisory lock: no row of a table is called so.
const adoptLock = 0x6a6f75726e616c00

// Adopter adopts streams whose owners have died. It is for one goroutine.
type Adopter struct {
	Looker *Looker
	locks  tso.RowLocks // nil: none
	holder string
	known  map[journal.StreamID]*adopted
}

// adopted is what the adopter knows of a stream.
type adopted struct {
	seen  journal.Stream
	since time.Time // when it last changed, as far as the adopter saw
	ended bool
	due   time.Time            // of the next look
	looks int                  // without anything settled
	read  map[uint64]time.Time // rows that are not settled, and when they were first read

	oldest tso.Timestamp // the oldest start timestamp in these; 0: there are none
}

// NewAdopter returns an adopter. Without an oracle that keeps advisory locks every one of them
// works.
func NewAdopter(l *Looker) *Adopter {
	locks, _ := l.Clock.Oracle.(tso.RowLocks)
	return &Adopter{Looker: l, locks: locks, holder: uuid.NewString(), known: map[journal.StreamID]*adopted{}}
}

// Run adopts streams until ctx ends.
func (a *Adopter) Run(ctx context.Context) {
	for retry.Sleep(ctx, adoptEvery) == nil {
		if !a.elected(ctx) {
			continue
		}
		if err := a.Turn(ctx); err != nil && ctx.Err() == nil {
			a.Looker.Config.Logger.Debug("journal: an adoption failed, and is repeated", "err", err)
		}
	}
	if a.locks != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = a.locks.UnlockRows(ctx, a.holder, []uint64{adoptLock}) // else it runs out
	}
}

// elected reports whether no other worker adopts, as far as the oracle knows.
func (a *Adopter) elected(ctx context.Context) bool {
	if a.locks == nil {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	locked, err := a.locks.LockRows(ctx, a.holder, adoptTTL, []uint64{adoptLock})
	return err != nil || locked == 1
}

// Turn reads the headers of all streams and looks at those that are due.
func (a *Adopter) Turn(ctx context.Context) error {
	streams, err := journal.Streams(ctx, a.Looker.Store)
	if err != nil {
		return err
	}
	now := time.Now()
	there := map[journal.StreamID]bool{}
	for _, s := range streams {
		there[s.ID] = true
		st := a.known[s.ID]
		if st == nil {
			st = &adopted{since: now, read: map[uint64]time.Time{}}
			a.known[s.ID] = st
		}
		if st.seen != s {
			st.seen, st.since = s, now
		}
		if st.ended = st.ended || a.ended(ctx, st, now); !st.ended || now.Before(st.due) {
			continue
		}
		if err := a.adopt(ctx, st); err != nil {
			return err
		}
	}
	for id := range a.known {
		if !there[id] {
			delete(a.known, id)
		}
	}
	a.count()
	return nil
}

// count says how much is left to adopt.
func (a *Adopter) count() {
	rows, oldest := 0, tso.Timestamp(0)
	for _, st := range a.known {
		if !st.ended {
			continue
		}
		rows += len(st.read)
		if st.oldest != 0 && (oldest == 0 || st.oldest < oldest) {
			oldest = st.oldest
		}
	}
	n := a.Looker.Store.Count
	n.Streams.Store(int64(len(a.known)))
	n.Adopted.Store(int64(rows))
	n.AdoptedOldest.Store(int64(oldest))
}

// ended reports whether the owner of a stream is dead. Where there are no sessions a stream is
// given up once nobody has moved its low position for two TTLs.
func (a *Adopter) ended(ctx context.Context, st *adopted, now time.Time) bool {
	if st.seen.Session != "" {
		return a.Looker.Locks.SessionEnded(ctx, st.seen.Session)
	}
	return now.Sub(st.since) > 2*a.Looker.Config.LockTTL
}

// adopt looks at all entries of a stream from its low position on.
func (a *Adopter) adopt(ctx context.Context, st *adopted) error {
	ctx, cancel := context.WithTimeout(ctx, adoptTimeout)
	defer cancel()
	low, settledAll, progress := st.seen.Low, true, false
	st.oldest = 0
	for from, more := low, true; more; {
		rows, rest, err := journal.ReadStream(ctx, a.Looker.Store, st.seen.ID, from, adoptRows)
		if err != nil {
			return err
		}
		settled, err := a.look(ctx, st, rows)
		if err != nil {
			return err
		}
		for i, row := range rows {
			from = row.Seq + 1
			if settled[i] {
				progress = progress || st.read[row.Seq] != (time.Time{})
				delete(st.read, row.Seq)
			} else {
				settledAll = false
				st.oldest = oldest(st.oldest, row)
			}
			if settledAll {
				low = from
			}
		}
		more = rest
	}
	if st.looks++; progress || low > st.seen.Low {
		st.looks = 0
	}
	st.due = time.Now().Add(min(adoptEvery<<min(st.looks, 12), rarestAdopt))
	if low == st.seen.Low {
		return nil
	}
	return journal.WriteLow(ctx, a.Looker.Store, map[journal.StreamID]uint64{st.seen.ID: low})
}

// oldest is the least of ts, unless that is 0, and the start timestamps in a row.
func oldest(ts tso.Timestamp, row journal.StreamRow) tso.Timestamp {
	for _, e := range row.Entries {
		if ts == 0 || e.StartTS < ts {
			ts = e.StartTS
		}
	}
	return ts
}

// look reports which rows of a stream are settled.
func (a *Adopter) look(ctx context.Context, st *adopted, rows []journal.StreamRow) ([]bool, error) {
	var items []*Item
	var of []int
	now := time.Now()
	for i, row := range rows {
		if st.read[row.Seq].IsZero() {
			st.read[row.Seq] = now
		}
		for _, e := range row.Entries {
			items = append(items, &Item{Entry: e, Session: st.seen.Session, Read: st.read[row.Seq]})
			of = append(of, i)
		}
	}
	settled := make([]bool, len(rows))
	for i := range settled {
		settled[i] = true
	}
	done, err := a.Looker.Look(ctx, items)
	for j, ok := range done {
		settled[of[j]] = settled[of[j]] && ok
	}
	return settled, err
}
