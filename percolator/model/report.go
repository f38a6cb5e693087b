package model

import (
	"time"

	"github.com/gopercolator/percolator/tso"
)

// Report is what a client tells operators, by itself or by one of its workers.
type Report struct {
	// The worker's, as in Workers, or Client; at most 64 bytes.
	Name string `json:"-"`
	// The client that Stats are of: its workers report the same.
	Client  string        `json:"client,omitempty"`
	Session string        `json:"session,omitempty"` // of its client with the oracle; "": none
	Host    string        `json:"host,omitempty"`
	PID     int           `json:"pid,omitempty"`
	Version string        `json:"version,omitempty"` // of this module, as built
	Started tso.Timestamp `json:"started"`           // when its client began
	Written tso.Timestamp `json:"written"`
	Expires tso.Timestamp `json:"expires"` // it counts as dead then, unless it reports again

	// Since NewClient, as of Stats; nanoseconds in JSON.
	Uptime time.Duration `json:"uptime,omitempty"`
	Stats  Stats         `json:"stats"`  // of its client, since NewClient
	Worker WorkerReport  `json:"worker"` // since NewWorker; empty without one
}

// HasWorker tells a worker's report from that of a client without one.
func (r Report) HasWorker() bool { return r.Name != r.Client }

// WorkerReport is what package observers counts in one worker (observers.Stats).
type WorkerReport struct {
	ObserverReport       // of all observers together
	Found          int64 `json:"found"`      // notifications that scans found
	Dispatched     int64 `json:"dispatched"` // notifications of its own client
	Hinted         int64 `json:"hinted"`     // notifications that other processes hinted at
	Dropped        int64 `json:"dropped"`    // of its own client: the queue was full
	Searches       int64 `json:"searches"`   // rounds of its scanners
	Parked         int64 `json:"parked"`     // times that it parked an observer of a cell
	Queued         int   `json:"queued"`     // cells, now
	Running        int   `json:"running"`    // cells, now

	// BacklogMillis is the age of the oldest notification that its scanners met in their last
	// round, of columns that it takes and apart from parked ones. OldestMillis is that of what its
	// client wrote, or the worker adopted, whoever takes it. LockMillis is how long the oldest lock
	// has been past its time to live.
	BacklogMillis int64 `json:"backlogMillis"`
	OldestMillis  int64 `json:"oldestMillis,omitempty"`
	LockMillis    int64 `json:"lockMillis"`

	Observers map[string]ObserverReport `json:"observers,omitempty"` // by name
	LeftOut   int                       `json:"leftOut,omitempty"`   // observers without room

	// Takes are the columns that the worker takes, nil where there was no room. Columns identifies
	// the set, as in WorkerInfo.
	Takes   map[string][][]byte `json:"takes,omitempty"`
	Columns string              `json:"columns,omitempty"`
}

// ObserverReport counts the runs of one observer (observers.ObserverStats).
type ObserverReport struct {
	Runs      int64 `json:"runs"` // that committed
	Attempts  int64 `json:"attempts"`
	Retries   int64 `json:"retries,omitempty"`
	Conflicts int64 `json:"conflicts,omitempty"`
	Errors    int64 `json:"errors,omitempty"`
	Panics    int64 `json:"panics,omitempty"`
	Overdue   int64 `json:"overdue,omitempty"` // attempts in flight that their timeout has not ended
}
