package tso

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/tso/internal/record"
)

// BigtableTable and BigtableFamily are the table and the column family in which NewBigtableStore
// keeps the oracle's record. The row key is the name of the oracle. The family needs no garbage
// collection, because each cell has one version.
//
// One CheckAndMutateRow writes all cells of the record: the state, a witness that repeats its
// version, epoch and mark, and the fact that there is a record. They agree, or someone has edited,
// partly deleted or partly restored the row.
const (
	BigtableTable  = "percolator_meta"
	BigtableFamily = "oracle"

	bigtableColumn      = "state"
	bigtableWitness     = "witness"
	bigtableInitialized = "initialized"

	// bigtableTimestamp is the timestamp of every version of a cell, so that a write replaces the
	// cell instead of adding a version.
	bigtableTimestamp = bigtable.Timestamp(1000)
)

// NewBigtableStore returns a store that keeps the record of the oracle called name, 1 to 128 bytes,
// in the row of that name of tbl, in the family [BigtableFamily]. tbl is the table [BigtableTable]
// of the instance.
//
// The application profile must route to a single cluster and allow transactional writes.
// Replication is asynchronous: when an instance fails over to another cluster, the last writes of
// the record may be missing there, and the oracle may serve timestamps again. Package spannerstore
// does not have this weakness. So treat a failover of the instance as a loss of data: stop the
// oracles first, and use [Raise] before they start again. A server logs this when it starts.
//
// The store notices a row that was edited, deleted in part or restored in part. It cannot notice a
// row that is missing, or restored as a whole: see [ServerConfig.RequireRecord] and
// [ServerConfig.Served].
func NewBigtableStore(tbl *bigtable.Table, name string) Store {
	where := BigtableTable + " with the family " + BigtableFamily
	return bigtableStore{store{&record.Store[Timestamp]{
		Backend: &bigtableRow{table: tbl, name: name}, Name: name, Table: where, SessionsTable: where,
	}}}
}

type bigtableStore struct{ store }

// Warning says what this store cannot promise; see [Store].
func (bigtableStore) Warning() string {
	return "the oracle's record is kept in Bigtable, whose replication is asynchronous: after a failover of the instance to another cluster, " +
		"stop all servers of the oracle and raise its mark before they start again"
}

// bigtableRow is a [record.Backend] that keeps the record in one row and swaps it with
// CheckAndMutateRow, whose predicate is the exact value of the state's cell.
type bigtableRow struct {
	table *bigtable.Table
	name  string
}

// rereads is how often a record that looks damaged is read again. Emulators, but not Bigtable, may
// return a row without some of its columns while others are added.
const rereads = 2

func (r *bigtableRow) Read(ctx context.Context) (recordState, error) {
	for again := 0; ; again++ {
		cells, err := r.read(ctx)
		if err != nil {
			return recordState{}, err
		}
		st, err := r.decode(cells)
		if err == nil || again == rereads {
			return st, err
		}
	}
}

// read returns the cells of the record.
func (r *bigtableRow) read(ctx context.Context) ([]bigtable.ReadItem, error) {
	row, err := r.table.ReadRow(ctx, r.name, bigtable.RowFilter(recordCells()))
	return row[BigtableFamily], err
}

