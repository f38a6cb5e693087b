//lint:file-ignore SA4006 the calls are here to be compiled
//lint:file-ignore SA4009 the calls are here to be compiled

package emulator_test

import (
	"context"
	"iter"
	"log/slog"
	"net"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"
	"cloud.google.com/go/spanner"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/api/option"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/gopercolator/percolator/internal/engine/commit"
	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
	"github.com/gopercolator/percolator/tso/spannerstore"
)

type (
	ctxt = context.Context
)

// tso
var (
	_ int64                                                      = int64(tso.Timestamp(0))
	_ func(time.Time) tso.Timestamp                              = tso.At
	_ func(tso.Timestamp) time.Time                              = tso.Timestamp.Time
	_ func(ctxt, string, ...tso.DialOption) (*tso.Client, error) = tso.Dial
	_ func(*tso.Client) error                                    = (*tso.Client).Close
	_ tso.Oracle                                                 = (*tso.Client)(nil)
	_ tso.Oracle                                                 = (*tso.Server)(nil)
	_ tso.Oracle                                                 = interface {
		Next(ctx context.Context) (tso.Timestamp, error)
	}(nil)
	_ func(*spanner.Client, string) tso.Store                = spannerstore.New
	_ func(*bigtable.Table, string) tso.Store                = tso.NewBigtableStore
	_ func() tso.Store                                       = tso.NewMemoryStore
	_                                                        = tso.ServerConfig{Now: time.Now, Window: time.Second, Lease: time.Second, Advertise: "", Logger: (*slog.Logger)(nil), MeterProvider: (metric.MeterProvider)(nil)}
	_ func(tso.Store, tso.ServerConfig) (*tso.Server, error) = tso.NewServer
	_ func(*tso.Server, ctxt, net.Listener) error            = (*tso.Server).Serve
	_ func(*tso.Server, ctxt) error                          = (*tso.Server).Run
	_ func(tso.Timestamp, time.Duration) tso.Timestamp       = tso.Timestamp.Add
	_ func(tso.Timestamp, tso.Timestamp) time.Duration       = tso.Timestamp.Sub
)

