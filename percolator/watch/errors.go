package watch

import (
	"errors"
	"fmt"
	"slices"

	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/tso"
)

func inFuture(from, now tso.Timestamp) error {
	return fmt.Errorf("watch: %w: the position %d is beyond the oracle's present (%d)", percolator.ErrInvalidArgument, from, now)
}

func noJournal(m meta.State) error {
	if m.Schema.DisableJournal {
		return fmt.Errorf("watch: %w: it is disabled in the schema; watchers follow it (percolator schema apply)", ErrNoJournal)
	}
	return fmt.Errorf("watch: %w: it is being built; workers do so, or percolator sweep", ErrNoJournal)
}

func tooOld(position, since tso.Timestamp) error {
	return fmt.Errorf("watch: %w: the journal was built anew at %d, above the position %d: read the table at a snapshot, and watch from there", percolator.ErrSnapshotTooOld, since, position)
}

// dropped is the error for what the schema had when the watcher began.
func dropped(err error) error {
	return fmt.Errorf("watch: %w: what is watched was dropped: %w", percolator.ErrSchemaMismatch, err)
}

// definite are errors that do not pass by themselves.
var definite = []error{
	errStopped, ErrTakenOver, ErrNoJournal, percolator.ErrClosed, percolator.ErrCorrupt, percolator.ErrInvalidArgument, percolator.ErrSchemaMismatch,
	percolator.ErrTooLarge,
}

// transient reports whether an error may be that of a store or an oracle which does not answer, or
// of one look at an instance.
func transient(err error) bool {
	if errors.Is(err, meta.ErrUnconfirmed) {
		return true
	}
	if slices.ContainsFunc(definite, func(d error) bool { return errors.Is(err, d) }) {
		return false
	}
	if _, answered := status.FromError(err); errors.Is(err, percolator.ErrSnapshotTooOld) && !answered {
		return false // else the safepoint could not be read
	}
	return retry.Ambiguous(err)
}
