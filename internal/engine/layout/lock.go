package layout

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/gopercolator/percolator/internal/engine/model"
	"github.com/gopercolator/percolator/tso"
)

// LockRecord is one cell of the lock family.
type LockRecord struct {
	StartTS  tso.Timestamp // the cell's timestamp
	Kind     Kind          // what commit will write
	Primary  model.Cell
	Placed   tso.Timestamp // oracle time when it was placed or refreshed
	TTL      time.Duration // it may be judged dead after Placed + TTL
	Observed bool          // its commit writes the notify cell (I10)
	Session  string        // lease of the client; "" for none
	Life     Lifetime      // of the value, if it is a put that expires
}

// The versions of a lock. A put that expires says so behind what the first version has.
const (
	lockVersion         = 1
	expiringLockVersion = 2
)

// Encode is the stored form.
func (l *LockRecord) Encode() []byte {
	b := make([]byte, 0, 32+len(l.Primary.Table)+len(l.Primary.Row)+len(l.Primary.Column)+len(l.Session))
	version := byte(lockVersion)
	if l.Life != (Lifetime{}) {
		version = expiringLockVersion
	}
	b = append(b, version, byte(l.Kind), boolByte(l.Observed))
	b = binary.BigEndian.AppendUint64(b, uint64(l.Placed))
	b = binary.AppendUvarint(b, uint64(l.TTL/time.Millisecond))
	for _, s := range []string{l.Primary.Table, l.Primary.Row, l.Primary.Column, l.Session} {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	if version == expiringLockVersion {
		b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(l.Life.For)), uint64(l.Life.Until))
	}
	return b
}

func boolByte(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// DecodeLock never panics, whatever the bytes, and never accepts a lock that this package could not
// have written.
func DecodeLock(ts int64, b []byte) (LockRecord, error) {
	start, err := FromCell(ts)
	if err != nil {
		return LockRecord{}, err
	}
	if len(b) < 11 || b[0] != lockVersion && b[0] != expiringLockVersion || b[2] > 1 {
		return LockRecord{}, fmt.Errorf("a lock of %d bytes that cannot be decoded", len(b))
	}
	l := LockRecord{StartTS: start, Kind: Kind(b[1]), Observed: b[2] == 1, Placed: tso.Timestamp(binary.BigEndian.Uint64(b[3:]))}
	expires := b[0] == expiringLockVersion
	b = b[11:]
	ttl, n := binary.Uvarint(b)
	if n <= 0 || ttl > uint64(24*time.Hour/time.Millisecond) || (l.Kind != KindLock && !l.Kind.Changes()) || l.Placed < start {
		return LockRecord{}, fmt.Errorf("a lock whose kind, time or TTL cannot be")
	}
	l.TTL = time.Duration(ttl) * time.Millisecond
	b = b[n:]
	for _, field := range []*string{&l.Primary.Table, &l.Primary.Row, &l.Primary.Column, &l.Session} {
		size, n := binary.Uvarint(b)
		if n <= 0 || size > uint64(len(b)-n) {
			return LockRecord{}, fmt.Errorf("a lock that ends too early")
		}
		*field = string(b[n : n+int(size)])
		b = b[n+int(size):]
	}
	if expires {
		if b, err = l.Life.decode(b); err != nil || l.Kind != KindPut {
			return LockRecord{}, fmt.Errorf("a lock whose value expires at no time")
		}
	}
	if len(b) != 0 || l.Primary.Table == "" || l.Primary.Row == "" || l.Primary.Column == "" {
		return LockRecord{}, fmt.Errorf("a lock without a primary or with bytes after its end")
	}
	return l, nil
}

// Lock is a lock as it stands in the store, for tools and observers.
type Lock struct {
	Cell     model.Cell
	Primary  model.Cell // the cell that decides its transaction's status
	StartTS  tso.Timestamp
	Placed   tso.Timestamp // oracle time when it was placed or refreshed
	TTL      time.Duration // it may be judged dead after Placed + TTL
	Session  string        // the lease of its client; "" for none
	Observed bool          // its commit notifies observers
	Kind     string        // "put", "delete" or "lock"
}

// Export is the lock on c as tools and observers see it.
func (l *LockRecord) Export(c model.Cell) Lock {
	name := map[Kind]string{KindPut: "put", KindDelete: "delete", KindLock: "lock"}[l.Kind]
	return Lock{Cell: c, Primary: l.Primary, StartTS: l.StartTS, Placed: l.Placed, TTL: l.TTL, Session: l.Session, Observed: l.Observed, Kind: name}
}
