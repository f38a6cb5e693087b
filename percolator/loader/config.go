package loader

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
)

// Config is how a load works. The zero value is useful, but cannot be resumed.
type Config struct {
	// Name is under which the position is kept, 1 to admin.MaxLoadName bytes. It must tell this
	// input from all others: under the name of another one, items would be passed over. "": no
	// position is kept, and every load begins at the beginning.
	Name string
	// Restart begins at the beginning, whatever an earlier load under the name has done.
	Restart bool

	// Concurrency is how many transactions are under way at once. 0: 8. At most 1024.
	Concurrency int
	// ItemsPerTransaction is how many items one transaction takes at most. 0: 256. At most 10,000.
	ItemsPerTransaction int
	// BytesPerTransaction is with how many bytes (Item.Bytes) a transaction takes no further item. 0:
	// 4 MiB.
	BytesPerTransaction int64
	// MaxInFlightBytes bounds the bytes of all items that have been read and not been dealt with. An
	// item that is larger than that goes alone. 0: 64 MiB. It does not bound how many items without
	// Bytes there are; those are at most (Concurrency + 2) × ItemsPerTransaction.
	MaxInFlightBytes int64

	// MaxAttempts is how often an item that is alone is tried, and how often its transaction may
	// conflict. 0: 16.
	MaxAttempts int
	// OutageTimeout is for how long a transaction or a position is tried again while the store or the
	// oracle fails. 0: 1 min.
	OutageTimeout time.Duration
	// Timeout bounds one transaction. 0: 1 min.
	Timeout time.Duration
	// DrainTimeout is how long transactions that are under way may go on when the load is stopped. 0:
	// 5 s.
	DrainTimeout time.Duration
	// CheckpointInterval is the pause between two saved positions, each of which is one request. 0: 1
	// s.
	CheckpointInterval time.Duration

	// TxnOptions are for every transaction, such as percolator.Blind() where Write reads nothing.
	TxnOptions []percolator.TxnOption

	// Progress, if set, is called every ProgressInterval, and once at the end. All calls come from one
	// goroutine. It must not block for long.
	Progress func(Progress)
	// ProgressInterval is the time between two calls of Progress. 0: 1 s.
	ProgressInterval time.Duration

	// Logger receives outages and failed items, without what is in them. nil: discard.
	Logger *slog.Logger
}

// aheadFactor times Concurrency × ItemsPerTransaction is how many items may be dealt with before
// an earlier one is: it bounds what is kept about them, and what a resumed load repeats.
const aheadFactor = 16

// remembered is how many failed items a Report lists.
const remembered = 100

// withDefaults fills what is zero and refuses what cannot work.
func (cfg Config) withDefaults() (Config, error) {
	const longest = time.Duration(1 << 62)
	err := errors.Join(
		bound("Concurrency", &cfg.Concurrency, 8, 1024),
		bound("ItemsPerTransaction", &cfg.ItemsPerTransaction, 256, 10_000),
		bound("MaxAttempts", &cfg.MaxAttempts, 16, 1<<30),
		bound("BytesPerTransaction", &cfg.BytesPerTransaction, 4<<20, percolator.MaxTxnBytes),
		bound("MaxInFlightBytes", &cfg.MaxInFlightBytes, 64<<20, 1<<50),
		bound("OutageTimeout", &cfg.OutageTimeout, time.Minute, longest),
		bound("Timeout", &cfg.Timeout, time.Minute, longest),
		bound("DrainTimeout", &cfg.DrainTimeout, 5*time.Second, longest),
		bound("CheckpointInterval", &cfg.CheckpointInterval, time.Second, longest),
		bound("ProgressInterval", &cfg.ProgressInterval, time.Second, longest),
	)
	if err != nil {
		return cfg, err
	}
	if len(cfg.Name) > admin.MaxLoadName {
		return cfg, invalid("Name", fmt.Sprintf("at most %d bytes", admin.MaxLoadName))
	}
	if cfg.Progress == nil {
		cfg.Progress = func(Progress) {}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return cfg, nil
}

// bound replaces 0 by the default, and refuses what is negative or above the limit.
func bound[N int | int64 | time.Duration](field string, value *N, zero, limit N) error {
	if *value = cmp.Or(*value, zero); *value < 0 || *value > limit {
		return invalid(field, fmt.Sprintf("between 0 and %v", limit))
	}
	return nil
}

func invalid(field, must string) error {
	return fmt.Errorf("loader: %w: Config.%s must be %s", percolator.ErrInvalidArgument, field, must)
}
