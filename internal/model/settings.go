package model

import (
	"log/slog"
	"time"
)

// Settings are what the layers of the engine need of a client's configuration, with defaults filled
// in.
type Settings struct {
	Project, Instance string

	LockTTL, Retention               time.Duration
	MaxParallelism                   int
	DisableBatching, DisablePrefetch bool
	DisableHints                     bool
	Logger                           *slog.Logger
}
