package loader

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/internal/transfer"
)

// MaxSourceBytes, 1,024, is how long BulkConfig.Source may be. Beyond it Bulk returns
// ErrInvalidArgument.
const MaxSourceBytes = transfer.MaxImportID

// BulkConfig is how Bulk works. Table and Source are required.
type BulkConfig struct {
	// Table is where the rows go. It must be empty.
	Table string
	// Source names the source, at most 1024 bytes, such as a file with its size and its time, and
	// how its rows become values. An import goes on only under the same name. It stands in errors.
	Source string
	// InUse tells that programs may write the source meanwhile, so it may yield something else when
	// it is read again. Its rows then have to come in the order of their keys, each in one item with
	// its key as the token. An import that goes on removes what was written beyond the position, and
	// reads that again. It waits for other processes first, by default for 80 s, and for 32 s once
	// something was removed.
	InUse bool
	// Quiet leaves out notifications: no observer runs for the rows until
	// admin.Admin.BackfillObserver notifies them. An import that goes on is as quiet as it began.
	Quiet bool

	// Probe is how many rows Bulk reads and checks before it takes the fence, so that a wrong source
	// costs no wait and leaves the table open (ErrNotBegun). Rows of more than MaxInFlightBytes end
	// it. Negative: it reads and checks all rows. What Failed or SourceFailed would be given does not
	// count. An import that goes on does without. 0: none.
	Probe int

	// Concurrency is how many requests are in flight at once. 0: 8. At most 256.
	Concurrency int
	// RowsPerRequest is how many rows are written at once, at most. 0: 512. At most 512.
	RowsPerRequest int
	// MaxInFlightBytes bounds the bytes of all rows that are read and not yet stored, but for one
	// request. A larger row goes alone. 0: 64 MiB.
	MaxInFlightBytes int64
	// OutageTimeout is how long Bulk tries a request again while the store or the oracle fails. 0:
	// 1 min.
	OutageTimeout time.Duration
	// CheckpointInterval is the pause between two saves of the position, one request each. 0: 1 s.
	CheckpointInterval time.Duration

	// Failed, if set, is called with a row that cannot be stored, by the goroutine that calls Bulk.
	// If it returns nil the import goes on without the row; otherwise it ends with the error. nil:
	// it ends with the first such row.
	Failed func(Failure[Row]) error
	// SourceFailed is the same for errors that the source yields.
	SourceFailed func(error) error
	// Waiting, if set, is called with the time that Bulk is about to wait until every client knows
	// of the import, or that it goes on here.
	Waiting func(time.Duration)
	// Progress, if set, is called every ProgressInterval, and once at the end. All calls come from
	// one goroutine. It must not block for long.
	Progress func(BulkProgress)
	// ProgressInterval is the time between two calls of Progress. 0: 1 s.
	ProgressInterval time.Duration

	// Logger receives what the caller is not told otherwise, without contents. nil: discard.
	Logger *slog.Logger
}

// BulkPhase is a step of Bulk.
type BulkPhase string

// The phases of Bulk, in order.
const (
	BulkProbe  BulkPhase = "probe"
	BulkFence  BulkPhase = "fence"
	BulkLoad   BulkPhase = "load"
	BulkVerify BulkPhase = "verify"
)

// BulkProgress is how far Bulk has come.
type BulkProgress struct {
	Progress // of this call
	Phase    BulkPhase
	Before   int64 // rows that earlier calls had stored
	Probed   int64 // rows that were read before the fence
	Verified int64 // rows of the table that the check has read
}

// withDefaults fills what is zero and refuses what cannot work.
func (cfg BulkConfig) withDefaults() (BulkConfig, error) {
	const longest = time.Duration(1 << 62)
	err := errors.Join(
		bound("Concurrency", &cfg.Concurrency, 8, 256),
		bound("RowsPerRequest", &cfg.RowsPerRequest, bulkRows, bulkRows),
		bound("MaxInFlightBytes", &cfg.MaxInFlightBytes, 64<<20, 1<<50),
		bound("OutageTimeout", &cfg.OutageTimeout, time.Minute, longest),
		bound("CheckpointInterval", &cfg.CheckpointInterval, time.Second, longest),
		bound("ProgressInterval", &cfg.ProgressInterval, time.Second, longest),
	)
	if err != nil {
		return cfg, err
	}
	if cfg.Source == "" || len(cfg.Source) > MaxSourceBytes {
		return cfg, fmt.Errorf("loader: %w: BulkConfig.Source must have 1 to %d bytes", percolator.ErrInvalidArgument, MaxSourceBytes)
	}
	if cfg.Progress == nil {
		cfg.Progress = func(BulkProgress) {}
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	return cfg, nil
}
