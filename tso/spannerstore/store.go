// Package spannerstore keeps the record and the sessions of a timestamp oracle in Spanner. It is
// apart from package tso so that clients of an oracle do not link Spanner.
package spannerstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"cloud.google.com/go/spanner"

	"github.com/gopercolator/percolator/internal/ordered"
	"github.com/gopercolator/percolator/tso"
	"github.com/gopercolator/percolator/tso/coordination"
	"github.com/gopercolator/percolator/tso/internal/record"
)

// New returns a store that keeps the record of the oracle called name, 1 to 128 bytes, in the
// tables that [Statements] create. It is the store for production: Spanner's writes survive the
// loss of a zone or, in a multi-region configuration, of a region. It is a
// [coordination.SessionStore] as well.
//
// The store notices a row that was edited or deleted. It cannot notice a record that is missing as
// a whole, or was restored from a backup: see RequireRecord and Served of [tso.ServerConfig].
//
// The store runs one transaction at a time. Spanner's emulator needs that to hold for all users of
// db: against the emulator, give each store a client of its own.
func New(db *spanner.Client, name string) tso.Store {
	r := &rows{db: db, name: name, idle: make(chan struct{}, 1)}
	r.idle <- struct{}{}
	return store{&record.Store[tso.Timestamp]{Backend: r, Name: name, Table: table, SessionsTable: sessionsTable}}
}

type state = record.State[tso.Timestamp]

type store struct{ *record.Store[tso.Timestamp] }

var _ coordination.SessionStore = store{}

func (s store) Load(ctx context.Context) (tso.State, error) {
	st, err := s.Store.Load(ctx)
	return tso.State(st), err
}

func (s store) CompareAndSwap(ctx context.Context, old, next tso.State) error {
	return s.Store.CompareAndSwap(ctx, state(old), state(next))
}

// rows is a [record.Backend] that keeps the record in two rows and swaps them in a transaction.
type rows struct {
	db   *spanner.Client
	name string

	// idle holds a token while no transaction runs: one transaction at a time. The server has no
	// use for more, and Spanner's emulator fails concurrent read-write transactions of one client.
	idle chan struct{}
}

const (
	kindState   = "state"
	kindWitness = "witness"
)

