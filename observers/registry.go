package observers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/tso"
)

// MaxNameBytes is the longest name of an observer in bytes, which are UTF-8. The name is part of
// the acknowledgment column's name, and of metrics. Beyond it NewWorker returns ErrInvalidArgument.
const MaxNameBytes = 64

// maxOfColumn is how many observers a column may have: each has columns in the rows of the column's
// cells, and what is stored of a parked one names all of them.
const maxOfColumn = 256

// Change is what an observer is called for: the newest change of a cell in the snapshot of the
// observer's transaction.
type Change struct {
	Cell     percolator.Cell
	Value    []byte        // the newest value; nil if Deleted or Weak. An empty value is not nil.
	Deleted  bool          // the newest change deleted the cell, or was of a value that has expired
	Weak     bool          // a weak notification: there is no value
	CommitTS tso.Timestamp // of the change; of a weak one, the newest notification known
	Attempt  int           // 1 for this worker's first run for this change alone, 2 after one failed
}

// Func is an observer. It reads and writes through tx and must neither commit it nor roll it back:
// when Func returns nil, the worker commits tx together with the acknowledgment. The worker may
// call it again for the same change after a conflict or failure, and concurrently for different
// cells, never twice at a time for one cell; another worker may, and then one of the two commits.
// It should return soon after ctx ends, at the observer's [Timeout] or when the worker has drained
// for too long: until it does it holds one of Config.Concurrency slots (Stats.Overdue).
type Func func(ctx context.Context, tx *percolator.Txn, ch Change) error

// Registry is the set of observers in a program. Several workers may share it; a worker does not
// know observers registered after its NewWorker. Its methods may be called concurrently.
type Registry struct {
	mu        sync.Mutex
	observers []*observer
}

type observer struct {
	name, table, column string
	f                   BatchFunc
	batch               bool // f takes several changes
	options
}

// NewRegistry returns an empty registry.
func NewRegistry() *Registry { return &Registry{} }

// Observe registers f under name for the column of the table. The name is 1 to 64 bytes without
// 0x00, and unique in the registry. It is stored in the acknowledgments: under a new name, an
// observer runs again for every cell that is notified. To observe two columns with one function,
// register it twice under two names. A column has at most 256 observers. [NewWorker] reports
// invalid arguments.
//
// An observer whose writes notify it again, directly or through other observers, runs for ever: let
// it write only what has changed. A worker takes 1,000 runs in a row for one cell, each caused by
// the one before, for a loop, unless [Repeats] is set. It warns, and pauses before each further
// run: for Config.MinBackoff, doubled every further 1,000 runs up to Config.MaxBackoff. In
// percolatortest the test fails. A cell that other transactions change meanwhile is in no loop. A
// worker does not detect loops of more than 16 runs, through other workers or programs, or beyond
// its last 16,384 runs that notified cells.
func (r *Registry) Observe(name, table, column string, f Func, opts ...Option) {
	o := &observer{name: name, table: table, column: column, options: options{timeout: defaultTimeout}}
	if f != nil {
		o.f = func(ctx context.Context, tx *percolator.Txn, changes []Change) error { return f(ctx, tx, changes[0]) }
	}
	r.register(o, opts)
}

