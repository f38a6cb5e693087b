package tso

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"cloud.google.com/go/bigtable"
)

// Where an oracle's record is kept in Bigtable: in the row that has the oracle's
// name. The family needs no garbage collection, there is one cell.
const (
	BigtableTable  = "percolator_meta"
	BigtableFamily = "oracle"

	bigtableColumn = "state"

	// bigtableTimestamp is the timestamp of every version of the cell, so that a
	// write replaces the cell instead of adding a version.
	bigtableTimestamp = bigtable.Timestamp(1000)

	// maxRecordBytes bounds an encoded State. The predicate of a swap contains it
	// twice, and a filter may have 20 KB.
	maxRecordBytes = 8192
)

// bigtableStore keeps the record in one cell and swaps it with CheckAndMutateRow,
// whose predicate is the exact value of the cell.
type bigtableStore struct {
	table *bigtable.Table
	name  string
}

// NewBigtableStore returns a store that keeps the record of the oracle called name, 1
// to 128 bytes, in the row of that name of tbl, in the family [BigtableFamily]. tbl
// is the table [BigtableTable] of the instance.
//
// The application profile must route to a single cluster and allow transactional
// writes. Replication is asynchronous: when an instance fails over to another
// cluster, the last writes of the record may be missing there and timestamps may be
// served again. [NewSpannerStore] does not have this weakness. So a failover of the
// instance has to be treated as a loss of data: stop the oracles first.
func NewBigtableStore(tbl *bigtable.Table, name string) Store {
	return &bigtableStore{table: tbl, name: name}
}

func (s *bigtableStore) Load(ctx context.Context) (State, error) {
	if err := checkName(s.name); err != nil {
		return State{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	row, err := s.table.ReadRow(ctx, s.name, bigtable.RowFilter(recordCells()))
	if err != nil {
		return State{}, s.wrap(ctx, "reading the record", err)
	}
	cells := row[BigtableFamily]
	switch {
	case len(cells) == 0:
		return State{}, nil
	case len(cells) > 1:
		return State{}, corruptf("row %q of %s has %d versions of %s:%s, not 1", s.name, BigtableTable, len(cells), BigtableFamily, bigtableColumn)
	}
	state, err := decodeState(cells[0].Value)
	if err != nil {
		return State{}, corruptf("row %q of %s, column %s:%s: %v; found %.300q",
			s.name, BigtableTable, BigtableFamily, bigtableColumn, err, cells[0].Value)
	}
	return state, nil
}

func (s *bigtableStore) CompareAndSwap(ctx context.Context, old, next State) error {
	if err := checkName(s.name); err != nil {
		return err
	}
	if err := old.checkStep(next); err != nil {
		return err
	}
	value, err := encodeState(next)
	if err != nil {
		return err
	}
	set := bigtable.NewMutation()
	set.Set(BigtableFamily, bigtableColumn, bigtableTimestamp, value)

	// The first record needs the absence of any cell, a later one the presence of
	// exactly the old one.
	first := old == State{}
	swap := bigtable.NewCondMutation(recordCells(), nil, set)
	if !first {
		expected, err := encodeState(old)
		if err != nil {
			return err
		}
		exact := bigtable.ChainFilters(recordCells(), bigtable.ValueRangeFilter(expected, append(expected, 0)))
		swap = bigtable.NewCondMutation(exact, set, nil)
	}

	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	var matched bool
	err = s.table.Apply(ctx, s.name, swap, bigtable.GetCondMutationResult(&matched))
	switch {
	case err == nil && matched != first:
		return nil
	case err == nil:
		err = errMismatch
	case lasting(err):
		return s.wrap(ctx, "storing the record", err)
	}
	// CheckAndMutateRow is never sent again by the client library; an error may mean
	// that only the answer was lost.
	return settle(ctx, s.Load, old, next, withContext(ctx, err))
}

// wrap names the oracle and the table.
func (s *bigtableStore) wrap(ctx context.Context, doing string, err error) error {
	if err = withContext(ctx, err); lasting(err) {
		return fmt.Errorf("tso: %s of oracle %q: %w (is there a table %s with the family %s?)", doing, s.name, err, BigtableTable, BigtableFamily)
	}
	return fmt.Errorf("tso: %s of oracle %q in %s: %w", doing, s.name, BigtableTable, err)
}

// recordCells lets through the cells of the record's column.
func recordCells() bigtable.Filter {
	return bigtable.ColumnRangeFilter(BigtableFamily, bigtableColumn, bigtableColumn+"\x00")
}

// storedState is the form of a State in the cell: JSON, so that an operator can read
// it.
type storedState struct {
	Format    int       `json:"format"`
	Version   int64     `json:"version"`
	Nonce     string    `json:"nonce"`
	Epoch     int64     `json:"epoch"`
	Holder    string    `json:"holder,omitempty"`
	Address   string    `json:"address,omitempty"`
	LeaseNS   int64     `json:"lease_ns,omitempty"`
	HighWater Timestamp `json:"high_water"`
}

const storedFormat = 1

// encodeState returns the only encoding of st.
func encodeState(st State) ([]byte, error) {
	b, err := json.Marshal(storedState{
		Format: storedFormat, Version: st.Version, Nonce: st.Nonce, Epoch: st.Epoch,
		Holder: st.Holder, Address: st.Address, LeaseNS: int64(st.Lease), HighWater: st.HighWater,
	})
	if err != nil {
		return nil, fmt.Errorf("tso: encoding record %d: %w", st.Version, err)
	}
	if len(b) > maxRecordBytes {
		return nil, fmt.Errorf("tso: %w: record %d has %d bytes, more than %d", ErrInvalidArgument, st.Version, len(b), maxRecordBytes)
	}
	return b, nil
}

// decodeState is the inverse of encodeState and refuses everything that encodeState
// does not produce: a predicate on the encoding of what was decoded would otherwise
// never match.
func decodeState(b []byte) (State, error) {
	var stored storedState
	if err := json.Unmarshal(b, &stored); err != nil {
		return State{}, err
	}
	if stored.Format != storedFormat {
		return State{}, fmt.Errorf("format %d is not %d", stored.Format, storedFormat)
	}
	st := State{
		Version: stored.Version, Nonce: stored.Nonce, Epoch: stored.Epoch, Holder: stored.Holder,
		Address: stored.Address, Lease: time.Duration(stored.LeaseNS), HighWater: stored.HighWater,
	}
	if err := st.check(); err != nil {
		return State{}, err
	}
	canonical, err := encodeState(st)
	if err != nil {
		return State{}, err
	}
	if (st == State{}) || !bytes.Equal(canonical, b) {
		return State{}, errors.New("it is not in the form in which records are written")
	}
	return st, nil
}
