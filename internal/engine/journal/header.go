package journal

import (
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/store"
)

// maxHeaderBytes bounds a header: a session has at most 64 bytes.
const maxHeaderBytes = 1 << 10

// header is the first row of a stream.
type header struct {
	Session string    `json:",omitempty"` // of its client; "": the oracle keeps none
	Opened  time.Time // by the client's clock, for people
}

func encodeHeader(session string, opened time.Time) []byte {
	return layout.JSON(header{session, opened.UTC()})
}

func decodeHeader(b []byte) (h header, err error) {
	if len(b) > maxHeaderBytes || json.Unmarshal(b, &h) != nil {
		return header{}, errors.New("the header of a stream that cannot be decoded")
	}
	return h, nil
}

// Low is how far a stream is settled (J12). One cell of the header holds it: Seq is the timestamp,
// so that the greatest counts, and Open the value.
//
// Rejected: Open in a cell of its own. Of two cells one may be missing, or of another Low.
type Low struct {
	Seq  uint64 // every row below it is settled, or in Open
	Open Open
}

// Open are rows of a stream below its low position that may have left locks: their entries were
// appended again, and the rows with the copies may be above rows that are younger than a safepoint.
type Open struct{ spans }

// maxOpen bounds an Open, and so its cell, to 2 KiB or so. Beyond it rows in between count as open.
const maxOpen = 100

// With is the rows of both.
func (o Open) With(other Open) Open {
	both := Open{slices.Clone(o.spans)}
	for _, s := range other.spans {
		both.spans.add(s.from, s.to)
	}
	both.spans.narrow(maxOpen)
	return both
}

// OpenRow is one row.
func OpenRow(seq uint64) Open { return Open{spans{{seq, seq + 1}}} }

func (l Low) put(mut *store.Mutation) {
	mut.Put(layout.JournalFamily, lowColumn, lowTimestamp(l.Seq), l.Open.encode())
}

// decodeOpen decodes the value of the cell with a low position. Where it says nothing, as an
// earlier version has written it, all rows below are open.
func decodeOpen(low uint64, value []byte) Open {
	if s, ok := decodeSpans(value); ok {
		return Open{s}
	}
	var all Open
	all.add(1, low)
	return all
}
