package workload

import (
	"context"
	"errors"

	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/emulator_test/internal/history"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/tso"
)

// attempt is a transaction that records everything it does.
type attempt struct {
	s   *Session
	tx  *percolator.Txn
	rec *history.Txn
	id  int64
	n   int64 // values written: each has a number of its own

	locks   bool // LockReads
	blind   bool // its start timestamp is older than itself
	inserts []percolator.Cell
}

func (a *attempt) get(ctx context.Context, c percolator.Cell) ([]byte, error) {
	return a.note(c)(a.tx.Get(ctx, c))
}

func (a *attempt) getForUpdate(ctx context.Context, c percolator.Cell) ([]byte, error) {
	v, err := a.note(c)(a.tx.GetForUpdate(ctx, c))
	if err == nil && !a.locks {
		a.rec.Lock(history.Cell(c))
	}
	return v, err
}

// note records an answer. Absence is one.
func (a *attempt) note(c percolator.Cell) func([]byte, error) ([]byte, error) {
	return func(v []byte, err error) ([]byte, error) {
		switch {
		case errors.Is(err, percolator.ErrNotFound):
			v, err = nil, nil
		case err != nil:
			corrupt(a.rec, err)
			return nil, err
		}
		a.rec.Read(history.Cell(c), v)
		if a.locks {
			a.rec.Lock(history.Cell(c))
		}
		return v, nil
	}
}

// corrupt records that the store contradicts itself.
func corrupt(rec *history.Txn, err error) {
	if errors.Is(err, percolator.ErrCorrupt) {
		rec.Broken("the store is corrupt: %v", err)
	}
}

func (a *attempt) getMulti(ctx context.Context, cells ...percolator.Cell) ([][]byte, error) {
	values, err := a.tx.GetMulti(ctx, cells...)
	if err != nil {
		corrupt(a.rec, err)
		return nil, err
	}
	for i, c := range cells {
		a.rec.Read(history.Cell(c), values[i])
		if a.locks {
			a.rec.Lock(history.Cell(c))
		}
	}
	return values, nil
}

func (a *attempt) set(c percolator.Cell, v []byte) error {
	err := a.tx.Set(c, v)
	if err == nil {
		a.rec.Put(history.Cell(c), v)
	}
	return err
}

func (a *attempt) insert(c percolator.Cell, v []byte) error {
	err := a.tx.Insert(c, v)
	if err == nil {
		a.rec.Put(history.Cell(c), v)
		a.inserts = append(a.inserts, c)
	}
	return err
}

func (a *attempt) delete(c percolator.Cell) error {
	err := a.tx.Delete(c)
	if err == nil {
		a.rec.Delete(history.Cell(c))
	}
	return err
}

func (a *attempt) notify(c percolator.Cell) error {
	err := a.tx.Notify(c)
	if err == nil {
		a.rec.Notifies(history.Cell(c))
	}
	return err
}

// unique makes a value that no one else writes.
func (a *attempt) unique(says string) []byte {
	a.n++
	if a.n == 1 {
		return value(says, a.id)
	}
	return value(says, a.s.ids.Add(1))
}

// receipt writes the receipt.
func (a *attempt) receipt() error { return a.set(receiptCell(a.id), value("", a.id)) }

// options of a transaction of the workload.
type options struct {
	kind      string
	noReceipt bool // for transactions of one row, all of whose values are unique
	lockReads bool
	blind     bool

	acknowledged func() // called after the commit, maybe during phase two
}

