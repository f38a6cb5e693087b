package tso

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cloud.google.com/go/spanner"
)

// SpannerDDL is the statement that creates the table in which oracles keep their
// records in Spanner, one row each.
const SpannerDDL = `CREATE TABLE IF NOT EXISTS PercolatorOracle (
  Name STRING(128) NOT NULL,
  Version INT64 NOT NULL,
  Nonce STRING(64) NOT NULL,
  Epoch INT64 NOT NULL,
  Holder STRING(128) NOT NULL,
  Address STRING(512) NOT NULL,
  LeaseNanos INT64 NOT NULL,
  HighWater INT64 NOT NULL,
) PRIMARY KEY (Name)`

const spannerTable = "PercolatorOracle"

var spannerColumns = []string{"Version", "Nonce", "Epoch", "Holder", "Address", "LeaseNanos", "HighWater"}

// spannerStore keeps the record in one row and swaps it in a transaction.
type spannerStore struct {
	db   *spanner.Client
	name string

	// turn holds a token while no transaction runs: one transaction at a time. The
	// server has no use for more, and Spanner's emulator fails concurrent read-write
	// transactions of one client.
	turn chan struct{}
}

// NewSpannerStore returns a store that keeps the record of the oracle called name, 1
// to 128 bytes, in the table that [SpannerDDL] creates. It is the store for
// production: Spanner's writes survive the loss of a zone or, in a multi-region
// configuration, of a region.
//
// The store runs one transaction at a time. Spanner's emulator needs that to hold for
// all users of db: against the emulator, give each store a client of its own.
func NewSpannerStore(db *spanner.Client, name string) Store {
	s := &spannerStore{db: db, name: name, turn: make(chan struct{}, 1)}
	s.turn <- struct{}{}
	return s
}

func (s *spannerStore) Load(ctx context.Context) (State, error) {
	if err := checkName(s.name); err != nil {
		return State{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	row, err := s.db.Single().ReadRow(ctx, spannerTable, spanner.Key{s.name}, spannerColumns)
	if err != nil && !absent(err) {
		return State{}, s.wrap(ctx, "reading the record", err)
	}
	return s.decode(row)
}

func (s *spannerStore) CompareAndSwap(ctx context.Context, old, next State) error {
	if err := checkName(s.name); err != nil {
		return err
	}
	if err := old.checkStep(next); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	select {
	case <-s.turn:
		defer func() { s.turn <- struct{}{} }()
	case <-ctx.Done():
		return s.wrap(ctx, "storing the record", ctx.Err())
	}
	_, err := s.db.ReadWriteTransaction(ctx, func(ctx context.Context, txn *spanner.ReadWriteTransaction) error {
		row, err := txn.ReadRow(ctx, spannerTable, spanner.Key{s.name}, spannerColumns)
		if err != nil && !absent(err) {
			return err // unwrapped: the client library looks for aborts
		}
		if stored, err := s.decode(row); err != nil {
			return err
		} else if stored != old {
			return errMismatch
		}
		return txn.BufferWrite([]*spanner.Mutation{s.write(next)})
	})
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrCorrupt):
		return err
	case lasting(err):
		return s.wrap(ctx, "storing the record", err)
	}
	return settle(ctx, s.Load, old, next, withContext(ctx, err))
}

// decode makes a State of a row; nil is the absence of one.
func (s *spannerStore) decode(row *spanner.Row) (State, error) {
	if row == nil {
		return State{}, nil
	}
	var st State
	var lease, highWater int64
	if err := row.Columns(&st.Version, &st.Nonce, &st.Epoch, &st.Holder, &st.Address, &lease, &highWater); err != nil {
		return State{}, corruptf("row %q of %s: %v", s.name, spannerTable, err)
	}
	st.Lease, st.HighWater = time.Duration(lease), Timestamp(highWater)
	if st == (State{}) {
		return State{}, corruptf("row %q of %s is empty", s.name, spannerTable)
	}
	if err := st.check(); err != nil {
		return State{}, corruptf("row %q of %s: %v; found %+v", s.name, spannerTable, err, st)
	}
	return st, nil
}

// write returns the mutation that stores st.
func (s *spannerStore) write(st State) *spanner.Mutation {
	return spanner.InsertOrUpdateMap(spannerTable, map[string]any{
		"Name":       s.name,
		"Version":    st.Version,
		"Nonce":      st.Nonce,
		"Epoch":      st.Epoch,
		"Holder":     st.Holder,
		"Address":    st.Address,
		"LeaseNanos": int64(st.Lease),
		"HighWater":  int64(st.HighWater),
	})
}

// absent reports whether err says that there is no such row.
func absent(err error) bool { return errors.Is(err, spanner.ErrRowNotFound) }

// wrap names the oracle and the table.
func (s *spannerStore) wrap(ctx context.Context, doing string, err error) error {
	if err = withContext(ctx, err); lasting(err) {
		return fmt.Errorf("tso: %s of oracle %q: %w (is there a table %s?)", doing, s.name, err, spannerTable)
	}
	return fmt.Errorf("tso: %s of oracle %q in %s: %w", doing, s.name, spannerTable, err)
}
