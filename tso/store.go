package tso

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/gopercolator/percolator/tso/internal/record"
)

// Store keeps the one record of an oracle, its [State], durably and with compare-and-swap. Package
// spannerstore and [NewBigtableStore] are for production, [NewMemoryStore] is for tests.
//
// A store is linearizable: a Load returns the record of the last CompareAndSwap that was applied
// before it began, or a later one. Its methods are safe for concurrent use and return when their
// context ends.
//
// A store that cannot promise all of this may also have a method Warning() string; servers log what
// it returns once, when they start.
type Store interface {
	// Load returns the record, or the zero State when nothing has been stored. ErrCorrupt: the
	// store holds something that is no record, or a part of one.
	Load(ctx context.Context) (State, error)

	// CompareAndSwap replaces old by next if the store holds exactly old; the zero State as old
	// stores the first record. It is idempotent: a second call with the same arguments succeeds if
	// the store holds next.
	//
	// After nil, next is stored. After ErrFenced it is not and never will be: the store holds
	// another record than old and next. (It may have held next in between.) After
	// ErrInvalidArgument nothing was tried, because next does not follow old. After any other error
	// the outcome is ambiguous: the swap may have been applied, or may still be. Call again, or
	// Load.
	CompareAndSwap(ctx context.Context, old, next State) error
}

// warner is a [Store] with something to tell operators.
type warner interface{ Warning() string }

// repairable is a [Store] in which a damaged record can be replaced.
type repairable interface {
	// Remains returns what can still be read of the version, the epoch, the mark and the lease, and
	// a function that replaces what was found by a record. The function fails with ErrFenced if
	// something else is stored by then.
	Remains(ctx context.Context) (found recordState, repair func(context.Context, recordState) error, err error)
}

// store is a [Store], and a [coordination.SessionStore], on a database.
type store struct{ *record.Store[Timestamp] }

// Load implements [Store].
func (s store) Load(ctx context.Context) (State, error) {
	st, err := s.Store.Load(ctx)
	return State(st), err
}

// CompareAndSwap implements [Store].
func (s store) CompareAndSwap(ctx context.Context, old, next State) error {
	return s.Store.CompareAndSwap(ctx, recordState(old), recordState(next))
}

// recordState is the State that the stores share.
type recordState = record.State[Timestamp]

// State is the one record that a [Store] keeps: who leads, and up to where timestamps may have been
// served. The zero State means that nothing has been stored yet.
//
// Two States are the same record exactly if they are equal (==): Version and Nonce make every
// record unique.
type State struct {
	// Version counts the writes, from 1.
	Version int64

	// Nonce is unique to the write, up to 64 bytes. By the nonce the writer finds out whether a
	// write without an answer has been applied.
	Nonce string

	// Epoch counts the leaders. It grows by one whenever a server takes the lease.
	Epoch int64

	// Holder identifies the server that holds the lease, up to 128 bytes. A server has a new one
	// every time it starts. It is empty when the leader has handed its lease over.
	Holder string

	// Address is the host:port of the holder, up to 512 bytes; empty when no client can reach it.
	Address string

	// Lease is how long other servers wait before they take the lease, counted from when they first
	// saw this record. 0 when no server holds the lease, at most 1 h.
	Lease time.Duration

	// HighWater is the greatest timestamp that may have been handed out. It never decreases.
	HighWater Timestamp
}

// held reports whether a server holds the lease.
func (st State) held() bool { return st.Holder != "" }

// successor returns the record that follows st, with a new version and nonce. The caller fills in
// what changes.
func (st State) successor() State {
	next := st
	next.Version++
	next.Nonce = uuid.NewString()
	return next
}

// checkReread returns ErrCorrupt when a record read after st shows that the store lost something,
// as after a restore of an old backup: what has been served since is then unknown.
func (st State) checkReread(later State) error {
	switch {
	case later == State{} && st != State{}:
		return record.Corruptf("it is gone; record %d had the high-water mark %d", st.Version, st.HighWater)
	case later.Version < st.Version || later.HighWater < st.HighWater || later.Epoch < st.Epoch:
		return record.Corruptf("it went back from version %d, epoch %d, high-water mark %d to version %d, epoch %d, high-water mark %d",
			st.Version, st.Epoch, st.HighWater, later.Version, later.Epoch, later.HighWater)
	}
	return nil
}

// NewMemoryStore returns a store that lives as long as the process, for tests: an oracle that
// starts again with a new one knows nothing of the timestamps that it served before.
func NewMemoryStore() Store { return newMemory(recordState{}).store() }

// memory is a [record.Backend] in this process.
type memory struct {
	mu       sync.Mutex
	state    recordState
	sessions map[string]struct{}
}

func newMemory(st recordState) *memory { return &memory{state: st, sessions: map[string]struct{}{}} }

func (m *memory) store() Store {
	return store{&record.Store[Timestamp]{Backend: m, Name: "default", Table: "memory"}}
}

func (m *memory) Read(context.Context) (recordState, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state, nil
}

func (m *memory) Swap(_ context.Context, old, next recordState) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state != old {
		return record.ErrMismatch
	}
	m.state = next
	return nil
}

func (m *memory) Remains(ctx context.Context) (found recordState, repair func(context.Context, recordState) error, err error) {
	found, err = m.Read(ctx)
	return found, func(ctx context.Context, next recordState) error { return m.Swap(ctx, found, next) }, err
}

func (m *memory) AddSession(_ context.Context, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sessions[id] = struct{}{}
	return nil
}

func (m *memory) RemoveSessions(_ context.Context, ids ...string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range ids {
		delete(m.sessions, id)
	}
	return nil
}

func (m *memory) Sessions(context.Context) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Keys(m.sessions)), nil
}
