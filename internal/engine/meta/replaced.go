package meta

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/percolator/model"
)

// The instance below a client may be made anew, as an emulator is that is started again, or
// restored: then its schema is gone, or older. The client's locks, its reads and its schema are
// those of an instance that is no more. One look does not tell: the row is also missing for a
// moment while its table is restored, and old in a copy that lags behind.

// ErrUnconfirmed is in the error of a look that has found the schema missing, or older: either that
// passes, or a later look confirms it.
var ErrUnconfirmed = errors.New("the client looks again")

// ReplacedError says that an instance was made anew below its clients.
type ReplacedError struct{ Known, Found uint64 }

func (e *ReplacedError) Error() string {
	return fmt.Sprintf("the instance is not the one that this program began with: its schema had version %d, and has %d (0: none)", e.Known, e.Found)
}

// Is reports whether target is ErrSchemaMismatch.
func (e *ReplacedError) Is(target error) bool { return target == model.ErrSchemaMismatch }

// Replaced returns a *ReplacedError once the instance was made anew.
func (w *Watcher) Replaced() error {
	if e := w.replaced.Load(); e != nil {
		return e
	}
	return nil
}

// confirmation is after how long a second look tells that the instance was replaced: Run takes it.
func (w *Watcher) confirmation() time.Duration {
	return min(time.Second, catalog.RefreshInterval(w.Store.Timing))
}

// checkReplaced compares what a request has found, or failed with, with what was known when it was
// sent. It refuses a missing schema, and an older one until a later request has confirmed it.
func (w *Watcher) checkReplaced(sent time.Time, known, m State, err error) error {
	found := m.Version
	switch {
	case known.Schema == nil:
		return nil
	case errors.Is(err, model.ErrSchemaMismatch) && status.Code(err) == codes.NotFound: // its table is gone
		found = 0
	case err != nil:
		return nil
	case m.Version > known.Version, m.Version == known.Version && bytes.Equal(m.value(metaSchema), known.value(metaSchema)):
		w.doubted.Store(nil)
		return nil
	}
	since := w.doubted.Load()
	if since == nil {
		w.doubted.CompareAndSwap(nil, new(time.Now()))
	}
	confirmed := since != nil && sent.Sub(*since) >= w.confirmation()
	if confirmed && w.replaced.CompareAndSwap(nil, &ReplacedError{known.Version, found}) {
		w.Config.Logger.Error("the instance is not the one that this program began with: its stored schema is gone, or older; restart the program once the schema is stored",
			"known", known.Version, "found", found)
	}
	var refused error
	switch {
	case m.Schema == nil:
		refused = w.noSchema()
	case !confirmed:
		refused = fmt.Errorf("percolator: %w: the stored schema has version %d, and had %d or another content", model.ErrSchemaMismatch, found, known.Version)
	}
	if refused != nil && !confirmed {
		return fmt.Errorf("%w; %w", refused, ErrUnconfirmed)
	}
	return refused
}
