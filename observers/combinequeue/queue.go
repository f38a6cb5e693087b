package combinequeue

import (
	"cmp"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/gopercolator/percolator/observers/internal/sliced"
	"github.com/gopercolator/percolator/percolator"
)

// Limits.
const (
	MaxBuckets   = 1024 // largest Config.Buckets
	MaxNameBytes = 48   // longest Config.Values.Name
	MaxKeyBytes  = 2000 // longest key; bytes 0x00 and 0x01 count twice

	maxBatchEntries = 20_000 // largest Config.MaxEntries
)

// Config describes a queue. Values and Combine are required.
type Config[V any] struct {
	// Values is how contributions are encoded, such as percolator.Int64(table, name) or
	// percolator.JSON[T](table, name). Its Table is the queue's, which nothing else may use. Its Name,
	// at most 48 bytes, names the observers that fold.
	Values percolator.Column[V]
	// Combine puts two contributions together. It must be associative and commutative, must not modify
	// its arguments, and is called by many goroutines.
	Combine func(a, b V) V

	// Buckets is among how many buckets the keys are divided: as many folds can run at once, and a
	// transaction writes at most as many rows. All processes must agree on it. Changing it while
	// contributions are queued loses none of them, but Pending and Value miss those that lie in
	// another bucket now. 0: 16; at most 1024.
	Buckets int

	// MaxEntries, MaxKeys and MaxBytes bound what one fold takes: contributions, different keys, and
	// bytes of keys and values (of which one contribution may be more). 0: 1,000 (at most 20,000),
	// 200, and 1 MiB.
	MaxEntries, MaxKeys, MaxBytes int
	// LockWait is how long a fold waits for transactions under way before it leaves their rows aside.
	// 0: 250 ms.
	LockWait time.Duration
}

// Queue is a combine queue. It holds no contributions in memory; its methods may be called
// concurrently. All goroutines that add within one transaction must use the same Queue.
type Queue[V any] struct {
	cfg    Config[V]
	adding []sync.Mutex // by bucket: a contribution is combined with what its transaction has buffered
}

// New returns a queue. It reports what is wrong with cfg (percolator.ErrInvalidArgument) and
// touches no store.
func New[V any](cfg Config[V]) (*Queue[V], error) {
	switch name := cfg.Values.Name; {
	case cfg.Values.Table == "" || name == "":
		return nil, invalid("Config.Values needs a table and a name")
	case len(name) > MaxNameBytes || strings.Contains(name, "\x00"):
		return nil, invalid("the name of Config.Values is longer than %d bytes or contains the byte 0x00", MaxNameBytes)
	case cfg.Combine == nil:
		return nil, invalid("Config.Combine is missing")
	case cfg.LockWait < 0:
		return nil, invalid("Config.LockWait is negative")
	}
	if err := cmp.Or(
		sliced.SetDefault("Buckets", &cfg.Buckets, 16, MaxBuckets),
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

// Table is the queue's table, to be put into the schema: a weak column for each bucket, and a few
// splits. A worker that is to fold without taking all of the schema's columns names its Weak
// columns in observers.Config.Columns.
func (q *Queue[V]) Table() percolator.Table {
	return sliced.Table(q.cfg.Values.Table, q.cfg.Buckets, foldColumn)
}