// transact runs f in a transaction. The receipt is the primary now and then, else the last write.
func (s *Session) transact(ctx context.Context, o options, f func(context.Context, *attempt) error) {
	if !o.blind && !o.lockReads && s.Rand.IntN(8) == 0 {
		s.update(ctx, o, f)
		return
	}
	a := s.begin(o)
	var opts []percolator.TxnOption
	if o.lockReads {
		opts = append(opts, percolator.LockReads())
	}
	var before tso.Timestamp // it began; 0: nobody knows
	if o.blind {
		opts = append(opts, percolator.Blind())
		before, _ = s.Client.Engine().Clock.Next(ctx)
	}
	tx, err := s.Client.Begin(ctx, opts...)
	if err != nil {
		s.end(a, o, 0, err, false)
		return
	}
	a.use(tx)
	if err := s.fill(ctx, a, o, f); err != nil {
		_ = tx.Rollback(ctx)
		s.end(a, o, 0, err, false)
		return
	}
	ts, err := tx.Commit(ctx)
	if o.blind {
		a.use(tx) // its start timestamp may have moved
		a.checkRefusal(before, err)
	}
	s.end(a, o, ts, err, true)
}

// checkRefusal requires that a blind transaction is not refused for good by a start timestamp from
// before it began (I2).
func (a *attempt) checkRefusal(before tso.Timestamp, err error) {
	_, unanswered := status.FromError(err)
	if errors.Is(err, percolator.ErrOutcomeUnknown) || unanswered || a.tx.StartTimestamp() > before {
		return
	}
	if errors.Is(err, percolator.ErrUnique) || errors.Is(err, percolator.ErrSnapshotTooOld) {
		a.rec.Broken("a blind transaction is refused at %d, and began after %d: %v", a.tx.StartTimestamp(), before, err)
	}
}

// update is transact by Client.Update: every attempt is a transaction of its own.
func (s *Session) update(ctx context.Context, o options, f func(context.Context, *attempt) error) {
	a := s.begin(o)
	var since int64
	filled := false
	ts, err := s.Client.Update(ctx, func(ctx context.Context, tx *percolator.Txn) error {
		if since != 0 { // the attempt before this one had a conflict
			s.end(a, o, 0, percolator.ErrConflict, true)
			a = s.begin(o)
			a.rec.Since(since)
		}
		a.use(tx)
		err := s.fill(ctx, a, o, f)
		since, filled = s.History.Moment(), err == nil
		return err
	}, percolator.MaxAttempts(3))
	s.end(a, o, ts, err, filled)
}

func (s *Session) begin(o options) *attempt {
	return &attempt{s: s, rec: s.History.Begin(s.Name, o.kind), id: s.ids.Add(1), locks: o.lockReads, blind: o.blind}
}

func (a *attempt) use(tx *percolator.Txn) {
	a.tx = tx
	if a.blind {
		a.rec.StartedAt(tx.StartTimestamp())
		return
	}
	a.rec.Started(tx.StartTimestamp())
}

func (s *Session) fill(ctx context.Context, a *attempt, o options, f func(context.Context, *attempt) error) error {
	first := s.Rand.IntN(4) == 0
	if !o.noReceipt && first {
		if err := a.receipt(); err != nil {
			return err
		}
	}
	if err := f(ctx, a); err != nil {
		return err
	}
	if !o.noReceipt && !first {
		return a.receipt()
	}
	return nil
}

// end records the outcome. asked says that Commit was called.
func (s *Session) end(a *attempt, o options, ts tso.Timestamp, err error, asked bool) {
	switch {
	case err == nil:
		a.rec.End(history.Committed, ts)
		s.remember(ts)
		s.fresh.tell(s.Client, ts)
		s.tally(o.kind, func(c *Count) { c.Committed++ })
		if o.acknowledged != nil {
			o.acknowledged()
		}
		return
	case asked && (errors.Is(err, percolator.ErrOutcomeUnknown) || s.Dead()):
		a.rec.End(history.Unknown, 0)
		s.tally(o.kind, func(c *Count) { c.Unknown++ })
		return
	}
	corrupt(a.rec, err)
	if errors.Is(err, percolator.ErrExists) && len(a.inserts) == 1 {
		a.rec.Present(history.Cell(a.inserts[0]))
	}
	a.rec.End(history.Aborted, 0)
	s.tally(o.kind, func(c *Count) { c.Aborted++ })
}