// row is a row of the table. A witness has neither nonce, holder, address nor lease.
type row struct {
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

var columns = []string{"Name", "Kind", "Version", "Nonce", "Epoch", "Holder", "Address", "LeaseNanos", "HighWater"}

func (r *rows) Read(ctx context.Context) (state, error) {
	found, err := r.read(ctx, r.db.Single())
	if err != nil {
		return state{}, err
	}
	return r.decode(found)
}

// reader is a transaction that reads.
type reader interface {
	Read(ctx context.Context, table string, keys spanner.KeySet, columns []string) *spanner.RowIterator
}

// read returns the rows of the record. Errors are not wrapped: within a transaction the client
// library checks for aborts.
func (r *rows) read(ctx context.Context, from reader) (found []row, err error) {
	err = from.Read(ctx, table, spanner.Key{r.name}.AsPrefix(), columns).Do(func(from *spanner.Row) error {
		var one row
		if err := from.ToStruct(&one); err != nil {
			return record.Corruptf("a row %q of %s: %v", r.name, table, err)
		}
		found = append(found, one)
		return nil
	})
	return found, err
}

func (r *rows) Swap(ctx context.Context, old, next state) error {
	return r.replace(ctx, next, func(found []row) error {
		stored, err := r.decode(found)
		if err == nil && stored != old {
			err = record.ErrMismatch
		}
		return err
	})
}

// Remains implements [record.Backend]. The repair is conditional on the rows that were found.
func (r *rows) Remains(ctx context.Context) (left state, repair func(context.Context, state) error, err error) {
	found, err := r.read(ctx, r.db.Single())
	for _, one := range found {
		left = left.WithRemains(one.state())
	}
	return left, func(ctx context.Context, next state) error {
		return r.replace(ctx, next, func(now []row) error {
			if !slices.Equal(now, found) {
				return record.ErrMismatch
			}
			return nil
		})
	}, err
}

// replace stores next in one transaction if expected accepts what is there.
func (r *rows) replace(ctx context.Context, next state, expected func(found []row) error) error {
	select {
	case <-r.idle:
		defer func() { r.idle <- struct{}{} }()
	case <-ctx.Done():
		return ctx.Err()
	}
	_, err := r.db.ReadWriteTransaction(ctx, func(ctx context.Context, txn *spanner.ReadWriteTransaction) error {
		found, err := r.read(ctx, txn)
		if err != nil {
			return err
		}
		if err := expected(found); err != nil {
			return err
		}
		mutations, err := r.write(next)
		if err != nil {
			return err
		}
		for _, one := range found { // of a damaged record
			if one.Kind != kindState && one.Kind != kindWitness {
				mutations = append(mutations, spanner.Delete(table, spanner.Key{one.Name, one.Kind}))
			}
		}
		return txn.BufferWrite(mutations)
	})
	return err
}

// decode makes a record of its rows. Every error is ErrCorrupt.
func (r *rows) decode(found []row) (state, error) {
	if len(found) == 0 {
		return state{}, nil
	}
	damaged := func(format string, args ...any) (state, error) {
		return state{}, record.Corruptf("row %q of %s: %s", r.name, table, fmt.Sprintf(format, args...))
	}
	var st state
	var w record.Witness[tso.Timestamp]
	for _, one := range found {
		switch one.Kind {
		case kindState:
			st = one.state()
			if st == (state{}) {
				return damaged("it is empty")
			}
			if err := st.Check(); err != nil {
				return damaged("%v; found %+v", err, st)
			}
		case kindWitness:
			w = one.state().Witness()
		default:
			return damaged("its kind %q is unknown", one.Kind)
		}
	}
	switch {
	case st == state{}:
		return damaged("the mark is missing: there is no row of kind %q, although %+v was written with it", kindState, w)
	case w == record.Witness[tso.Timestamp]{}:
		return damaged("the row of kind %q is missing, which is written with the record; "+
			"the record has the high-water mark %d", kindWitness, st.HighWater)
	}
	if err := w.Confirm(st); err != nil {
		return damaged("%v", err)
	}
	return st, nil
}

// state returns the fields of a record that the row has.
func (r row) state() state {
	return state{
		Version: r.Version, Nonce: r.Nonce.StringVal, Epoch: r.Epoch, Holder: r.Holder.StringVal,
		Address: r.Address.StringVal, Lease: time.Duration(r.LeaseNanos.Int64), HighWater: tso.Timestamp(r.HighWater),
	}
}

// write returns the mutations that store st.
func (r *rows) write(st state) ([]*spanner.Mutation, error) {
	text := func(v string) spanner.NullString { return spanner.NullString{StringVal: v, Valid: true} }
	witness := row{Name: r.name, Kind: kindWitness, Version: st.Version, Epoch: st.Epoch, HighWater: int64(st.HighWater)}
	whole := witness
	whole.Kind, whole.Nonce, whole.Holder, whole.Address = kindState, text(st.Nonce), text(st.Holder), text(st.Address)
	whole.LeaseNanos = spanner.NullInt64{Int64: int64(st.Lease), Valid: true}
	var mutations []*spanner.Mutation
	for _, one := range []row{whole, witness} {
		m, err := spanner.InsertOrUpdateStruct(table, one)
		if err != nil {
			return nil, fmt.Errorf("tso: storing record %d: %w", st.Version, err)
		}
		mutations = append(mutations, m)
	}
	return mutations, nil
}

func (r *rows) AddSession(ctx context.Context, id string) error {
	return r.writeSessions(ctx, spanner.InsertOrUpdate(sessionsTable, []string{"Name", "Session"}, []any{r.name, id}))
}

func (r *rows) RemoveSessions(ctx context.Context, ids ...string) error {
	keys := ordered.Map(ids, func(id string) spanner.KeySet { return spanner.Key{r.name, id} })
	return r.writeSessions(ctx, spanner.Delete(sessionsTable, spanner.KeySets(keys...)))
}

// writeSessions applies m. At least once is as good as once, because m is idempotent. It is one
// request, without a transaction that would wait for the record's: no lease is
// renewed late because sessions are opened.
func (r *rows) writeSessions(ctx context.Context, m *spanner.Mutation) error {
	_, err := r.db.Apply(ctx, []*spanner.Mutation{m}, spanner.ApplyAtLeastOnce())
	return err
}

func (r *rows) Sessions(ctx context.Context) (ids []string, err error) {
	found := r.db.Single().ReadWithOptions(ctx, sessionsTable, spanner.Key{r.name}.AsPrefix(), []string{"Session"},
		&spanner.ReadOptions{Limit: record.MaxStoredSessions})
	err = found.Do(func(row *spanner.Row) error {
		var id string
		if err := row.Columns(&id); err != nil {
			return err
		}
		ids = append(ids, id)
		return nil
	})
	return ids, err
}

const (
	table         = "PercolatorOracle"
	sessionsTable = "PercolatorOracleSessions"
)

// Statements returns the statements that create what oracles keep in a Spanner database, each of
// which does nothing if that is there already:
//
//   - A table of records, two rows each, which every write replaces in one transaction. The row of
//     kind "state" is the record, the one of kind "witness" repeats its version, epoch and mark.
//     They agree unless one of them was edited or deleted.
//   - A table of the ids of open sessions, one row each.
func Statements() []string {
	return []string{`CREATE TABLE IF NOT EXISTS PercolatorOracle (
  Name STRING(128) NOT NULL,
  Kind STRING(16) NOT NULL,
  Version INT64 NOT NULL,
  Nonce STRING(64),
  Epoch INT64 NOT NULL,
  Holder STRING(128),
  Address STRING(512),
  LeaseNanos INT64,
  HighWater INT64 NOT NULL,
) PRIMARY KEY (Name, Kind)`, `CREATE TABLE IF NOT EXISTS PercolatorOracleSessions (
  Name STRING(128) NOT NULL,
  Session STRING(64) NOT NULL,
) PRIMARY KEY (Name, Session)`}
}
