package exportqueue

import (
	"cmp"
	"fmt"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/gopercolator/percolator/observers/internal/sliced"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/tso"
)

// Limits.
const (
	// MaxPartitions is the largest Config.Partitions. Beyond it New returns ErrInvalidArgument.
	MaxPartitions = 256
	// MaxNameBytes is the length of the longest Config.Name. Beyond it New returns
	// ErrInvalidArgument.
	MaxNameBytes = 48
	// MaxKeyBytes is the length of the longest key. Beyond it Add returns ErrTooLarge.
	MaxKeyBytes = 4096
	// MaxValueBytes is the size of the largest value. Beyond it Add returns ErrTooLarge.
	MaxValueBytes = 10 << 20

	maxEntries = 10_000         // largest Config.MaxEntries
	maxBytes   = 4 * (10 << 20) // largest Config.MaxBytes
)

// Config describes a queue. Table and Name are required.
type Config struct {
	// Table is the queue's table. Nothing else may use it.
	Table string
	// Name names the observers that deliver. At most 48 bytes.
	Name string
	// Partitions is the number of partitions for keys, and of deliveries that may be in flight at
	// once. All processes must agree on it. It may be raised, but a key that moves to another
	// partition loses the order of its queued entries. 0: 16; at most 256.
	Partitions int
	// MaxEntries and MaxBytes limit one delivery: entries (0: 500, at most 10,000), and bytes of
	// keys and values (0: 1 MiB, at most 40 MiB; a single entry may be larger).
	MaxEntries, MaxBytes int
	// DeadLetters is the table for entries that the receiver refuses for good (Reject), of the same
	// schema. Queues may share one; nothing else may use it. "": there is none.
	DeadLetters string
}

// Entry is what is delivered.
type Entry struct {
	Key   string
	Value []byte // the receiver's own copy
	// StartTS is the start timestamp of the transaction that added the entry. Seq numbers, from 0,
	// the entries that this transaction added to the partition. Together they are unique in the
	// partition and the same in every delivery: the package comment says how a receiver uses them.
	StartTS tso.Timestamp
	Seq     int
	// CommitTS is when the transaction committed. Snapshots from then on see its effect.
	CommitTS tso.Timestamp
}

// Queue is an export queue. It holds no entries in memory. Its methods may be called concurrently.
// All goroutines that add within one transaction must use the same Queue.
type Queue struct {
	cfg    Config
	adding []sync.Mutex // by partition: the next free number in a transaction's buffer
}

// New returns a queue without touching the store. percolator.ErrInvalidArgument: cfg is invalid.
func New(cfg Config) (*Queue, error) {
	if cfg.Table == "" || cfg.Name == "" {
		return nil, invalid("Config.Table or Config.Name is missing")
	}
	if cfg.DeadLetters == cfg.Table {
		return nil, invalid("Config.DeadLetters is the table of the queue")
	}
	if len(cfg.Name) > MaxNameBytes || strings.Contains(cfg.Name, "\x00") || !utf8.ValidString(cfg.Name) {
		return nil, invalid("Config.Name is longer than %d bytes, contains the byte 0x00 or is not UTF-8", MaxNameBytes)
	}
	if err := cmp.Or(
		sliced.SetDefault("Partitions", &cfg.Partitions, 16, MaxPartitions),
		sliced.SetDefault("MaxEntries", &cfg.MaxEntries, 500, maxEntries),
		sliced.SetDefault("MaxBytes", &cfg.MaxBytes, 1<<20, maxBytes),
	); err != nil {
		return nil, fmt.Errorf("exportqueue: %w", err)
	}
	return &Queue{cfg: cfg, adding: make([]sync.Mutex, cfg.Partitions)}, nil
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("exportqueue: %w: "+format, append([]any{percolator.ErrInvalidArgument}, args...)...)
}

// Table returns the queue's table for the schema: a weak column for each partition, and a few
// splits. A worker that delivers but does not take all of the schema's columns names its Weak
// columns in observers.Config.Columns.
func (q *Queue) Table() percolator.Table {
	return sliced.Table(q.cfg.Table, q.cfg.Partitions, exportColumn)
}
