package percolator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/tso"
)

// A cell whose observer keeps failing is parked: workers leave it alone until it changes again, or somebody has looked. That must
// outlive the worker that gave up, so it is stored, in the row itself, where the scan that finds the notification finds it in the
// same request:
//
//	family  column                      timestamp   value
//	notify  0x00 park 0x00 O 0x00 c     through     a standing: O is parked, or is done, for notifications of c up to through
//
// The notification stays. So nothing can be lost, whenever a worker dies: without the standing, O is tried again; with it,
// the notification is still there for who retries. A standing only holds against notifications up to its timestamp, so a newer change
// is a new chance, and one whose column has no notification at all means nothing any more and is erased by the scan
// (docs/PROTOCOL.md, I19).
//
// That O is done needs saying only beside a parked one, whose notification stays although O has nothing left to do for it.
//
// Rejected: moving the notification away, so that scans need not pass over it. Erasing it is safe only together with the knowledge
// that the standing is still there, a conditional request; and the collector would have to learn that a
// deletion is waited for by somebody without a notification.

const parkPrefix = reserved + "park\x00"

// parkColumn is the column, in the notify family, of an observer's standing on a column.
func parkColumn(column, observer string) string { return parkPrefix + observer + "\x00" + column }

// parkedColumn is the inverse of parkColumn.
func parkedColumn(column string) (of, observer string, ok bool) {
	rest, ok := strings.CutPrefix(column, parkPrefix)
	if !ok {
		return "", "", false
	}
	observer, of, ok = strings.Cut(rest, "\x00")
	return of, observer, ok && observer != "" && of != ""
}

// MaxParkedReason is how many bytes of an error's text are kept with a parked cell.
const MaxParkedReason = 1024

// Standing says that an observer need not be run for the notifications of a cell up to Through.
type Standing struct {
	Cell     Cell
	Observer string
	Through  tso.Timestamp
	Done     bool // there is nothing left to do, the notification waits for others; otherwise the observer is parked

	// Of a parked one:
	Attempts int
	Reason   string    // the last error, at most MaxParkedReason bytes; longer ones are cut
	Since    time.Time // by the clock of the worker that gave up
}

// standingCell is the stored form.
type standingCell struct {
	Done     bool      `json:",omitempty"`
	Attempts int       `json:",omitempty"`
	Reason   string    `json:",omitempty"`
	Since    time.Time `json:",omitzero"`
}

func (s Standing) encode() []byte {
	reason := s.Reason
	for len(reason) > MaxParkedReason {
		reason = reason[:MaxParkedReason]
		for len(reason) > 0 && !utf8.ValidString(reason[max(0, len(reason)-utf8.UTFMax):]) { // not in the middle of a character
			reason = reason[:len(reason)-1]
		}
	}
	b, err := json.Marshal(standingCell{s.Done, s.Attempts, reason, s.Since})
	if err != nil {
		panic(err) // only for a year beyond 9999
	}
	return b
}

func decodeStanding(cell Cell, observer string, through tso.Timestamp, b []byte) (Standing, error) {
	var st standingCell
	if err := json.Unmarshal(b, &st); err != nil {
		return Standing{}, fmt.Errorf("a standing of %d bytes that cannot be decoded", len(b))
	}
	return Standing{cell, observer, through, st.Done, st.Attempts, st.Reason, st.Since}, nil
}

// SetStandings stores standings, all of one cell, in one request: all or none. Of what is stored of an observer the latest counts.
// ErrSchemaMismatch: the column can neither be observed nor notified.
func (c *Client) SetStandings(ctx context.Context, standings ...Standing) error {
	if len(standings) == 0 {
		return nil
	}
	cell := standings[0].Cell
	mut := bigtable.NewMutation()
	for _, s := range standings {
		if s.Cell != cell || s.Observer == "" || strings.Contains(s.Observer, "\x00") {
			return cellErr(ErrInvalidArgument, cell, "standings of several cells, or an observer's name that is empty or contains the byte 0x00")
		}
		mut.Set(notifyFamily, parkColumn(cell.Column, s.Observer), cellTime(s.Through), s.encode())
	}
	return c.changeStandings(ctx, cell, mut)
}

