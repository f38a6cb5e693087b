package percolator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/tso"
)

// A cell whose observer keeps failing is parked: workers leave it alone until it changes again, or somebody has looked. That must
// outlive the worker that gave up, so it is stored, in the row itself, where the scan that finds the notification finds it in the
// same request:
//
//	family  column                      timestamp   value
//	notify  0x00 park 0x00 O 0x00 c     through     O is parked for notifications of c up to through
//	notify  0x00 done 0x00 O 0x00 c     through     O has nothing left to do for them
//
// The notification stays. So nothing can be lost, whenever a worker dies: without the standing, O is tried again; with it,
// the notification is still there for who retries. A standing only holds against notifications up to its timestamp, so a newer change
// is a new chance, and one whose column has no notification at all means nothing any more and is erased by the scan
// (docs/PROTOCOL.md, I19).
//
// That O is done needs saying only beside a parked one, whose notification stays although O has nothing left to do for it; and
// when O's change was dropped. It has a column of its own, so that a late request which parks O does not undo it.
//
// Rejected: moving the notification away, so that scans need not pass over it. Erasing it is safe only together with the knowledge
// that the standing is still there, a conditional request; and the collector would have to learn that a
// deletion is waited for by somebody without a notification.

const (
	parkPrefix = reserved + "park\x00"
	donePrefix = reserved + "done\x00"
)

// column is the standing's column in the notify family.
func (s Standing) column() string {
	prefix := parkPrefix
	if s.Done {
		prefix = donePrefix
	}
	return prefix + s.Observer + "\x00" + s.Cell.Column
}

// standingColumn is the inverse of column.
func standingColumn(column string) (of, observer string, done, ok bool) {
	rest, ok := strings.CutPrefix(column, parkPrefix)
	if !ok {
		if rest, done = strings.CutPrefix(column, donePrefix); !done {
			return "", "", false, false
		}
	}
	observer, of, ok = strings.Cut(rest, "\x00")
	return of, observer, done, ok && observer != "" && of != ""
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
	Attempts  int
	Reason    string    // the last error, at most MaxParkedReason bytes; longer ones are cut
	Since     time.Time // by the clock of the worker that gave up
	Observers []string  // all that observe the column, as that worker knows them
}

// standingCell is the stored form.
type standingCell struct {
	Attempts  int       `json:",omitempty"`
	Reason    string    `json:",omitempty"`
	Since     time.Time `json:",omitzero"`
	Observers [][]byte  `json:",omitempty"` // JSON would damage a name that is no text
}

func (s Standing) encode() []byte {
	if s.Done {
		return nil
	}
	st := standingCell{Attempts: s.Attempts, Since: s.Since,
		Reason: strings.ToValidUTF8(s.Reason[:min(len(s.Reason), MaxParkedReason)], "")} // not half a character
	for _, name := range s.Observers {
		st.Observers = append(st.Observers, []byte(name))
	}
	b, err := json.Marshal(st)
	if err != nil {
		panic(err) // only for a year beyond 9999
	}
	return b
}

// decode fills in what the value says.
func (s *Standing) decode(b []byte) error {
	if s.Done {
		return nil
	}
	var st standingCell
	if err := json.Unmarshal(b, &st); err != nil {
		return fmt.Errorf("a standing of %d bytes that cannot be decoded", len(b))
	}
	s.Attempts, s.Reason, s.Since = st.Attempts, st.Reason, st.Since
	for _, name := range st.Observers {
		s.Observers = append(s.Observers, string(name))
	}
	return nil
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
		mut.Set(notifyFamily, s.column(), cellTime(s.Through), s.encode())
	}
	return c.changeStandings(ctx, cell, mut)
}

// RetryParked has a parked observer run again: it erases the standing, and the notification is there still. Other observers of the
// cell are not affected. A request of the worker that parked it may be late by the request lifetime (I14) and park it once more.
func (c *Client) RetryParked(ctx context.Context, s Standing) error {
	s.Done = false
	return c.changeStandings(ctx, s.Cell, s.erasure())
}

// DropParked gives up on the change for which an observer is parked, as if the observer had run and written nothing. Of an observed
// column it commits the acknowledgment first, so that a drop that is broken off can be repeated. ErrConflict: the cell has changed
// since it was parked, so workers try it again by themselves.
func (c *Client) DropParked(ctx context.Context, s Standing) error {
	info, err := c.standingOn(ctx, s.Cell)
	if err != nil {
		return err
	}
	done := Standing{Cell: s.Cell, Observer: s.Observer, Through: s.Through, Done: true}
	s.Done = false
	mut := s.erasure()
	mut.Set(notifyFamily, done.column(), cellTime(done.Through), done.encode())
	if !info.observed[s.Cell.Column] {
		return c.changeStandings(ctx, s.Cell, mut)
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
	return c.changeStandings(ctx, s.Cell, mut)
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
	mut.DeleteTimestampRange(notifyFamily, s.column(), 0, settledUpTo(s.Through))
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

// Parked returns the observers that are parked for n, a notification in the row.
func (p Pending) Parked(n Notification) (list []Standing) {
	for _, s := range p.Standings {
		if s.Cell == n.Cell && !s.Done && s.Through >= n.Timestamp && !p.done(n, s.Observer) {
			list = append(list, s)
		}
	}
	return list
}

// OnlyParked tells whether nothing is to be done for n until somebody retries or drops what is parked: some observer of the column is
// parked, and all others are parked or done. It goes by the row alone, which may not say yet that another observer is done.
func (p Pending) OnlyParked(n Notification) bool {
	parked := p.Parked(n)
	for _, s := range parked {
		for _, name := range s.Observers {
			if !p.done(n, name) && !slices.ContainsFunc(parked, func(o Standing) bool { return o.Observer == name }) {
				return false
			}
		}
	}
	return len(parked) > 0
}

func (p Pending) done(n Notification, observer string) bool {
	return slices.ContainsFunc(p.Standings, func(s Standing) bool {
		return s.Cell == n.Cell && s.Done && s.Observer == observer && s.Through >= n.Timestamp
	})
}
