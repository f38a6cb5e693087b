package store

import (
	"log/slog"
	"time"
)

// Settings are the parts of a client's configuration that the layers of the engine need, defaults
// filled in.
type Settings struct {
	Project, Instance string

	LockTTL         time.Duration // after it others may judge an unrefreshed lock dead
	Retention       time.Duration // how far back snapshots reach
	MaxParallelism  int           // requests that one commit or GetMulti has in flight
	DisableBatching bool          // reads of several rows send one request for each row
	DisablePrefetch bool          // reads of several columns send one request for each column
	DisableHints    bool          // neither tells the oracle of notified cells nor asks it for them
	Logger          *slog.Logger
}
