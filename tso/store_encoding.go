package tso

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// storedState is the form of a State in the cell: JSON, so that an operator can read
// it.
type storedState struct {
	Format    int       `json:"format"`
	Version   int64     `json:"version"`
	Nonce     string    `json:"nonce"`
	Epoch     int64     `json:"epoch"`
	Holder    string    `json:"holder,omitempty"`
	Address   string    `json:"address,omitempty"`
	LeaseNS   int64     `json:"lease_ns,omitempty"`
	HighWater Timestamp `json:"high_water"`
}

const storedFormat = 1

// encodeState returns the only encoding of st.
func encodeState(st State) ([]byte, error) {
	b, err := json.Marshal(storedState{
		Format: storedFormat, Version: st.Version, Nonce: st.Nonce, Epoch: st.Epoch,
		Holder: st.Holder, Address: st.Address, LeaseNS: int64(st.Lease), HighWater: st.HighWater,
	})
	if err != nil {
		return nil, fmt.Errorf("tso: encoding record %d: %w", st.Version, err)
	}
	if len(b) > maxRecordBytes {
		return nil, fmt.Errorf("tso: %w: record %d has %d bytes, more than %d", ErrInvalidArgument, st.Version, len(b), maxRecordBytes)
	}
	return b, nil
}

// decodeState is the inverse of encodeState and refuses everything that encodeState
// does not produce: a predicate on the encoding of what was decoded would otherwise
// never match.
func decodeState(b []byte) (recordState, error) {
	var stored storedState
	if err := json.Unmarshal(b, &stored); err != nil {
		return recordState{}, err
	}
	if stored.Format != storedFormat {
		return recordState{}, fmt.Errorf("format %d is not %d", stored.Format, storedFormat)
	}
	st := recordState{
		Version: stored.Version, Nonce: stored.Nonce, Epoch: stored.Epoch, Holder: stored.Holder,
		Address: stored.Address, Lease: time.Duration(stored.LeaseNS), HighWater: stored.HighWater,
	}
	if err := st.Check(); err != nil {
		return recordState{}, err
	}
	canonical, err := encodeState(State(st))
	if err != nil {
		return recordState{}, err
	}
	if (st == recordState{}) || !bytes.Equal(canonical, b) {
		return recordState{}, errors.New("it is not in the form in which records are written")
	}
	return st, nil
}

// salvageState returns what a damaged encoding still says of the numbers that must not
// go back, and of the lease; the zero value when it says nothing.
func salvageState(b []byte) recordState {
	var stored storedState
	_ = json.Unmarshal(b, &stored) // what could be read is there all the same
	return recordState{Version: stored.Version, Epoch: stored.Epoch, Lease: time.Duration(stored.LeaseNS), HighWater: stored.HighWater}
}
