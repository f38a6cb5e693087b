package combinequeue

import (
	"cmp"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/gopercolator/percolator/observers/internal/sliced"
	"github.com/gopercolator/percolator/percolator"
)

// Limits.
const (
	// MaxBuckets is the largest Config.Buckets. Beyond it New returns ErrInvalidArgument.
	MaxBuckets = 1024
	// MaxNameBytes is the length of the longest Config.Values.Name. Beyond it New returns
	// ErrInvalidArgument.
	MaxNameBytes = 48
	// MaxKeyBytes is the length of the longest key; bytes 0x00 and 0x01 count twice. Beyond it Add
	// returns ErrTooLarge.
	MaxKeyBytes = 2000

	maxBatchEntries = 20_000 // largest Config.MaxEntries
)

// Config describes a queue. Values and Combine are required.
type Config[V any] struct {
	// Values encodes contributions, such as percolator.Int64(table, name) or
	// percolator.JSON[T](table, name). Nothing else may use its Table. Its Name, at most 48 bytes,
	// names the observers that fold.
	Values percolator.Column[V]
	// Combine combines two contributions. It must be associative and commutative, must not modify
	// its arguments, and must be safe for concurrent use.
	Combine func(a, b V) V

	// Buckets is the number of buckets for keys. It limits how many folds run at once, and how many
	// rows a transaction writes. All processes must agree on it. Changing it while contributions
	// are queued loses none, but Pending and Value then miss those in a key's former bucket. 0: 16;
	// at most 1,024.
	Buckets int

	// Shards is into how many rows the contributions to a slice of a bucket are spread: more rows
	// take more writes a second, and cost a fold more requests. It may change at any time. 0: 16,
	// the most.
	Shards int

	// MaxEntries, MaxKeys and MaxBytes limit what one fold takes: contributions, different keys,
	// and bytes of keys and values (a single contribution may be larger). 0: 1,000 (at most
	// 20,000), 200 (at most 20,000), and 1 MiB.
	MaxEntries, MaxKeys, MaxBytes int
	// LockWait is how long a fold waits for transactions in flight before it skips their rows. 0:
	// 250 ms.
	LockWait time.Duration
}

// Queue is a combine queue. It holds no contributions in memory. Its methods may be called
// concurrently. All goroutines that add within one transaction must use the same Queue.
type Queue[V any] struct {
	cfg    Config[V]
	adding []sync.Mutex // by bucket: contributions combine with buffered ones
}

// New returns a queue without touching the store. percolator.ErrInvalidArgument: cfg is invalid.
func New[V any](cfg Config[V]) (*Queue[V], error) {
	switch name := cfg.Values.Name; {
	case cfg.Values.Table == "" || name == "":
		return nil, invalid("Config.Values needs a table and a name")
	case len(name) > MaxNameBytes || strings.Contains(name, "\x00") || !utf8.ValidString(name):
		return nil, invalid("the name of Config.Values is longer than %d bytes, contains the byte 0x00 or is not UTF-8", MaxNameBytes)
	case cfg.Combine == nil:
		return nil, invalid("Config.Combine is missing")
	case cfg.LockWait < 0:
		return nil, invalid("Config.LockWait is negative")
	}
	if err := cmp.Or(
		sliced.SetDefault("Buckets", &cfg.Buckets, 16, MaxBuckets),
		sliced.SetDefault("Shards", &cfg.Shards, shards, shards),
		sliced.SetDefault("MaxEntries", &cfg.MaxEntries, 1000, maxBatchEntries),
		sliced.SetDefault("MaxKeys", &cfg.MaxKeys, 200, maxBatchEntries),
		sliced.SetDefault("MaxBytes", &cfg.MaxBytes, 1<<20, percolator.MaxTxnBytes/8),
	); err != nil {
		return nil, fmt.Errorf("combinequeue: %w", err)
	}
	cfg.LockWait = cmp.Or(cfg.LockWait, 250*time.Millisecond)
	return &Queue[V]{cfg: cfg, adding: make([]sync.Mutex, cfg.Buckets)}, nil
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("combinequeue: %w: "+format, append([]any{percolator.ErrInvalidArgument}, args...)...)
}

// Table returns the queue's table for the schema: a weak column for each bucket, and a few splits.
// A worker that folds but does not take all of the schema's columns names its Weak columns in
// observers.Config.Columns.
func (q *Queue[V]) Table() percolator.Table {
	return sliced.Table(q.cfg.Values.Table, q.cfg.Buckets, foldColumn)
}
