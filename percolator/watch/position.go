package watch

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gopercolator/percolator/internal/engine/journal"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/tso"
)

// Position is how far a consumer has come: it has every change that committed at or below
// Timestamp. The zero value is none. Beside the timestamp it knows where in the journal to go on,
// which saves reading what the journal still holds of earlier changes, and how many changes of the
// next transaction the consumer has. A watcher of other columns goes by the timestamp alone.
//
// Its text form is ASCII without white space: the timestamp, and after a dot, if there is more, at
// most 64 KiB.
type Position struct {
	ts tso.Timestamp
	// Later commits have entries in these rows, or other streams; immutable.
	from   map[journal.StreamID]uint64
	within within
	// Those of the watcher that has given it. It has passed entries of other tables whose
	// transactions commit later.
	columns digest
}

// within tells how many changes of the transaction that committed at commit, above the position,
// were handed out.
type within struct {
	commit tso.Timestamp
	n      int
}

// digest stands for the columns of a watcher.
type digest [8]byte

// digest of the columns, in whatever order and however often they are named.
func (cfg Config) digest() (d digest) {
	var b []byte
	of := cfg.columns()
	for _, table := range slices.Sorted(maps.Keys(of)) {
		b = fmt.Appendf(b, "%q%q", table, slices.Sorted(slices.Values(of[table])))
	}
	sum := sha256.Sum256(b)
	copy(d[:], sum[:])
	return d
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
	if len(p.from) == 0 && p.within.n == 0 {
		return text
	}
	var streams []byte
	for _, id := range slices.Sorted(maps.Keys(p.from)) {
		streams = binary.AppendUvarint(append(streams, id...), p.from[id])
	}
	rest := p.columns[:]
	if p.within.n > 0 {
		rest = binary.AppendUvarint(binary.AppendUvarint(rest, uint64(p.within.commit)), uint64(p.within.n))
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(streams) + "." + base64.RawURLEncoding.EncodeToString(rest)
}

// MarshalText is String.
func (p Position) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText is the inverse of MarshalText. ErrInvalidArgument: text is no position.
func (p *Position) UnmarshalText(text []byte) error {
	none := fmt.Errorf("watch: %w: not a position", percolator.ErrInvalidArgument)
	number, more, _ := strings.Cut(string(text), ".")
	streams, rest, _ := strings.Cut(more, ".")
	ts, err := strconv.ParseInt(number, 10, 64)
	b, err2 := base64.RawURLEncoding.DecodeString(streams)
	c, err3 := base64.RawURLEncoding.DecodeString(rest)
	if err != nil || err2 != nil || err3 != nil || ts < 0 || tso.Timestamp(ts) > tso.MaxTimestamp {
		return none
	}
	at := Position{ts: tso.Timestamp(ts), from: map[journal.StreamID]uint64{}}
	for len(b) > 0 {
		id, rest, ok := journal.CutStreamID(b)
		seq, n := binary.Uvarint(rest)
		if !ok || n <= 0 || seq == 0 || len(at.from) == maxStreams {
			return none
		}
		at.from[id], b = seq, rest[n:]
	}
	if len(c) > 0 {
		if n := copy(at.columns[:], c); n < len(at.columns) {
			return none
		}
		c = c[len(at.columns):]
	}
	if len(c) > 0 {
		commit, n := binary.Uvarint(c)
		count, m := binary.Uvarint(c[max(n, 0):])
		if n <= 0 || m <= 0 || n+m < len(c) || commit <= uint64(ts) || commit > uint64(tso.MaxTimestamp) || count == 0 || count > math.MaxInt32 {
			return none
		}
		at.within = within{tso.Timestamp(commit), int(count)}
	}
	*p = at
	return nil
}
