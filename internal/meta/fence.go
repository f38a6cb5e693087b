package meta

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/gopercolator/percolator/tso"
)

// ErrRestoring: a restore into the instance has begun and has not finished; what is there is not
// complete. Run it to its end.
var ErrRestoring = errors.New("a restore is unfinished")

const ColumnFence = "restore"

// Fence is the fence.
type Fence struct {
	ID    string // of the backup
	Fresh bool   `json:",omitempty"` // stored before there was a schema: there are no clients to wait for
	Ready bool   `json:",omitempty"` // the tables were found empty when the fence was in force
	// Abandoned: AbandonRestore waits until nobody writes for this restore any more.
	Abandoned bool `json:",omitempty"`
	Started   time.Time

	Start, Commit, AckStart, AckCommit tso.Timestamp `json:",omitzero"` // once Ready
}

func (f Fence) Encode() []byte {
	b, err := json.Marshal(f)
	if err != nil {
		panic(err) // only for a year beyond 9999
	}
	return b
}

func decodeFence(b []byte) (*Fence, error) {
	f := new(Fence)
	return f, json.Unmarshal(b, f)
}

func (f *Fence) Refusal() error {
	return fmt.Errorf("percolator: %w: that of backup %s, begun %s; continue it with percolator restore", ErrRestoring, f.ID, f.Started.UTC().Format(time.RFC3339))
}

// CheckFence spares a transaction the work that its reads or its commit would refuse, as far as is
// known. Above all no observer is called, and parked, for what a restore has written already.
func (w *Watcher) CheckFence() error {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if w.last.Fence != nil {
		return w.last.Fence.Refusal()
	}
	return nil
}
