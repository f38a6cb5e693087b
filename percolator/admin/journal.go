package admin

import (
	"context"
	"iter"
	"time"

	"github.com/gopercolator/percolator/internal/engine/journal"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// JournalStream is a stream of the journal: what one client has appended in one session.
type JournalStream struct {
	ID           string // hexadecimal
	Session      string // of its client
	SessionState SessionState
	Opened       time.Time // by its client's clock; zero: not known
	Low          uint64    // the number of a row: every one below it is settled
	Rows         int       // not yet collected; at most 10,000 are counted
	Unsettled    int       // of these, from Low on
	More         bool      // there are more than were counted
	// Oldest is the start timestamp of the oldest transaction in the first unsettled row; 0: there
	// is no such row.
	Oldest  tso.Timestamp
	Corrupt string // why the header or the first unsettled row cannot be decoded; "": they can be
}

// JournalRow is a row of a stream, with a batch of entries.
type JournalRow struct {
	Seq     uint64 // its number, from 1
	Bytes   int
	Entries []model.JournalEntry
	Corrupt string // why Entries cannot be decoded; "": they can be
}

// JournalStreams lists the streams of the journal in the order of their IDs, no more than most;
// more tells whether there are others. What cannot be decoded is listed, not an error. Errors:
// those of the store and the oracle.
func (a *Admin) JournalStreams(ctx context.Context, most int) (list []JournalStream, more bool, err error) {
	ctx = store.InBackground(ctx)
	sessions := map[string]bool{}
	for in, err := range journal.Inspect(ctx, a.e.Store) {
		if err != nil {
			return nil, false, err
		}
		if more = len(list) == most; more {
			break
		}
		list = append(list, JournalStream{
			ID: in.ID.String(), Session: in.Session, Opened: in.Opened, Low: in.Low,
			Rows: in.Rows, Unsettled: in.Unsettled, More: in.More, Oldest: in.Oldest, Corrupt: textOf(in.Corrupt),
		})
		if in.Session != "" {
			sessions[in.Session] = true
		}
	}
	j := judgement{ended: map[string]bool{}}
	a.askSessions(ctx, sessions, &j)
	for i := range list {
		list[i].SessionState = j.session(list[i].Session)
	}
	return list, more, nil
}

// JournalRows streams those rows of a stream that are still stored, from number from on; 0: from
// the first one. Rows that cannot be decoded are listed, not errors. ErrInvalidArgument: stream is
// not the id of one.
func (a *Admin) JournalRows(ctx context.Context, stream string, from uint64) iter.Seq2[JournalRow, error] {
	return func(yield func(JournalRow, error) bool) {
		id, err := journal.ParseStreamID(stream)
		if err != nil {
			yield(JournalRow{}, err)
			return
		}
		rows := journal.InspectRows(store.InBackground(ctx), a.e.Store, id, from)
		rows(func(in journal.InspectedRow, err error) bool {
			return yield(JournalRow{Seq: in.Seq, Bytes: in.Bytes, Entries: in.Entries, Corrupt: textOf(in.Corrupt)}, err)
		})
	}
}

// FoundEntry is an entry that names a row, and where it stands.
type FoundEntry struct {
	Stream  string
	Seq     uint64
	Settled bool               // it is below the low position
	Entry   model.JournalEntry // of its rows only that one
}

// MaxEntriesSearched is how many rows of the journal EntriesOf reads at most. It searches none
// beyond it.
const MaxEntriesSearched = 20_000

// EntriesOf finds the entries of the journal that name a row: unsettled ones, and settled ones
// until they are collected. The journal has no index by rows, so it reads the streams, at most
// MaxEntriesSearched of their rows; all tells whether that was all of them. It skips what it cannot
// decode.
func (a *Admin) EntriesOf(ctx context.Context, table, row string) (found []FoundEntry, all bool, err error) {
	ctx = store.InBackground(ctx)
	read := 0
	for st, err := range journal.Inspect(ctx, a.e.Store) {
		if err != nil {
			return found, false, err
		}
		if st.ID == "" {
			continue
		}
		for in, err := range journal.InspectRows(ctx, a.e.Store, st.ID, 1) {
			if err != nil {
				return found, false, err
			}
			if read++; read > MaxEntriesSearched {
				return found, false, nil
			}
			for _, e := range in.Entries {
				if e.Rows = namesOf(e, table, row); len(e.Rows) > 0 {
					found = append(found, FoundEntry{st.ID.String(), in.Seq, in.Seq < st.Low, e})
				}
			}
		}
	}
	return found, true, nil
}

func namesOf(e model.JournalEntry, table, row string) (names []model.JournalName) {
	for _, r := range e.Rows {
		if r.Table == table && r.Key == row {
			names = append(names, r)
		}
	}
	return names
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