func (r *Registry) register(o *observer, opts []Option) {
	for _, opt := range opts {
		opt(&o.options)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.observers = append(r.observers, o)
}

// Observe registers f like [Registry.Observe] for a typed column: v is the decoded value, or the
// zero T for a deletion or a weak notification. A value that cannot be decoded fails the attempt
// with percolator.ErrCorrupt. [NewWorker] refuses a column that the schema declares with another
// type; one that it comes to declare so later fails the attempt with percolator.ErrInvalidArgument.
func Observe[T any](r *Registry, name string, col percolator.Column[T],
	f func(ctx context.Context, tx *percolator.Txn, ch Change, v T) error, opts ...Option,
) {
	var typed Func
	if f != nil {
		typed = func(ctx context.Context, tx *percolator.Txn, ch Change) error {
			v, err := decode(tx, col, ch)
			if err != nil {
				return err
			}
			return f(ctx, tx, ch, v)
		}
	}
	r.Observe(name, col.Table, col.Name, typed, append(slices.Clip(opts), ofType(col.Type()))...)
}

// decode returns the value of a change, or the zero T where it has none. The schema may have come
// to declare another type since NewWorker.
func decode[T any](tx *percolator.Txn, col percolator.Column[T], ch Change) (v T, err error) {
	if !ch.Deleted && !ch.Weak {
		v, err = col.DecodeEntry(tx, percolator.Entry{Cell: ch.Cell, Value: ch.Value})
	}
	return v, err
}

// ofType is the type that the observer takes values for.
func ofType(t percolator.Type) Option { return func(o *options) { o.stored = t } }

// snapshot returns the observers registered so far, in order, or everything that is wrong with
// them.
func (r *Registry) snapshot() ([]*observer, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen, of := make(map[string]bool, len(r.observers)), map[Column]int{}
	var errs []error
	for _, o := range r.observers {
		errs = append(errs, o.validate())
		if seen[o.name] {
			errs = append(errs, fmt.Errorf("observers: %w: the name %q is registered twice", percolator.ErrInvalidArgument, o.name))
		}
		seen[o.name] = true
		c := Column{o.table, o.column}
		if of[c]++; of[c] == maxOfColumn+1 {
			errs = append(errs, fmt.Errorf("observers: table %q, column %q: %w: more than %d observers; let one of them do the work of several", c.Table, c.Name, percolator.ErrInvalidArgument, maxOfColumn))
		}
	}
	for _, o := range r.observers {
		for _, name := range o.after {
			if !seen[name] {
				errs = append(errs, fmt.Errorf("observers: observer %q: %w: After names %q, which is not registered", o.name, percolator.ErrInvalidArgument, name))
			}
		}
	}
	return slices.Clone(r.observers), errors.Join(errs...)
}

func (o *observer) validate() error {
	wrong := ""
	switch {
	case o.name == "":
		wrong = "the name is empty"
	case len(o.name) > MaxNameBytes:
		return fmt.Errorf("observers: observer %.16q…: %w: the name has %d bytes, the limit is %d", o.name, percolator.ErrInvalidArgument, len(o.name), MaxNameBytes)
	case strings.Contains(o.name, "\x00"):
		wrong = "the name contains the byte 0x00"
	case !utf8.ValidString(o.name): // metrics and traces carry it
		wrong = "the name is not UTF-8"
	case o.f == nil:
		wrong = "the function is nil"
	case o.collapse < 0:
		wrong = "Collapse needs a duration that is not negative"
	case o.concurrent < 0:
		wrong = "MaxConcurrent needs a number that is not negative"
	case o.timeout <= 0 || o.timeout > maxTimeout:
		wrong = fmt.Sprintf("Timeout needs a positive duration of at most %v", maxTimeout)
	case !o.batch && (o.maxCells != 0 || o.maxWait != 0):
		wrong = "MaxCells and MaxWait are options of ObserveBatch"
	case o.batch && (o.maxCells < 1 || o.maxCells > MaxBatchCells):
		wrong = fmt.Sprint("MaxCells needs a number from 1 to ", MaxBatchCells)
	case o.maxWait < 0:
		wrong = "MaxWait needs a duration that is not negative"
	case len(o.after) > 0 && o.afterLimit <= 0:
		wrong = "After needs a positive limit"
	case o.headStart < 0:
		wrong = "HeadStart needs a duration that is not negative"
	default:
		return nil
	}
	return fmt.Errorf("observers: observer %q: %w: %s", o.name, percolator.ErrInvalidArgument, wrong)
}

// defaultTimeout equals the lifetime of a transaction's requests (docs/internals/PROTOCOL.md, I14):
// a longer run could hardly commit.
const defaultTimeout = 30 * time.Second

type options struct {
	collapse   time.Duration
	concurrent int
	timeout    time.Duration
	maxCells   int // of a batch; 0: the observer takes single cells
	maxWait    time.Duration
	after      []string // the observers that it waits for
	afterLimit time.Duration
	headStart  time.Duration
	owned      ownership
	needs      []string // tables
	repeats    bool     // its runs are meant to cause its own next runs
	together   bool     // its runs may share their commit
	stored     percolator.Type
}

// Option changes how a worker runs one observer.
type Option func(*options)

// Collapse delays a run by up to d, so that further writes to the same cell join it: each worker
// runs the observer at most once in d for each cell (the paper's message collapsing, prolonged). 0,
// the default, runs at once; even then, writes to a cell that is queued or running collapse.
func Collapse(d time.Duration) Option { return func(o *options) { o.collapse = d } }

// MaxConcurrent limits how many runs of the observer, each for a cell or a batch of them, are in
// flight at once on a worker. Cells that wait for a slot occupy no goroutine. 0, the default: only
// Config.Concurrency limits them.
func MaxConcurrent(n int) Option { return func(o *options) { o.concurrent = n } }

// NeedsTables names tables that the observer uses. [NewWorker] reports those that the schema lacks;
// without the option, a run fails when it reaches one.
func NeedsTables(names ...string) Option {
	return func(o *options) { o.needs = append(o.needs, names...) }
}

// maxTimeout is the longest that an attempt may take.
const maxTimeout = 24 * time.Hour

// Timeout limits one attempt, for a cell or a batch of them, from Begin to the answer of Commit. d
// must be positive, and at most a day. The default is 30 s.
func Timeout(d time.Duration) Option { return func(o *options) { o.timeout = d } }
