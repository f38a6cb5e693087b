package journal

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"iter"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// An entry leads the collector to a row when its transaction is older than the watermark, and then
// it goes; a value of the row may expire long after that. So before the entry goes, the collector
// files the row under the time when the value expires (J11), and looks there again when the
// watermark has passed it. What is filed is a name: what of the row is garbage, the row says. A row
// here holds one batch, of one entry without a primary, at the time of its key.

// expiryStep is how exactly times are kept, so that rows which expire together share a request.
const expiryStep = 4096 * 1000 * 60 // ticks: a minute

// ExpiryTime rounds a time up to one under which rows are stored.
func ExpiryTime(at tso.Timestamp) tso.Timestamp {
	return min((at+expiryStep-1)/expiryStep*expiryStep, tso.MaxTimestamp)
}

// Expiries is the rows of percolator_journal with what expires up to a time.
func Expiries(upTo tso.Timestamp) model.Range {
	return model.Between(string([]byte{expiryShard}), expiryKey(upTo+1, nil))
}

func expiryKey(at tso.Timestamp, id []byte) string {
	return string(append(binary.BigEndian.AppendUint64([]byte{expiryShard}, uint64(at)), id...))
}

// FileExpiring stores rows of tables under the time at which something in them expires, rounded up.
func FileExpiring(ctx context.Context, s *store.Store, at tso.Timestamp, rows []model.JournalName) error {
	at = ExpiryTime(at)
	for len(rows) > 0 {
		e, size := &model.JournalEntry{StartTS: at}, 0
		for len(e.Rows) < len(rows) && (size == 0 || size+rowBytes(rows[len(e.Rows)]) <= partBytes) {
			size += rowBytes(rows[len(e.Rows)])
			e.Rows = rows[:len(e.Rows)+1]
		}
		rows = rows[len(e.Rows):]
		id := make([]byte, 16)
		_, _ = rand.Read(id) // never fails
		mut := store.NewMutation(1)
		mut.Put(layout.JournalFamily, batchColumn, store.MetaTimestamp, encodeBatch([]*model.JournalEntry{e}))
		if _, err := s.Retry(ctx, func(ctx context.Context) (bool, error) {
			return true, s.Mutate(ctx, model.JournalTable, expiryKey(at, id), mut)
		}); err != nil {
			return err
		}
	}
	return nil
}

// Expiry is a row of percolator_journal with rows of tables in which something has expired.
type Expiry struct {
	Key  string
	Rows []model.JournalName
}

// ReadExpiries streams what has expired up to a time, in order.
func ReadExpiries(ctx context.Context, s *store.Store, upTo tso.Timestamp) iter.Seq2[[]Expiry, error] {
	return func(yield func([]Expiry, error) bool) {
		size := store.PageSize{Rows: 64, Bytes: 4 << 20}
		for page, err := range s.NewPass(model.JournalTable, Expiries(upTo), store.JournalCells(), size).Pages(ctx) {
			var list []Expiry
			for _, row := range page.Rows {
				entries, berr := batchOf(row)
				if err == nil {
					err = berr
				}
				x := Expiry{Key: row.Key}
				for _, e := range entries {
					x.Rows = append(x.Rows, e.Rows...)
				}
				list = append(list, x)
			}
			if !yield(list, err) || err != nil {
				return
			}
		}
	}
}
