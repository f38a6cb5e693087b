package layout

import (
	"encoding/binary"
	"errors"
	"math"
	"time"

	"github.com/gopercolator/percolator/tso"
)

// Lifetime says when a value expires that is about to be committed (I27): some time after its
// commit timestamp, or at a timestamp that is known already. The zero value is that of a value that
// does not expire.
type Lifetime struct {
	For   time.Duration
	Until tso.Timestamp // counts before For
}

// decode takes what Encode of a lock has written, and returns the rest.
func (l *Lifetime) decode(b []byte) (rest []byte, err error) {
	for _, field := range []*int64{(*int64)(&l.For), (*int64)(&l.Until)} {
		v, n := binary.Uvarint(b)
		if n <= 0 || v > math.MaxInt64 {
			return nil, errors.New("a number that cannot be")
		}
		*field, b = int64(v), b[n:]
	}
	if *l == (Lifetime{}) {
		return nil, errors.New("no time")
	}
	return b, nil
}

// ExpiresAt is the first snapshot that does not see the value any more, if it commits at commitTS;
// 0: all see it. A value that would never be seen counts as one that expires at once.
func (l Lifetime) ExpiresAt(commitTS tso.Timestamp) tso.Timestamp {
	switch {
	case l.Until != 0:
		return max(l.Until, commitTS+1)
	case l.For > 0:
		if at := commitTS.Add(l.For); at > commitTS {
			return at
		}
		return commitTS + 1
	}
	return 0
}

// Expired reports whether a snapshot at ts does not see the value of the record any more. The
// record alone decides, so that all who read at ts agree, whatever schema they know (I27).
func (w WriteRecord) Expired(ts tso.Timestamp) bool { return w.Expires != 0 && ts >= w.Expires }
