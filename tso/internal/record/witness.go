package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

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
