package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

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
