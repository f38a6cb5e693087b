package tso

import (
	"context"
	"fmt"
	"slices"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/internal/planted"
)

// Where an oracle's record is kept in Bigtable: in the row that has the oracle's
// name. The family needs no garbage collection, there is one version of each cell.
//
// One CheckAndMutateRow writes all cells of the record: the state, a witness that
// repeats its version, epoch and mark, and the fact that there is a record. They agree,
// or the row was damaged: edited, partly deleted, partly restored.
const (
	BigtableTable  = "percolator_meta"
	BigtableFamily = "oracle"

	bigtableColumn      = "state"
	bigtableWitness     = "witness"
	bigtableInitialized = "initialized"

	// bigtableTimestamp is the timestamp of every version of a cell, so that a
	// write replaces the cell instead of adding a version.
	bigtableTimestamp = bigtable.Timestamp(1000)

	// maxRecordBytes bounds an encoded State. The predicate of a swap contains it
	// twice, and a filter may have 20 KB.
	maxRecordBytes = 8192
)

// bigtableStore keeps the record in one row and swaps it with CheckAndMutateRow,
// whose predicate is the exact value of the state's cell.
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
// instance has to be treated as a loss of data: stop the oracles first, and use [Raise]
// before they start again. A server logs this when it starts.
//
// The store notices a row that was edited, deleted in part or restored in part. It
// cannot notice a row that is gone, or restored as a whole: see
// [ServerConfig.RequireRecord] and [ServerConfig.Served].
func NewBigtableStore(tbl *bigtable.Table, name string) Store {
	return &bigtableStore{table: tbl, name: name}
}

// Warning says what this store cannot promise; see [Store].
func (s *bigtableStore) Warning() string {
	return "the oracle's record is kept in Bigtable, whose replication is asynchronous: after a failover of the instance to another cluster, " +
		"stop all servers of the oracle and raise its mark before they start again"
}

// rereads is how often a record that looks damaged is read again. Emulators, but not
// Bigtable, may return a row without some of its columns while others are added.
const rereads = 2

