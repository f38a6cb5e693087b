package tso

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"cloud.google.com/go/spanner"

	"github.com/gopercolator/percolator/internal/planted"
)

// SpannerDDL is the statement that creates the table in which oracles keep their
// records in Spanner: two rows each, which every write replaces in one transaction.
// The row of kind "state" is the record, the one of kind "witness" repeats its version,
// epoch and mark. They agree, or somebody has edited or deleted one of them.
const SpannerDDL = `CREATE TABLE IF NOT EXISTS PercolatorOracle (
  Name STRING(128) NOT NULL,
  Kind STRING(16) NOT NULL,
  Version INT64 NOT NULL,
  Nonce STRING(64),
  Epoch INT64 NOT NULL,
  Holder STRING(128),
  Address STRING(512),
  LeaseNanos INT64,
  HighWater INT64 NOT NULL,
) PRIMARY KEY (Name, Kind)`

const (
	spannerTable   = "PercolatorOracle"
	spannerState   = "state"
	spannerWitness = "witness"
)

// spannerRow is a row of the table. A witness has neither nonce, holder, address nor
// lease.
type spannerRow struct {
	Name       string
	Kind       string
	Version    int64
	Nonce      spanner.NullString
	Epoch      int64
	Holder     spanner.NullString
	Address    spanner.NullString
	LeaseNanos spanner.NullInt64
	HighWater  int64
}

var spannerColumns = []string{"Name", "Kind", "Version", "Nonce", "Epoch", "Holder", "Address", "LeaseNanos", "HighWater"}

// spannerStore keeps the record in two rows and swaps them in a transaction.
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
// The store notices a row that was edited or deleted. It cannot notice a record that is
// gone as a whole, or was restored from a backup: see [ServerConfig.RequireRecord] and
// [ServerConfig.Served].
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
	rows, err := s.read(ctx, s.db.Single())
	if err != nil {
		return State{}, s.wrap(ctx, "reading the record", err)
	}
	return s.decode(rows)
}

// spannerReader is a transaction that reads.
type spannerReader interface {
	Read(ctx context.Context, table string, keys spanner.KeySet, columns []string) *spanner.RowIterator
}