// percolator
var (
	_                                                                                                                                     = percolator.Config{Project: "", Instance: "", AppProfile: "", Oracle: tso.Oracle(nil), Schema: (*percolator.Schema)(nil), LockTTL: time.Second, Retention: time.Second, DisableBatching: true, Logger: (*slog.Logger)(nil), MeterProvider: metric.MeterProvider(nil), TracerProvider: trace.TracerProvider(nil)}
	_                                                                                                                                     = percolator.Schema{Tables: []percolator.Table{{Name: "", Observed: []string{}, Weak: []string{}, Indexes: []percolator.Index{{Name: "", Column: "", Unique: true}}, Splits: []string{}}}}
	_ func(ctxt, string, string, *percolator.Schema, ...option.ClientOption) error                                                        = percolator.CreateSchema
	_ func(ctxt, percolator.Config, ...option.ClientOption) (*percolator.Client, error)                                                   = percolator.NewClient
	_ func(*percolator.Client) error                                                                                                      = (*percolator.Client).Close
	_ func(*percolator.Client, ctxt, func(ctx context.Context, tx *percolator.Txn) error, ...percolator.TxnOption) (tso.Timestamp, error) = (*percolator.Client).Update
	_ func(*percolator.Client, ctxt, func(ctx context.Context, s *percolator.Snapshot) error, ...percolator.ReadOption) error             = (*percolator.Client).View
	_ func(*percolator.Client, ctxt, ...percolator.TxnOption) (*percolator.Txn, error)                                                    = (*percolator.Client).Begin
	_ func(*percolator.Client, ctxt, ...percolator.ReadOption) (*percolator.Snapshot, error)                                              = (*percolator.Client).Snapshot
	_ func(*percolator.Client, ctxt) error                                                                                                = (*percolator.Client).Flush
	_ func(int) percolator.TxnOption                                                                                                      = percolator.MaxAttempts
	_ func() percolator.TxnOption                                                                                                         = percolator.Blind
	_ func(time.Time) percolator.ReadOption                                                                                               = percolator.AsOf
	_ func(tso.Timestamp) percolator.ReadOption                                                                                           = percolator.AsOfTimestamp
	_                                                                                                                                     = percolator.Cell{Table: "", Row: "", Column: ""}
	_ percolator.Reader                                                                                                                   = (*percolator.Txn)(nil)
	_ percolator.Reader                                                                                                                   = (*percolator.Snapshot)(nil)
	_ percolator.Reader                                                                                                                   = zreader(nil)
	_ zreader                                                                                                                             = percolator.Reader(nil)
	_                                                                                                                                     = percolator.Entry{Cell: percolator.Cell{}, Value: []byte(nil), CommitTS: tso.Timestamp(0)}
	_                                                                                                                                     = []percolator.Range{percolator.Row(""), percolator.Prefix(""), percolator.Between("", ""), percolator.All(), {Start: "", End: ""}}
	_ func(*percolator.Txn, percolator.Cell, []byte) error                                                                                = (*percolator.Txn).Set
	_ func(*percolator.Txn, percolator.Cell, []byte) error                                                                                = (*percolator.Txn).Insert
	_ func(*percolator.Txn, percolator.Cell) error                                                                                        = (*percolator.Txn).Delete
	_ func(*percolator.Txn, ctxt, percolator.Cell) ([]byte, error)                                                                        = (*percolator.Txn).GetForUpdate
	_ func(*percolator.Txn, percolator.Cell) error                                                                                        = (*percolator.Txn).Notify
	_ func(*percolator.Txn, ctxt) (tso.Timestamp, error)                                                                                  = (*percolator.Txn).Commit
	_ func(*percolator.Txn, ctxt) error                                                                                                   = (*percolator.Txn).Rollback
	_                                                                                                                                     = []error{percolator.ErrNotFound, percolator.ErrExists, percolator.ErrConflict, percolator.ErrLocked, percolator.ErrOutcomeUnknown, percolator.ErrSnapshotTooOld, percolator.ErrUnique, percolator.ErrSchemaMismatch, percolator.ErrTxnDone, percolator.ErrClosed, percolator.ErrInvalidArgument, percolator.ErrTooLarge, percolator.ErrCorrupt}
	_ error                                                                                                                               = &percolator.ConflictError{Cell: percolator.Cell{}, StartTS: tso.Timestamp(1), OtherTS: tso.Timestamp(1)}
	_ func(string, string) percolator.Column[[]byte]                                                                                      = percolator.Bytes
	_ func(string, string) percolator.Column[string]                                                                                      = percolator.String
	_ func(string, string) percolator.Column[int64]                                                                                       = percolator.Int64
	_ func(string, string) percolator.Column[map[string]int]                                                                              = percolator.JSON[map[string]int]
	_ func(string, string) percolator.Column[*wrapperspb.StringValue]                                                                     = percolator.Proto[*wrapperspb.StringValue]
	_ func(*percolator.Client) *percolator.Schema                                                                                         = (*percolator.Client).Schema
	_ func(*percolator.Client) percolator.Stats                                                                                           = (*percolator.Client).Stats
	_                                                                                                                                     = percolator.Stats{Transactions: 1, Conflicts: 1, Aborts: 1, RolledForward: 1, RolledBack: 1, Notifications: 1, Requests: map[string]int64{}, RowsRead: 1, RowsMutated: 1}
	_ func(*admin.Admin, ctxt, string) ([]string, error)                                                                                  = (*admin.Admin).SampleRowKeys
	_ func(*admin.Admin, ctxt, string, percolator.Range) iter.Seq2[model.Pending, error]                                                  = (*admin.Admin).ScanPending
	_                                                                                                                                     = model.Pending{Table: "", Row: "", Notified: []model.Notification{{Cell: percolator.Cell{}, Timestamp: 1}}, Locks: []model.Lock{{Cell: percolator.Cell{}, Primary: percolator.Cell{}, StartTS: 1, Placed: 1, TTL: 1, Session: "", Observed: true}}}
	_ func(*admin.Admin, ctxt, model.Lock) (model.Resolution, error)                                                                      = (*admin.Admin).ResolveLock
	_                                                                                                                                     = []model.Resolution{model.LockAlive, model.LockRolledForward, model.LockRolledBack, model.LockGone}
	_ func(*commit.Txn, ctxt, percolator.Cell, string, []string) (commit.Acknowledgment, error)                                           = (*commit.Txn).Acknowledge
	_                                                                                                                                     = commit.Acknowledgment{Run: true, Value: nil, Deleted: true, CommitTS: 1, LastRun: 1, Finished: true}
	_ func(*admin.Admin, ctxt, percolator.Cell, tso.Timestamp) error                                                                      = (*admin.Admin).ClearNotification
	_ func(...emulator.Option) (*emulator.Server, error)                                                                                  = emulator.Start
	_ func(*emulator.Server) string                                                                                                       = (*emulator.Server).Addr
	_ func(*emulator.Server) []option.ClientOption                                                                                        = (*emulator.Server).ClientOptions
	_ func(*emulator.Server) error                                                                                                        = (*emulator.Server).Close
	_ int                                                                                                                                 = tso.TicksPerMillisecond
	_ proto.Message
)

