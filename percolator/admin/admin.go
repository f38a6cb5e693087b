// Package admin is what operators and tools call: schemas, inspection, locks, indexes, collection
// and holds, notifications, workers, exports, restores and repairs of one instance.
//
// Programs that only read and write use package percolator.
package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/gopercolator/percolator/internal/engine"
	"github.com/gopercolator/percolator/internal/engine/model"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/tso"
)

// Admin inspects and operates the instance of a client. It shares the client's connections; there
// is nothing to close. All methods may be called concurrently.
type Admin struct{ e *engine.Engine }

// New returns the Admin of the instance that c is connected to.
func New(c *percolator.Client) *Admin { return &Admin{c.Engine()} }

// Oracle returns the oracle that the client uses: Config.Oracle, or the one that NewClient has
// dialed. It may offer more than timestamps (coordination.Sessions, coordination.RowLocks,
// coordination.Hints). Do not close it while the client is in use.
func (a *Admin) Oracle() tso.Oracle { return a.e.Clock.Oracle }

// SampleRowKeys lists the end keys of the table's tablets in order. Bigtable may know few or none
// of them. Errors: those of the store.
func (a *Admin) SampleRowKeys(ctx context.Context, table string) ([]string, error) {
	return a.e.Reads.SampleRowKeys(ctx, table)
}

// SampleEvenly is at most n of SampleRowKeys, evenly chosen, without empty ones and duplicates:
// what lies between them is about equally large.
func (a *Admin) SampleEvenly(ctx context.Context, table string, n int) ([]string, error) {
	keys, err := a.SampleRowKeys(ctx, table)
	return evenly(keys, n), err
}

// evenly picks at most n of the keys, which are in order, without empty ones and duplicates.
func evenly(keys []string, n int) []string {
	keys = slices.Compact(slices.DeleteFunc(slices.Clone(keys), func(k string) bool { return k == "" }))
	if len(keys) <= n {
		return keys
	}
	out := make([]string, n)
	for i := range out {
		out[i] = keys[(i+1)*len(keys)/(n+1)]
	}
	return slices.Compact(out)
}

// EstimatedTime estimates the oracle's time without a request: the newest timestamp that the client
// has got, plus the monotonic time since the client asked for it. Use it for ages that people look
// at, not for snapshots. ok is false before the first timestamp.
func (a *Admin) EstimatedTime() (now tso.Timestamp, ok bool) {
	return a.e.Clock.EstimatedTime()
}

// Telemetry returns Config.MeterProvider and Config.TracerProvider, for packages that work with the
// client; either may be nil.
func (a *Admin) Telemetry() (metric.MeterProvider, trace.TracerProvider) {
	return a.e.Telemetry()
}

// EncodeSchema returns the stored form of a schema: JSON in a fixed order, without Splits. Equal
// schemas have equal encodings.
func EncodeSchema(s *percolator.Schema) []byte { return model.EncodeSchema(s) }

// DecodeSchema is the inverse of EncodeSchema. ErrSchemaMismatch: b is of another format, which the
// error names with the remedy. ErrCorrupt: CreateSchema would not store b.
func DecodeSchema(b []byte) (*percolator.Schema, error) {
	s, err := model.DecodeSchema(b)
	switch {
	case errors.Is(err, model.ErrSchemaMismatch):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("percolator: %w: a schema that cannot be decoded: %w", model.ErrCorrupt, err)
	}
	return s, nil
}
