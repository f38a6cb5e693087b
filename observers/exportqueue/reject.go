package exportqueue

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gopercolator/percolator/percolator"
)

// MaxReasonBytes is how many bytes are kept of the text of the error given to Reject. What is
// beyond it is left out.
const MaxReasonBytes = 1024

// Reject returns the error with which a delivery function says that the receiver has refused some
// entries of the batch for good, and has all others. The transaction that deletes those puts the
// refused ones into the table of dead letters, Config.DeadLetters, with the text of reason, and the
// partition goes on: entries behind a refused one do not wait for it. [DeadLetters] lists them.
//
// Refuse only what the receiver will never take. For one that is down, or takes nothing at present,
// return another error: the batch is delivered again.
//
// errors.Join joins rejections that have different reasons. Joined with another error, without
// Config.DeadLetters, with a reason for no entry, and for an entry that is not of the batch, Reject
// is an error like any other: it deletes nothing.
func Reject(reason error, refused ...Entry) error {
	return &rejection{reason, slices.Clone(refused)}
}

// rejection is what Reject returns.
type rejection struct {
	reason  error // nil: the receiver gave none
	entries []Entry
}

// Error implements error. It has no keys, which are the user's.
func (r *rejection) Error() string {
	return fmt.Sprintf("the receiver rejects %d entries: %s", len(r.entries), r.text())
}

func (r *rejection) Unwrap() error { return r.reason }

// text is the reason, as it is stored.
func (r *rejection) text() string {
	if r.reason == nil {
		return ""
	}
	text := strings.ToValidUTF8(r.reason.Error(), "\uFFFD")
	return strings.ToValidUTF8(text[:min(len(text), MaxReasonBytes)], "") // not half a letter
}

// rejections lists what err wraps, if that is rejections alone. Beside any other failure, a
// rejection does not say that the receiver has the other entries.
func rejections(err error) (all []*rejection) {
	switch x := err.(type) { //nolint:errorlint // it unwraps itself, as all branches count
	case *rejection:
		if len(x.entries) == 0 && x.reason != nil {
			return nil
		}
		return []*rejection{x}
	case interface{ Unwrap() error }:
		return rejections(x.Unwrap())
	case interface{ Unwrap() []error }:
		for _, err := range x.Unwrap() {
			more := rejections(err)
			if len(more) == 0 {
				return nil
			}
			all = append(all, more...)
		}
	}
	return all
}

// bury adds to tx the dead letters of a batch if err is a rejection. It returns nil if the run may
// delete all entries of the batch. After an error it has added none, because the run commits if it
// joins others. It reads the entries again: the receiver may have changed those it was given.
func (q *Queue) bury(ctx context.Context, tx *percolator.Txn, b *batch, err error) error {
	all := rejections(err)
	if len(all) == 0 {
		return err
	}
	if q.cfg.DeadLetters == "" {
		return fmt.Errorf("%w (Config.DeadLetters names no table for them)", err)
	}
	var cells []percolator.Cell
	var reasons []string
	for _, r := range all {
		for _, e := range r.entries {
			at, found := slices.BinarySearchFunc(b.cells, entryColumn(e.StartTS, e.Seq), func(c percolator.Cell, column string) int {
				return strings.Compare(c.Column, column)
			})
			if !found {
				return invalid("an entry is rejected that is not of the batch")
			}
			cells, reasons = append(cells, b.cells[at]), append(reasons, r.text())
		}
	}
	values, err := tx.GetMulti(ctx, cells...)
	if err != nil {
		return err
	}
	for i, c := range cells {
		if err := tx.Set(letterCell(q.cfg.DeadLetters, c), encodeLetter(reasons[i], values[i])); err != nil {
			return err
		}
	}
	return nil
}
