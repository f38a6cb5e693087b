// Package admin is what operators and tools call: schemas, inspection, locks, indexes, collection
// and holds, notifications, workers, exports, restores and repairs of one instance.
//
// Programs that only read and write use package percolator.
package admin

import (
	"context"
	"errors"
	"fmt"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/internal/engine"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
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

// EncodeSchema returns the stored form of a schema: JSON in a fixed order, without Splits. Equal
// schemas have equal encodings.
func EncodeSchema(s *percolator.Schema) []byte { return catalog.EncodeSchema(s) }

// DecodeSchema is the inverse of EncodeSchema. ErrSchemaMismatch: b is of another format, which the
// error names with the remedy. ErrCorrupt: CreateSchema would not store b.
func DecodeSchema(b []byte) (*percolator.Schema, error) {
	s, err := catalog.DecodeSchema(b)
	switch {
	case errors.Is(err, model.ErrSchemaMismatch):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("percolator: %w: a schema that cannot be decoded: %w", model.ErrCorrupt, err)
	}
	return s, nil
}
