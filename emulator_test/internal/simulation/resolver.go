package simulation

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
)

// locksSeen are locks that resolvers have seen, and resolve some time: as a process does that is
// held up with a lock in its hand. They outlive the processes.
type locksSeen struct {
	mu    sync.Mutex
	locks []model.Lock
}

// How many locks are remembered, and how many are resolved at a time.
const (
	locksRemembered = 300
	locksRecalled   = 3
)

// recall adds locks and takes some at random.
func (s *locksSeen) recall(seen []model.Lock, r *rand.Rand) []model.Lock {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.locks = append(s.locks, seen...)
	r.Shuffle(len(s.locks), func(i, j int) { s.locks[i], s.locks[j] = s.locks[j], s.locks[i] })
	n := min(len(s.locks), locksRecalled)
	out := slices.Clone(s.locks[:n])
	s.locks = s.locks[n:min(len(s.locks), n+locksRemembered)]
	return out
}

// resolve resolves locks, most of them long after it has seen them, when others have.
func (w *world) resolve(p *process) {
	a := admin.New(p.client)
	for retry.Sleep(p.ctx, time.Duration(p.rand.Int64N(int64(2*time.Second)))) == nil {
		ctx, cancel := context.WithTimeout(p.ctx, transactionLimit)
		tables := p.client.Schema().Tables
		var seen []model.Lock
		for found, err := range a.ScanPending(ctx, tables[p.rand.IntN(len(tables))].Name, percolator.All()) {
			if err != nil {
				break
			}
			seen = append(seen, found.Locks...)
		}
		for _, l := range w.locksSeen.recall(seen, p.rand) {
			_, _ = a.ResolveLock(ctx, l)
		}
		cancel()
	}
}
