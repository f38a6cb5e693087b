package tso

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// markWitness repeats the numbers of a record in another place of the store, written
// by the same write. A record that does not agree with it was damaged: no server may
// serve from it.
type markWitness struct {
	Version   int64     `json:"version"`
	Epoch     int64     `json:"epoch"`
	HighWater Timestamp `json:"high_water"`
}

func witnessOf(st State) markWitness {
	return markWitness{Version: st.Version, Epoch: st.Epoch, HighWater: st.HighWater}
}

// confirm returns an error that names both sides unless st is the record that the
// witness was written with.
func (w markWitness) confirm(st State) error {
	if own := witnessOf(st); own != w {
		return fmt.Errorf("the record has version %d, epoch %d, high-water mark %d, and its witness version %d, epoch %d, high-water mark %d",
			own.Version, own.Epoch, own.HighWater, w.Version, w.Epoch, w.HighWater)
	}
	return nil
}

// encodeWitness returns the only encoding of the witness of st.
func encodeWitness(st State) ([]byte, error) {
	b, err := json.Marshal(witnessOf(st))
	if err != nil {
		return nil, fmt.Errorf("tso: encoding the witness of record %d: %w", st.Version, err)
	}
	return b, nil
}

// decodeWitness is the inverse of encodeWitness and refuses everything else.
func decodeWitness(b []byte) (markWitness, error) {
	var w markWitness
	if err := json.Unmarshal(b, &w); err != nil {
		return markWitness{}, err
	}
	if canonical, err := json.Marshal(w); err != nil || !bytes.Equal(canonical, b) {
		return markWitness{}, errors.New("it is not in the form in which witnesses are written")
	}
	return w, nil
}
