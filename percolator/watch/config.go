package watch

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// Limits of a watcher.
const (
	// MaxBatchChanges is how many changes a batch has at most. A transaction with changes beyond
	// it fills several batches.
	MaxBatchChanges = 1000
	// MaxBatchBytes, in bytes of values, ends a batch: the change whose value reaches it is its
	// last, and what is beyond it comes with the next one.
	MaxBatchBytes = 16 << 20
	// MaxColumns is how many columns a watcher may name. Beyond it Changes yields
	// ErrInvalidArgument.
	MaxColumns = 1000
	// MaxName is how long the name of a watcher may be, in bytes of UTF-8. Beyond it Changes
	// yields ErrInvalidArgument.
	MaxName = 128

	maxNames   = 64 << 10         // rows that transactions name which are not handed out yet
	maxRest    = 10 * time.Second // without a batch
	minPause   = 50 * time.Millisecond
	maxPause   = 2 * time.Second
	maxOutage  = 5 * time.Minute
	defaultTTL = time.Hour
)

var (
	// ErrNoJournal: the instance has no journal (Schema.DisableJournal), or one that is being
	// built. Store a schema with a journal, and wait until workers, or percolator sweep, have built
	// it.
	ErrNoJournal = errors.New("the instance has no complete journal")
	// ErrTakenOver: another watcher has started under the same name.
	ErrTakenOver = errors.New("another watcher has started under the same name")
)

// Column is a column that is watched; Name "" stands for all columns of the table.
type Column struct{ Table, Name string }

// Config configures a watcher.
type Config struct {
	// Columns are what is watched, at most MaxColumns.
	Columns []Column
	// From is where to begin, also with columns that the consumer did not watch before. The zero
	// value is now, or, with a Name, where the watcher of that name has come to; both From and a
	// stored position are ErrInvalidArgument, unless Restart.
	From Position
	// Name has the instance store the position, in percolator_meta, and keep a hold at it, so that
	// a consumer that comes back within HoldTTL misses nothing. A batch counts as dealt with when
	// the next one is asked for. One watcher has a name at a time: the last that began
	// (ErrTakenOver).
	Name string
	// Restart gives up the stored position of Name, and begins at From.
	Restart bool
	// HoldTTL is how long the hold of Name outlives the watcher. 0: 1 h; from 1 s to
	// model.MaxHoldTTL. The hold is renewed as long as the consumer asks for batches.
	HoldTTL time.Duration
	// Interval is how often the journal is read. 0: between 50 ms and 2 s, as changes come.
	Interval time.Duration
	// Outage is for how long the store or the oracle may fail before the watcher does. 0: 5 min.
	Outage time.Duration

	names int           // 0: maxNames
	rest  time.Duration // 0: maxRest
}

// Change is a committed version of a cell.
type Change struct {
	Cell     percolator.Cell
	Value    []byte // nil if Deleted; the caller's own
	Deleted  bool
	CommitTS tso.Timestamp
	StartTS  tso.Timestamp // of the transaction
}

// Batch is some changes, in the order of their commit timestamps, then of tables, rows and columns.
// There may be none: then only the position has moved. With changes a batch comes as soon as it is
// known, without any at least every 10 s.
type Batch struct {
	Changes []Change
	// Position is where to begin so as to get what follows the batch. If that ends within a
	// transaction, the timestamp is below the transaction.
	Position Position
}

func (cfg Config) withDefaults() (Config, error) {
	cfg.HoldTTL, cfg.Outage = cmp.Or(cfg.HoldTTL, defaultTTL), cmp.Or(cfg.Outage, maxOutage)
	cfg.names, cfg.rest = cmp.Or(cfg.names, maxNames), cmp.Or(cfg.rest, maxRest)
	invalid := func(format string, args ...any) (Config, error) {
		return cfg, fmt.Errorf("watch: %w: "+format, append([]any{percolator.ErrInvalidArgument}, args...)...)
	}
	switch {
	case len(cfg.Columns) == 0 || len(cfg.Columns) > MaxColumns:
		return invalid("%d columns, not 1 to %d", len(cfg.Columns), MaxColumns)
	case len(cfg.Name) > MaxName || !utf8.ValidString(cfg.Name):
		return invalid("a name has at most %d bytes of UTF-8", MaxName)
	case cfg.Restart && cfg.Name == "":
		return invalid("Restart without a Name")
	case cfg.HoldTTL < time.Second || cfg.HoldTTL > model.MaxHoldTTL:
		return invalid("HoldTTL is between 1 s and %v", model.MaxHoldTTL)
	case cfg.Interval < 0 || cfg.Outage < 0:
		return invalid("a negative time")
	}
	return cfg, nil
}

// columns is the names of the columns by table; an empty list stands for all.
func (cfg Config) columns() map[string][]string {
	of := map[string][]string{}
	for _, c := range cfg.Columns {
		if have, there := of[c.Table]; there && len(have) == 0 {
			continue
		}
		if c.Name == "" {
			of[c.Table] = []string{}
		} else if !slices.Contains(of[c.Table], c.Name) {
			of[c.Table] = append(of[c.Table], c.Name)
		}
	}
	return of
}
