package tso

import (
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
)

// Limits of what a store has to hold.
const (
	maxNameBytes    = 128
	maxHolderBytes  = 128
	maxNonceBytes   = 64
	maxAddressBytes = 512
	maxLease        = time.Hour
)

// State is the one record that a [Store] keeps: who leads, and up to where timestamps
// may have been served. The zero State stands for "nothing has been stored yet".
//
// Two States are the same record exactly if they are equal (==): Version and Nonce
// make every record unique.
type State struct {
	// Version counts the writes, from 1.
	Version int64

	// Nonce is unique to the write, up to 64 bytes. By it the writer finds out
	// whether a write whose answer was lost has been applied.
	Nonce string

	// Epoch counts the leaders. It grows by one whenever a server takes the lease.
	Epoch int64

	// Holder identifies the server that holds the lease, up to 128 bytes. It is a new
	// one every time a server starts, and empty when the lease was handed over.
	Holder string

	// Address is the host:port at which the holder can be reached, up to 512 bytes;
	// empty when it cannot be.
	Address string

	// Lease is how long others have to wait before they may take the lease, from when
	// they first saw this record. 0 when nobody holds the lease, at most 1 h.
	Lease time.Duration

	// HighWater is the greatest timestamp that may have been handed out. It never
	// decreases.
	HighWater Timestamp
}

// held reports whether somebody holds the lease.
func (st State) held() bool { return st.Holder != "" }

// successor returns the record that follows st, with a new version and nonce. The
// caller fills in what changes.
func (st State) successor() State {
	next := st
	next.Version++
	next.Nonce = uuid.NewString()
	return next
}

// check returns what is wrong with st, or nil. The zero State is in order.
func (st State) check() error {
	switch {
	case st == State{}:
		return nil
	case st.Version < 1:
		return fmt.Errorf("version %d is below 1", st.Version)
	case st.Nonce == "" || len(st.Nonce) > maxNonceBytes || !utf8.ValidString(st.Nonce):
		return fmt.Errorf("nonce %.80q is not 1 to %d bytes of UTF-8", st.Nonce, maxNonceBytes)
	case st.Epoch < 0:
		return fmt.Errorf("epoch %d is negative", st.Epoch)
	case len(st.Holder) > maxHolderBytes || !utf8.ValidString(st.Holder):
		return fmt.Errorf("holder %.140q is not at most %d bytes of UTF-8", st.Holder, maxHolderBytes)
	case len(st.Address) > maxAddressBytes || !utf8.ValidString(st.Address):
		return fmt.Errorf("address %.140q is not at most %d bytes of UTF-8", st.Address, maxAddressBytes)
	case st.held() && (st.Lease <= 0 || st.Lease > maxLease):
		return fmt.Errorf("lease of %v is not between 0 and %v", st.Lease, maxLease)
	case !st.held() && st.Lease != 0:
		return fmt.Errorf("lease of %v without a holder", st.Lease)
	case st.HighWater < 0 || st.HighWater > MaxTimestamp:
		return fmt.Errorf("high-water mark %d is not between 0 and %d", st.HighWater, MaxTimestamp)
	}
	return nil
}

// checkStep returns an error unless next may replace st: whatever else goes wrong in
// a server, no store writes a mark or an epoch back.
func (st State) checkStep(next State) error {
	err := next.check()
	switch {
	case err != nil:
	case next.Version != st.Version+1:
		err = fmt.Errorf("version %d does not follow %d", next.Version, st.Version)
	case next.Nonce == st.Nonce:
		err = fmt.Errorf("nonce %q is not new", next.Nonce)
	case next.Epoch != st.Epoch && next.Epoch != st.Epoch+1:
		err = fmt.Errorf("epoch %d does not follow %d", next.Epoch, st.Epoch)
	case next.HighWater < st.HighWater:
		err = fmt.Errorf("high-water mark %d is below %d", next.HighWater, st.HighWater)
	default:
		return nil
	}
	return fmt.Errorf("tso: %w: record %d: %w", ErrInvalidArgument, next.Version, err)
}

// checkReread returns ErrCorrupt when a record read after st shows that the store
// lost something, as after a restore of an old backup: what was served since is then
// not known.
func (st State) checkReread(later State) error {
	switch {
	case later == State{} && st != State{}:
		return corruptf("it is gone; record %d had the high-water mark %d", st.Version, st.HighWater)
	case later.Version < st.Version || later.HighWater < st.HighWater || later.Epoch < st.Epoch:
		return corruptf("it went back from version %d, epoch %d, high-water mark %d to version %d, epoch %d, high-water mark %d",
			st.Version, st.Epoch, st.HighWater, later.Version, later.Epoch, later.HighWater)
	}
	return nil
}

// withRemains returns st with those numbers of what was salvaged that are greater, and
// not plain nonsense.
func (st State) withRemains(found State) State {
	const most = 1 << 62 // beyond it there is no room for successors
	if found.Version <= most {
		st.Version = max(st.Version, found.Version)
	}
	if found.Epoch <= most {
		st.Epoch = max(st.Epoch, found.Epoch)
	}
	if found.Lease <= maxLease {
		st.Lease = max(st.Lease, found.Lease)
	}
	if found.HighWater <= MaxTimestamp {
		st.HighWater = max(st.HighWater, found.HighWater)
	}
	return st
}
