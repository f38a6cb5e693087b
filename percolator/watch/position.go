package watch

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gopercolator/percolator/internal/journal"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/tso"
)

// Position is how far a consumer has come: it has every change that committed at or below
// Timestamp. The zero value is none. Beside the timestamp it knows where in the journal to go on,
// which saves reading what the journal still holds of earlier changes.
//
// Its text form is ASCII without white space: the timestamp, and after a dot, if there is more, at
// most 64 KiB.
type Position struct {
	ts tso.Timestamp
	// Later commits have entries in these rows, or other streams; immutable.
	from map[journal.StreamID]uint64
}

// At is the position of a consumer that wants what commits above ts.
func At(ts tso.Timestamp) Position { return Position{ts: ts} }

// Timestamp is 0 for the zero value.
func (p Position) Timestamp() tso.Timestamp { return p.ts }

// maxStreams is how many streams a position knows of. What it does not know of is read again.
const maxStreams = 1000

// String is the text form.
func (p Position) String() string {
	text := strconv.FormatInt(int64(p.ts), 10)
	if len(p.from) == 0 {
		return text
	}
	var b []byte
	for _, id := range slices.Sorted(maps.Keys(p.from)) {
		b = binary.AppendUvarint(append(b, id...), p.from[id])
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(b)
}

// MarshalText is String.
func (p Position) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText is the inverse of MarshalText. ErrInvalidArgument: text is no position.
func (p *Position) UnmarshalText(text []byte) error {
	number, streams, _ := strings.Cut(string(text), ".")
	ts, err := strconv.ParseInt(number, 10, 64)
	b, err2 := base64.RawURLEncoding.DecodeString(streams)
	if err != nil || err2 != nil || ts < 0 || tso.Timestamp(ts) > tso.MaxTimestamp {
		return fmt.Errorf("watch: %w: not a position", percolator.ErrInvalidArgument)
	}
	from := map[journal.StreamID]uint64{}
	for len(b) > 0 {
		id, rest, ok := journal.CutStreamID(b)
		seq, n := binary.Uvarint(rest)
		if !ok || n <= 0 || seq == 0 || len(from) == maxStreams {
			return fmt.Errorf("watch: %w: not a position", percolator.ErrInvalidArgument)
		}
		from[id], b = seq, rest[n:]
	}
	*p = Position{tso.Timestamp(ts), from}
	return nil
}
