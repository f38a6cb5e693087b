package meta

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/gopercolator/percolator/tso"
)

// ErrRestoring: a restore into the instance has begun and has not finished, so the data is
// incomplete. Run the restore to its end.
var ErrRestoring = errors.New("a restore is unfinished")

// ColumnFence is the column of the meta row with the Fence.
const ColumnFence = "restore"

// Fence is the cell of the meta row that keeps every transaction out while a restore is unfinished.
type Fence struct {
	ID    string // of the backup
	Fresh bool   `json:",omitempty"` // stored before there was a schema: there are no clients to wait for
	Ready bool   `json:",omitempty"` // the tables were found empty when the fence was in force
	// Abandoned: AbandonRestore waits until no client writes for this restore any more.
	Abandoned bool `json:",omitempty"`
	Started   time.Time

	Start, Commit, AckStart, AckCommit tso.Timestamp `json:",omitzero"` // once Ready
}

// Encode returns the bytes of the fence's cell.
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

// Refusal is the ErrRestoring that names the restore.
func (f *Fence) Refusal() error {
	return fmt.Errorf("percolator: %w: that of backup %s, begun %s; continue it with percolator restore", ErrRestoring, f.ID, f.Started.UTC().Format(time.RFC3339))
}

// CheckFence spares a transaction the work that its reads or its commit would refuse, as far as
// this client knows. Above all it keeps a worker from calling an observer, and parking it, for what
// a restore has written.
func (w *Watcher) CheckFence() error {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if w.last.Fence != nil {
		return w.last.Fence.Refusal()
	}
	return nil
}
