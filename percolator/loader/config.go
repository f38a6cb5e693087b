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
	// Name is the name of the stored position, at most admin.MaxLoadName bytes. It must differ for
	// each input: under the name of another one, Load would skip items. "": Load keeps no position,
	// and always begins at the beginning.
	Name string
	// Restart begins at the beginning, whatever position is stored.
	Restart bool

	// Concurrency is how many transactions are in flight at once. 0: 8. At most 1024.
	Concurrency int
	// ItemsPerTransaction is how many items one transaction takes at most. 0: 256. At most 10,000.
	ItemsPerTransaction int
	// BytesPerTransaction closes a transaction: once its items have that many bytes (Item.Bytes) it
	// takes no more. 0: 4 MiB.
	BytesPerTransaction int64
	// MaxInFlightBytes bounds the bytes of all items that are read and not yet done. A larger item
	// goes alone. 0: 64 MiB. It does not bound items without Bytes; of those there are at most
	// (Concurrency + 2) × ItemsPerTransaction.
	MaxInFlightBytes int64

	// MaxAttempts is how often Load tries an item that is alone, conflicts included. 0: 16.
	MaxAttempts int
	// OutageTimeout is how long Load tries a transaction or a position again while the store or the
	// oracle fails. 0: 1 min.
	OutageTimeout time.Duration
	// Timeout bounds one transaction. 0: 1 min.
	Timeout time.Duration
	// DrainTimeout is how long running transactions may go on once the load is stopped. 0: 5 s.
	DrainTimeout time.Duration
	// CheckpointInterval is the pause between two saves of the position, one request each. 0: 1 s.
	CheckpointInterval time.Duration

	// TxnOptions apply to every transaction, such as percolator.Blind() if Write reads nothing.
	TxnOptions []percolator.TxnOption

	// Progress, if set, is called every ProgressInterval, and once at the end. All calls come from
	// one goroutine. It must not block for long.
	Progress func(Progress)
	// ProgressInterval is the time between two calls of Progress. 0: 1 s.
	ProgressInterval time.Duration

	// Logger receives outages and failed items, without their contents. nil: discard.
	Logger *slog.Logger
}

// aheadFactor × Concurrency × ItemsPerTransaction is how many items may be done before an earlier
// one is. It bounds what Load remembers about them, and what a resumed load repeats.
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
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
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