func (s *bigtableStore) Load(ctx context.Context) (State, error) {
	if err := checkName(s.name); err != nil {
		return State{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	for again := 0; ; again++ {
		cells, err := s.read(ctx)
		if err != nil {
			return State{}, err
		}
		st, err := s.decode(cells)
		if err == nil || again == rereads {
			return st, err
		}
	}
}

// read returns the cells of the record.
func (s *bigtableStore) read(ctx context.Context) ([]bigtable.ReadItem, error) {
	row, err := s.table.ReadRow(ctx, s.name, bigtable.RowFilter(recordCells()))
	if err != nil {
		return nil, s.wrap(ctx, "reading the record", err)
	}
	return row[BigtableFamily], nil
}

// decode makes a State of the cells of the record. Every error is ErrCorrupt.
func (s *bigtableStore) decode(cells []bigtable.ReadItem) (State, error) {
	if len(cells) == 0 {
		return State{}, nil
	}
	damaged := func(format string, args ...any) (State, error) {
		return State{}, corruptf("row %q of %s: %s", s.name, BigtableTable, fmt.Sprintf(format, args...))
	}
	values := map[string][]byte{}
	for _, cell := range cells {
		if _, twice := values[cell.Column]; twice {
			return damaged("2 versions or more of %s, not 1", cell.Column)
		}
		values[cell.Column] = cell.Value
	}
	value, hasState := values[BigtableFamily+":"+bigtableColumn]
	copied, hasWitness := values[BigtableFamily+":"+bigtableWitness]
	_, initialized := values[BigtableFamily+":"+bigtableInitialized]
	switch {
	case !hasState && !hasWitness:
		return damaged("the mark is missing, although the oracle was initialized")
	case !hasState:
		return damaged("the mark is missing: there is no %s:%s, although %s was written with it: %.300q",
			BigtableFamily, bigtableColumn, bigtableWitness, copied)
	}
	state, err := decodeState(value)
	if err != nil {
		return damaged("column %s:%s: %v; found %.300q", BigtableFamily, bigtableColumn, err, value)
	}
	switch {
	case !hasWitness:
		return damaged("%s:%s is missing, which is written with the record; the record has the high-water mark %d", BigtableFamily, bigtableWitness, state.HighWater)
	case !initialized:
		return damaged("%s:%s is missing, which is written with the record; the record has the high-water mark %d", BigtableFamily, bigtableInitialized, state.HighWater)
	}
	w, err := decodeWitness(copied)
	if err != nil {
		return damaged("column %s:%s: %v; found %.300q", BigtableFamily, bigtableWitness, err, copied)
	}
	if err := w.confirm(state); err != nil {
		return damaged("%v", err)
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
	set, err := storing(bigtable.NewMutation(), next)
	if err != nil {
		return err
	}
	if planted.On(planted.UnfencedWrite) {
		return s.table.Apply(ctx, s.name, set)
	}
	// The first record needs the absence of any cell, a later one the presence of
	// exactly the old state. The witness need not be compared: a leader that goes on
	// from a state knows its witness, and writes it anew.
	first := old == State{}
	swap := bigtable.NewCondMutation(recordCells(), nil, set)
	if !first {
		expected, err := encodeState(old)
		if err != nil {
			return err
		}
		swap = bigtable.NewCondMutation(exactState(expected), set, nil)
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

// storing makes of m a mutation that stores st in all cells of the record.
func storing(m *bigtable.Mutation, st State) (*bigtable.Mutation, error) {
	value, err := encodeState(st)
	if err != nil {
		return nil, err
	}
	copied, err := encodeWitness(st)
	if err != nil {
		return nil, err
	}
	m.Set(BigtableFamily, bigtableColumn, bigtableTimestamp, value)
	m.Set(BigtableFamily, bigtableWitness, bigtableTimestamp, copied)
	m.Set(BigtableFamily, bigtableInitialized, bigtableTimestamp, nil)
	return m, nil
}

// remains implements repairable. The repair is conditional on the state's cell, so that
// neither it nor a late copy of it replaces what somebody else has written since.
func (s *bigtableStore) remains(ctx context.Context) (found State, repair func(context.Context, State) error, err error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	cells, err := s.read(ctx)
	if err != nil {
		return State{}, nil, err
	}
	var state []byte
	for _, cell := range cells {
		switch cell.Column {
		case BigtableFamily + ":" + bigtableColumn:
			state = append([]byte{}, cell.Value...)
			found = found.withRemains(salvageState(cell.Value))
		case BigtableFamily + ":" + bigtableWitness:
			if w, err := decodeWitness(cell.Value); err == nil {
				found = found.withRemains(State{Version: w.Version, Epoch: w.Epoch, HighWater: w.HighWater})
			}
		}
	}
	if len(state) > maxRecordBytes {
		return State{}, nil, corruptf("row %q of %s: column %s:%s has %d bytes: delete the row first", s.name, BigtableTable, BigtableFamily, bigtableColumn, len(state))
	}
	return found, func(ctx context.Context, next State) error { return s.repair(ctx, state, next) }, nil
}

// repair stores next if the state's cell still has this value; nil is its absence.
func (s *bigtableStore) repair(ctx context.Context, state []byte, next State) error {
	set := bigtable.NewMutation()
	for _, column := range []string{bigtableColumn, bigtableWitness, bigtableInitialized} {
		set.DeleteCellsInColumn(BigtableFamily, column) // other versions
	}
	set, err := storing(set, next)
	if err != nil {
		return err
	}
	swap := bigtable.NewCondMutation(stateCell(), nil, set)
	if state != nil {
		swap = bigtable.NewCondMutation(exactState(state), set, nil)
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	var matched bool
	err = s.table.Apply(ctx, s.name, swap, bigtable.GetCondMutationResult(&matched))
	switch {
	case err != nil:
		return s.wrap(ctx, "repairing the record", err)
	case matched != (state != nil):
		return fmt.Errorf("tso: repairing the record of oracle %q: %w", s.name, ErrFenced)
	}
	return nil
}

// wrap names the oracle and the table.
func (s *bigtableStore) wrap(ctx context.Context, doing string, err error) error {
	if err = withContext(ctx, err); lasting(err) {
		return fmt.Errorf("tso: %s of oracle %q: %w (is there a table %s with the family %s?)", doing, s.name, err, BigtableTable, BigtableFamily)
	}
	return fmt.Errorf("tso: %s of oracle %q in %s: %w", doing, s.name, BigtableTable, err)
}

// recordCells lets through the cells of the record's columns.
func recordCells() bigtable.Filter {
	return bigtable.ChainFilters(bigtable.FamilyFilter(BigtableFamily),
		bigtable.ColumnFilter(bigtableColumn+"|"+bigtableWitness+"|"+bigtableInitialized))
}

// stateCell lets through the state's cell.
func stateCell() bigtable.Filter {
	return bigtable.ColumnRangeFilter(BigtableFamily, bigtableColumn, bigtableColumn+"\x00")
}

// exactState lets through the state's cell if it has this value.
func exactState(value []byte) bigtable.Filter {
	return bigtable.ChainFilters(stateCell(), bigtable.ValueRangeFilter(value, append(slices.Clone(value), 0)))
}