type zreader interface {
	StartTimestamp() tso.Timestamp
	Get(ctx context.Context, c percolator.Cell) ([]byte, error)
	GetMulti(ctx context.Context, cells ...percolator.Cell) ([][]byte, error)
	Scan(ctx context.Context, table string, r percolator.Range, columns ...string) iter.Seq2[percolator.Entry, error]
	ScanIndex(ctx context.Context, table, index string, values percolator.Range) iter.Seq2[percolator.Entry, error]
}

func apiColumn[T any](ctx context.Context, c percolator.Column[T], r percolator.Reader, tx *percolator.Txn, v T) {
	v, err := c.Get(ctx, r, "row")
	err = c.Set(tx, "row", v)
	v, err = c.GetOr(ctx, r, "row", v)
	v, err = c.GetForUpdate(ctx, tx, "row")
	err = c.Delete(tx, "row")
	err = c.Notify(tx, "row")
	for e, err := range c.Scan(ctx, r, percolator.All()) {
		_, _ = e, err
	}
	_ = err
}

// observers
var (
	_                                                                                            = observers.Change{Cell: percolator.Cell{}, Value: []byte{}, Deleted: true, Weak: true, CommitTS: tso.Timestamp(1), Attempt: int(1)}
	_ observers.Func                                                                             = func(ctx context.Context, tx *percolator.Txn, ch observers.Change) error { return nil }
	_ func() *observers.Registry                                                                 = observers.NewRegistry
	_ func(*observers.Registry, string, string, string, observers.Func, ...observers.Option)     = (*observers.Registry).Observe
	_ func(*percolator.Client, *observers.Registry, observers.Config) (*observers.Worker, error) = observers.NewWorker
	_ func(*observers.Worker, ctxt) error                                                        = (*observers.Worker).Run
	_ func(*observers.Worker, ctxt) error                                                        = (*observers.Worker).WaitIdle
	_                                                                                            = observers.Config{Concurrency: int(1), Scanners: int(1), ScanInterval: time.Second, MaxAttempts: int(1), DrainTimeout: time.Second, Logger: (*slog.Logger)(nil)}
)

func apiObserve(r *observers.Registry) {
	observers.Observe(r, "n", percolator.Int64("t", "c"), func(ctx context.Context, tx *percolator.Txn, ch observers.Change, v int64) error { return nil })
	observers.Observe[int64](r, "n", percolator.Int64("t", "c"), func(ctx context.Context, tx *percolator.Txn, ch observers.Change, v int64) error { return nil })
}

// percolatortest
var (
	_ func(testing.TB, *percolator.Schema, ...percolatortest.Option) *percolatortest.Env = percolatortest.New
	_ func(*percolatortest.Env) []option.ClientOption                                    = (*percolatortest.Env).Options
)

func apiEnv(e *percolatortest.Env) {
	var c *percolator.Client = e.Client
	var o tso.Oracle = e.Oracle
	var p, i string = e.Project, e.Instance
	c = e.NewClient()
	_, _, _, _ = c, o, p, i
}

// TestPublicAPI is here to compile: every name and signature that callers outside this module rely
// on.
func TestPublicAPI(t *testing.T) { _ = apiColumn[int64]; _ = apiObserve; _ = apiEnv }
