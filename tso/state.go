package tso

import (
	"time"

	"github.com/google/uuid"

	"github.com/gopercolator/percolator/tso/internal/record"
)

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