// decode makes a record of its cells. Every error is ErrCorrupt.
func (r *bigtableRow) decode(cells []bigtable.ReadItem) (recordState, error) {
	if len(cells) == 0 {
		return recordState{}, nil
	}
	damaged := func(format string, args ...any) (recordState, error) {
		return recordState{}, record.Corruptf("row %q of %s: %s", r.name, BigtableTable, fmt.Sprintf(format, args...))
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
	state, err := record.DecodeState[Timestamp](value)
	if err != nil {
		return damaged("column %s:%s: %v; found %.300q", BigtableFamily, bigtableColumn, err, value)
	}
	missing := func(column string) (recordState, error) {
		return damaged("%s:%s is missing, which is written with the record; the record has the high-water mark %d",
			BigtableFamily, column, state.HighWater)
	}
	switch {
	case !hasWitness:
		return missing(bigtableWitness)
	case !initialized:
		return missing(bigtableInitialized)
	}
	w, err := record.DecodeWitness[Timestamp](copied)
	if err != nil {
		return damaged("column %s:%s: %v; found %.300q", BigtableFamily, bigtableWitness, err, copied)
	}
	if err := w.Confirm(state); err != nil {
		return damaged("%v", err)
	}
	return state, nil
}

func (r *bigtableRow) Swap(ctx context.Context, old, next recordState) error {
	set, err := storing(bigtable.NewMutation(), next)
	if err != nil {
		return err
	}
	// The first record needs the absence of any cell, a later one the presence of exactly the old
	// state. The witness need not be compared: a leader that goes on from a state knows its
	// witness, and writes it anew.
	if old == (recordState{}) {
		return r.apply(ctx, recordCells(), nil, set)
	}
	expected, err := old.Encode()
	if err != nil {
		return err
	}
	return r.apply(ctx, exactState(expected), set, nil)
}

// apply applies the one of two mutations that is not nil if the filter lets something through, or
// nothing. The client library never retries a CheckAndMutateRow: an error may mean that only the
// answer was lost.
func (r *bigtableRow) apply(ctx context.Context, filter bigtable.Filter, something, nothing *bigtable.Mutation) error {
	var matched bool
	err := r.table.Apply(ctx, r.name, bigtable.NewCondMutation(filter, something, nothing),
		bigtable.GetCondMutationResult(&matched))
	if err == nil && matched != (something != nil) {
		return record.ErrMismatch
	}
	return err
}

// storing adds to m what stores st in all cells of the record.
func storing(m *bigtable.Mutation, st recordState) (*bigtable.Mutation, error) {
	value, err := st.Encode()
	if err != nil {
		return nil, err
	}
	copied, err := st.Witness().Encode()
	if err != nil {
		return nil, err
	}
	m.Set(BigtableFamily, bigtableColumn, bigtableTimestamp, value)
	m.Set(BigtableFamily, bigtableWitness, bigtableTimestamp, copied)
	m.Set(BigtableFamily, bigtableInitialized, bigtableTimestamp, nil)
	return m, nil
}

// Remains implements [record.Backend]. The repair is conditional on the state's cell, so that
// neither it nor a late copy of it replaces what another server has written since.
func (r *bigtableRow) Remains(ctx context.Context) (found recordState, repair func(context.Context, recordState) error, err error) {
	cells, err := r.read(ctx)
	if err != nil {
		return recordState{}, nil, err
	}
	var state []byte
	for _, cell := range cells {
		switch cell.Column {
		case BigtableFamily + ":" + bigtableColumn:
			state = append([]byte{}, cell.Value...)
			found = found.WithRemains(record.Salvage[Timestamp](cell.Value))
		case BigtableFamily + ":" + bigtableWitness:
			if w, err := record.DecodeWitness[Timestamp](cell.Value); err == nil {
				found = found.WithRemains(recordState{Version: w.Version, Epoch: w.Epoch, HighWater: w.HighWater})
			}
		}
	}
	if len(state) > record.MaxBytes {
		return recordState{}, nil, record.Corruptf("row %q of %s: column %s:%s has %d bytes: delete the row first",
			r.name, BigtableTable, BigtableFamily, bigtableColumn, len(state))
	}
	return found, func(ctx context.Context, next recordState) error { return r.repair(ctx, state, next) }, nil
}

// repair stores next if the state's cell still has this value; nil is its absence.
func (r *bigtableRow) repair(ctx context.Context, state []byte, next recordState) error {
	set := bigtable.NewMutation()
	for _, column := range []string{bigtableColumn, bigtableWitness, bigtableInitialized} {
		set.DeleteCellsInColumn(BigtableFamily, column) // other versions
	}
	set, err := storing(set, next)
	if err != nil {
		return err
	}
	if state == nil {
		return r.apply(ctx, stateCell(), nil, set)
	}
	return r.apply(ctx, exactState(state), set, nil)
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

// bigtableSession is the column of a session's row, in the family of the record.
const bigtableSession = "session"

// sessionPrefix is how the keys of the rows begin in which the sessions of an oracle are kept, one
// each; the id follows. The first byte occurs in no UTF-8, so no oracle's record and no other row
// of the table has such a key. The name comes with its length: one oracle's prefix never begins
// another's.
func sessionPrefix(name string) string {
	return fmt.Sprintf("\xffsession:%03d:%s:", len(name), name)
}

func (r *bigtableRow) AddSession(ctx context.Context, id string) error {
	set := bigtable.NewMutation()
	set.Set(BigtableFamily, bigtableSession, bigtableTimestamp, nil)
	return r.table.Apply(ctx, sessionPrefix(r.name)+id, set)
}

func (r *bigtableRow) RemoveSessions(ctx context.Context, ids ...string) error {
	rows := make([]string, len(ids))
	removals := make([]*bigtable.Mutation, len(ids))
	for i, id := range ids {
		rows[i] = sessionPrefix(r.name) + id
		removals[i] = bigtable.NewMutation()
		removals[i].DeleteRow()
	}
	failed, err := r.table.ApplyBulk(ctx, rows, removals)
	return errors.Join(append(failed, err)...)
}

func (r *bigtableRow) Sessions(ctx context.Context) (ids []string, err error) {
	prefix := sessionPrefix(r.name)
	err = r.table.ReadRows(ctx, bigtable.PrefixRange(prefix), func(row bigtable.Row) bool {
		ids = append(ids, row.Key()[len(prefix):])
		return true
	}, bigtable.LimitRows(record.MaxStoredSessions), bigtable.RowFilter(bigtable.ChainFilters(
		bigtable.ColumnRangeFilter(BigtableFamily, bigtableSession, bigtableSession+"\x00"), bigtable.StripValueFilter())))
	return ids, err
}