// RetryParked has a parked observer run again: it erases the standing and notifies the cell anew, in one request. Other observers of
// an observed column have nothing to do then; those of a weak column run again as well.
func (c *Client) RetryParked(ctx context.Context, s Standing) error {
	// A new timestamp, because workers that remember the standing hold it against notifications up to it only.
	now, err := c.next(ctx)
	if err != nil {
		return err
	}
	mut := s.erasure()
	mut.Set(notifyFamily, s.Cell.Column, cellTime(now), nil)
	if err := c.changeStandings(ctx, s.Cell, mut); err != nil {
		return err
	}
	c.notified(Notification{s.Cell, now})
	return nil
}

// DropParked gives up on the change for which an observer is parked, as if the observer had run and written nothing. Of an observed
// column it commits the acknowledgment first, so that a drop that is broken off can be repeated. ErrConflict: the cell has changed
// since it was parked, so workers try it again by themselves.
func (c *Client) DropParked(ctx context.Context, s Standing) error {
	info, err := c.standingOn(ctx, s.Cell)
	if err != nil {
		return err
	}
	done := Standing{Cell: s.Cell, Observer: s.Observer, Through: s.Through, Done: true} // in the place of the parked one
	if !info.observed[s.Cell.Column] {
		return c.SetStandings(ctx, done)
	}
	var changed tso.Timestamp
	_, err = c.Update(ctx, func(ctx context.Context, tx *Txn) error {
		ack, err := tx.Acknowledge(ctx, s.Cell, s.Observer, []string{s.Observer})
		if err != nil {
			return err
		}
		if changed = ack.CommitTS; changed > s.Through {
			return errChangedSince
		}
		tx.keepNotification(s.Cell) // others may wait for it; a worker finds out
		return nil
	})
	switch {
	case errors.Is(err, errChangedSince):
		return cellErr(ErrConflict, s.Cell, "it changed at %d, after observer %q was parked at %d; workers try it again", changed, s.Observer, s.Through)
	case err != nil:
		return err
	}
	return c.SetStandings(ctx, done)
}

// errChangedSince ends the transaction of a drop. It is not ErrConflict, which would have it repeated.
var errChangedSince = errors.New("the cell has changed since it was parked")

// ForgetStandings erases standings without a notification (I19), in the background.
func (c *Client) ForgetStandings(ctx context.Context, standings ...Standing) error {
	if err := checkContext(ctx); err != nil {
		return err
	}
	for _, s := range standings {
		if _, err := c.standingOn(ctx, s.Cell); err != nil {
			return err
		}
		c.bulk.add(ctx, rowMutation{table: s.Cell.Table, row: s.Cell.Row, mut: s.erasure(), deadline: time.Now().Add(c.store.timing.RequestLifetime), done: func(error) {}})
	}
	return nil
}

func (s Standing) erasure() *bigtable.Mutation {
	mut := bigtable.NewMutation()
	mut.DeleteTimestampRange(notifyFamily, parkColumn(s.Cell.Column, s.Observer), 0, settledUpTo(s.Through))
	return mut
}

// standingOn checks that the cell is one on which observers can stand.
func (c *Client) standingOn(ctx context.Context, cell Cell) (*tableInfo, error) {
	if err := checkContext(ctx); err != nil {
		return nil, err
	}
	info, ok := c.catalog.Load().user(cell.Table)
	switch {
	case !ok:
		return nil, unknownTable(cell.Table)
	case !info.observed[cell.Column] && !info.weak[cell.Column]:
		return nil, cellErr(ErrSchemaMismatch, cell, "the column is neither observed nor weak in the schema")
	}
	return info, ctx.Err()
}

// changeStandings applies a mutation and waits for its answer.
func (c *Client) changeStandings(ctx context.Context, cell Cell, mut *bigtable.Mutation) error {
	if _, err := c.standingOn(ctx, cell); err != nil {
		return err
	}
	return c.bulk.do(ctx, []rowMutation{{table: cell.Table, row: cell.Row, mut: mut, deadline: time.Now().Add(c.store.timing.RequestLifetime)}})
}
