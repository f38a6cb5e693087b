package simulation

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/tso"
	"github.com/gopercolator/percolator/tso/coordination"
)

// durable is where the servers of the oracle keep what they know.
type durable interface {
	tso.Store
	coordination.SessionStore
}

// oracleStore is a server's way to the store of the oracle.
type oracleStore struct {
	durable
	server string
	dice   *dice
	tally  *tally
	rate   func() float64
	cut    atomic.Bool // nothing arrives
	dead   atomic.Bool // nothing is sent
}

var errStoreDown = errors.New("the oracle's store does not answer")

// reach is a request that do carries out, and its faults.
func (s *oracleStore) reach(ctx context.Context, name string, do func() error) error {
	if s.dead.Load() {
		return errStoreDown
	}
	r := s.dice.next("oracle store", s.server, name)
	f := s.tally.oneOf(r, s.rate(), oracleStoreFailed, oracleStoreDoubtful, oracleStoreSlow)
	wait := latency(r, time.Millisecond)
	if f == oracleStoreSlow {
		wait += time.Duration(r.Int64N(int64(2 * time.Second)))
	}
	if err := retry.Sleep(ctx, wait); err != nil {
		return err
	}
	if s.cut.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	if f == oracleStoreFailed || s.dead.Load() {
		return errStoreDown
	}
	err := do()
	if perr := retry.Sleep(ctx, latency(r, time.Millisecond)); err == nil && perr != nil {
		return perr
	}
	if f == oracleStoreDoubtful || s.dead.Load() {
		return errStoreDown
	}
	return err
}

func (s *oracleStore) Load(ctx context.Context) (st tso.State, err error) {
	err = s.reach(ctx, "load", func() error {
		st, err = s.durable.Load(ctx)
		return err
	})
	return st, err
}

func (s *oracleStore) CompareAndSwap(ctx context.Context, old, next tso.State) error {
	return s.reach(ctx, "swap", func() error { return s.durable.CompareAndSwap(ctx, old, next) })
}

func (s *oracleStore) AddSession(ctx context.Context, id string) error {
	return s.reach(ctx, "add session", func() error { return s.durable.AddSession(ctx, id) })
}

func (s *oracleStore) RemoveSessions(ctx context.Context, ids ...string) error {
	return s.reach(ctx, "remove sessions", func() error { return s.durable.RemoveSessions(ctx, ids...) })
}

func (s *oracleStore) Sessions(ctx context.Context) (ids []string, err error) {
	err = s.reach(ctx, "sessions", func() error {
		ids, err = s.durable.Sessions(ctx)
		return err
	})
	return ids, err
}
