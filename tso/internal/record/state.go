// Package record is what the stores of an oracle share: the form of its record, which records may
// follow each other, and what became of a write whose answer was lost.
//
// The package knows timestamps only as T, which is tso.Timestamp, because tso imports it.
package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"
	"unicode/utf8"
)

// MaxTimestamp is tso.MaxTimestamp.
const MaxTimestamp = math.MaxInt64/1000 - 1

// Limits of what a store has to hold.
const (
	MaxNameBytes    = 128
	MaxHolderBytes  = 128
	MaxNonceBytes   = 64
	MaxAddressBytes = 512
	MaxLease        = time.Hour
)

// State has the fields of tso.State, where they are explained, and converts to it and from it.
type State[T ~int64] struct {
	Version   int64         `json:"version"`
	Nonce     string        `json:"nonce"`
	Epoch     int64         `json:"epoch"`
	Holder    string        `json:"holder,omitempty"`
	Address   string        `json:"address,omitempty"`
	Lease     time.Duration `json:"lease_ns,omitempty"`
	HighWater T             `json:"high_water"`
}

// Check returns what is wrong with st, or nil. The zero State is valid.
func (st State[T]) Check() error {
	held := st.Holder != ""
	switch {
	case st == State[T]{}:
		return nil
	case st.Version < 1:
		return fmt.Errorf("version %d is below 1", st.Version)
	case st.Nonce == "" || len(st.Nonce) > MaxNonceBytes || !utf8.ValidString(st.Nonce):
		return fmt.Errorf("nonce %.80q is not 1 to %d bytes of UTF-8", st.Nonce, MaxNonceBytes)
	case st.Epoch < 0:
		return fmt.Errorf("epoch %d is negative", st.Epoch)
	case len(st.Holder) > MaxHolderBytes || !utf8.ValidString(st.Holder):
		return fmt.Errorf("holder %.140q is not at most %d bytes of UTF-8", st.Holder, MaxHolderBytes)
	case len(st.Address) > MaxAddressBytes || !utf8.ValidString(st.Address):
		return fmt.Errorf("address %.140q is not at most %d bytes of UTF-8", st.Address, MaxAddressBytes)
	case held && (st.Lease <= 0 || st.Lease > MaxLease):
		return fmt.Errorf("lease of %v is not between 0 and %v", st.Lease, MaxLease)
	case !held && st.Lease != 0:
		return fmt.Errorf("lease of %v without a holder", st.Lease)
	case st.HighWater < 0 || st.HighWater > MaxTimestamp:
		return fmt.Errorf("high-water mark %d is not between 0 and %d", st.HighWater, int64(MaxTimestamp))
	}
	return nil
}

// checkStep returns ErrInvalidArgument unless next may replace st: whatever else goes wrong in a
// server, no store lowers a mark or an epoch.
func (st State[T]) checkStep(next State[T]) error {
	err := next.Check()
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

// WithRemains returns st with those numbers of a damaged record that are greater and plausible.
func (st State[T]) WithRemains(found State[T]) State[T] {
	const most = 1 << 62 // beyond it there is no room for successors
	if found.Version <= most {
		st.Version = max(st.Version, found.Version)
	}
	if found.Epoch <= most {
		st.Epoch = max(st.Epoch, found.Epoch)
	}
	if found.Lease <= MaxLease {
		st.Lease = max(st.Lease, found.Lease)
	}
	if found.HighWater <= MaxTimestamp {
		st.HighWater = max(st.HighWater, found.HighWater)
	}
	return st
}

// MaxBytes bounds an encoded State. The predicate of a swap in Bigtable contains it twice, and a
// filter may have 20 KB.
const MaxBytes = 8192

// encoded is the form of a State where a store keeps it in one piece: JSON, so that an operator can
// read it.
type encoded[T ~int64] struct {
	Format int `json:"format"`
	State[T]
}

const format = 1

// Encode returns the only encoding of st.
func (st State[T]) Encode() ([]byte, error) {
	b, err := json.Marshal(encoded[T]{format, st})
	if err != nil {
		return nil, fmt.Errorf("tso: encoding record %d: %w", st.Version, err)
	}
	if len(b) > MaxBytes {
		return nil, fmt.Errorf("tso: %w: record %d has %d bytes, more than %d", ErrInvalidArgument, st.Version, len(b), MaxBytes)
	}
	return b, nil
}

// DecodeState is the inverse of Encode and refuses everything that Encode does not produce: a
// predicate on the encoding of what was decoded would otherwise never match.
func DecodeState[T ~int64](b []byte) (State[T], error) {
	var stored encoded[T]
	if err := json.Unmarshal(b, &stored); err != nil {
		return State[T]{}, err
	}
	if stored.Format != format {
		return State[T]{}, fmt.Errorf("format %d is not %d", stored.Format, format)
	}
	if err := stored.Check(); err != nil {
		return State[T]{}, err
	}
	canonical, err := stored.Encode()
	if err != nil {
		return State[T]{}, err
	}
	if stored.State == (State[T]{}) || !bytes.Equal(canonical, b) {
		return State[T]{}, errors.New("it is not in the form in which records are written")
	}
	return stored.State, nil
}

// Salvage returns what a damaged encoding still says of the numbers that must not go back, and of
// the lease; the zero State when it says nothing.
func Salvage[T ~int64](b []byte) State[T] {
	var stored encoded[T]
	_ = json.Unmarshal(b, &stored) // keeps what it could read
	return State[T]{Version: stored.Version, Epoch: stored.Epoch, Lease: stored.Lease, HighWater: stored.HighWater}
}

// Witness repeats the numbers of a record elsewhere in the store. The same write stores both, so a
// record that does not agree with its witness was damaged: no server may serve from it.
type Witness[T ~int64] struct {
	Version   int64 `json:"version"`
	Epoch     int64 `json:"epoch"`
	HighWater T     `json:"high_water"`
}

// Witness returns the witness of st.
func (st State[T]) Witness() Witness[T] {
	return Witness[T]{Version: st.Version, Epoch: st.Epoch, HighWater: st.HighWater}
}

// Confirm returns an error that names both sides unless w was written together with st.
func (w Witness[T]) Confirm(st State[T]) error {
	if own := st.Witness(); own != w {
		return fmt.Errorf("the record has version %d, epoch %d, high-water mark %d, "+
			"and its witness version %d, epoch %d, high-water mark %d",
			own.Version, own.Epoch, own.HighWater, w.Version, w.Epoch, w.HighWater)
	}
	return nil
}

// Encode returns the only encoding of w.
func (w Witness[T]) Encode() ([]byte, error) {
	b, err := json.Marshal(w)
	if err != nil {
		return nil, fmt.Errorf("tso: encoding the witness of record %d: %w", w.Version, err)
	}
	return b, nil
}

// DecodeWitness is the inverse of Encode and refuses everything else.
func DecodeWitness[T ~int64](b []byte) (Witness[T], error) {
	var w Witness[T]
	if err := json.Unmarshal(b, &w); err != nil {
		return Witness[T]{}, err
	}
	if canonical, err := json.Marshal(w); err != nil || !bytes.Equal(canonical, b) {
		return Witness[T]{}, errors.New("it is not in the form in which witnesses are written")
	}
	return w, nil
}