// read returns the rows of the record. Errors are not wrapped: within a transaction the
// client library looks for aborts.
func (s *spannerStore) read(ctx context.Context, from spannerReader) (rows []spannerRow, err error) {
	err = from.Read(ctx, spannerTable, spanner.Key{s.name}.AsPrefix(), spannerColumns).Do(func(r *spanner.Row) error {
		var row spannerRow
		if err := r.ToStruct(&row); err != nil {
			return corruptf("a row %q of %s: %v", s.name, spannerTable, err)
		}
		rows = append(rows, row)
		return nil
	})
	return rows, err
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
	err := s.replace(ctx, next, func(rows []spannerRow) error {
		stored, err := s.decode(rows)
		if err == nil && stored != old && !planted.On(planted.UnfencedWrite) {
			err = errMismatch
		}
		return err
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

// replace stores next in one transaction if expected accepts what is there.
func (s *spannerStore) replace(ctx context.Context, next State, expected func(rows []spannerRow) error) error {
	select {
	case <-s.turn:
		defer func() { s.turn <- struct{}{} }()
	case <-ctx.Done():
		return ctx.Err()
	}
	_, err := s.db.ReadWriteTransaction(ctx, func(ctx context.Context, txn *spanner.ReadWriteTransaction) error {
		rows, err := s.read(ctx, txn)
		if err != nil {
			return err
		}
		if err := expected(rows); err != nil {
			return err
		}
		mutations, err := s.write(next)
		if err != nil {
			return err
		}
		for _, row := range rows { // of a damaged record
			if row.Kind != spannerState && row.Kind != spannerWitness {
				mutations = append(mutations, spanner.Delete(spannerTable, spanner.Key{row.Name, row.Kind}))
			}
		}
		return txn.BufferWrite(mutations)
	})
	return err
}

// decode makes a State of the rows of the record. Every error is ErrCorrupt.
func (s *spannerStore) decode(rows []spannerRow) (State, error) {
	if len(rows) == 0 {
		return State{}, nil
	}
	damaged := func(format string, args ...any) (State, error) {
		return State{}, corruptf("row %q of %s: %s", s.name, spannerTable, fmt.Sprintf(format, args...))
	}
	var st State
	var w markWitness
	for _, row := range rows {
		switch row.Kind {
		case spannerState:
			st = row.state()
			if st == (State{}) {
				return damaged("it is empty")
			}
			if err := st.check(); err != nil {
				return damaged("%v; found %+v", err, st)
			}
		case spannerWitness:
			w = witnessOf(row.state())
		default:
			return damaged("its kind %q is unknown", row.Kind)
		}
	}
	switch {
	case st == State{}:
		return damaged("the mark is missing: there is no row of kind %q, although %+v was written with it", spannerState, w)
	case w == markWitness{}:
		return damaged("the row of kind %q is missing, which is written with the record; the record has the high-water mark %d", spannerWitness, st.HighWater)
	}
	if err := w.confirm(st); err != nil {
		return damaged("%v", err)
	}
	return st, nil
}

// state returns the fields of a State that the row has.
func (r spannerRow) state() State {
	return State{
		Version: r.Version, Nonce: r.Nonce.StringVal, Epoch: r.Epoch, Holder: r.Holder.StringVal, Address: r.Address.StringVal,
		Lease: time.Duration(r.LeaseNanos.Int64), HighWater: Timestamp(r.HighWater),
	}
}

// write returns the mutations that store st.
func (s *spannerStore) write(st State) ([]*spanner.Mutation, error) {
	text := func(v string) spanner.NullString { return spanner.NullString{StringVal: v, Valid: true} }
	var mutations []*spanner.Mutation
	for _, row := range []spannerRow{
		{
			Name: s.name, Kind: spannerState, Version: st.Version, Nonce: text(st.Nonce), Epoch: st.Epoch, Holder: text(st.Holder),
			Address: text(st.Address), LeaseNanos: spanner.NullInt64{Int64: int64(st.Lease), Valid: true}, HighWater: int64(st.HighWater),
		},
		{Name: s.name, Kind: spannerWitness, Version: st.Version, Epoch: st.Epoch, HighWater: int64(st.HighWater)},
	} {
		m, err := spanner.InsertOrUpdateStruct(spannerTable, row)
		if err != nil {
			return nil, fmt.Errorf("tso: storing record %d: %w", st.Version, err)
		}
		mutations = append(mutations, m)
	}
	return mutations, nil
}

// remains implements repairable. The repair is conditional on the rows that were found.
func (s *spannerStore) remains(ctx context.Context) (found State, repair func(context.Context, State) error, err error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	rows, err := s.read(ctx, s.db.Single())
	if err != nil {
		return State{}, nil, s.wrap(ctx, "reading the record", err)
	}
	for _, row := range rows {
		found = found.withRemains(row.state())
	}
	return found, func(ctx context.Context, next State) error {
		ctx, cancel := context.WithTimeout(ctx, storeTimeout)
		defer cancel()
		err := s.replace(ctx, next, func(now []spannerRow) error {
			if !slices.Equal(now, rows) {
				return fmt.Errorf("tso: repairing the record of oracle %q: %w", s.name, ErrFenced)
			}
			return nil
		})
		if err != nil && !errors.Is(err, ErrFenced) {
			err = s.wrap(ctx, "repairing the record", err)
		}
		return err
	}, nil
}

// wrap names the oracle and the table.
func (s *spannerStore) wrap(ctx context.Context, doing string, err error) error {
	if err = withContext(ctx, err); lasting(err) {
		return fmt.Errorf("tso: %s of oracle %q: %w (is there a table %s?)", doing, s.name, err, spannerTable)
	}
	return fmt.Errorf("tso: %s of oracle %q in %s: %w", doing, s.name, spannerTable, err)
}
