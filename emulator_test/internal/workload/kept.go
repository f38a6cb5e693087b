package workload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/emulator_test/internal/history"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// viewPast reads as of an acknowledged commit, often one that others read as well.
func (s *Session) viewPast(ctx context.Context) {
	ts, ok := s.somePast()
	if !ok {
		return
	}
	s.View(ctx, "view past", func(ctx context.Context, r Reader) error {
		if err := r.checkBank(ctx); err != nil {
			return err
		}
		if err := r.checkRing(ctx); err != nil {
			return err
		}
		_, err := r.cells(ctx, s.someCells()...)
		return err
	}, percolator.AsOfTimestamp(ts))
}

// Bygone reads as of a commit whose retention is over, if there is one that no hold keeps and no
// collector has announced yet: no read may be answered.
func (s *Session) Bygone(ctx context.Context) {
	bounds, err := admin.New(s.Client).CollectionBounds(ctx) // the client has learned of them then
	bygone := slices.DeleteFunc(s.Past(), func(ts tso.Timestamp) bool { return ts <= bounds.Safepoint || ts >= bounds.Next })
	if err != nil || len(bygone) == 0 {
		return
	}
	ts := bygone[s.Rand.IntN(len(bygone))]
	s.View(ctx, "view bygone", func(ctx context.Context, r Reader) error {
		err := r.checkBank(ctx)
		if err == nil && !s.holds(ts, bounds.Now) {
			r.rec.Broken("a snapshot is readable that might have been collected up to %d", bounds.Next)
		}
		return err
	}, percolator.AsOfTimestamp(ts))
}

// holds tells whether the client knows of a hold that keeps a snapshot at a time: one that a
// watcher has taken since, of its position.
func (s *Session) holds(ts, now tso.Timestamp) bool {
	m, _ := s.Client.Engine().Meta.Snapshot()
	return slices.ContainsFunc(m.Holds, func(h model.Hold) bool { return h.Timestamp <= ts && h.Expires > now })
}

// keptMost is how many snapshots of the past are read again and again at a time, beside those under
// holds.
const keptMost = 4

// somePast is a kept snapshot, that of a hold among them, or one to keep, or any, if there is one
// yet.
func (s *Session) somePast() (ts tso.Timestamp, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.past) == 0 {
		return 0, false
	}
	ts = s.past[len(s.past)-1-s.Rand.IntN(min(len(s.past), 100))]
	ts -= tso.Timestamp(s.Rand.IntN(2)) // the commit itself is seen, one tick below it is not
	all := len(s.again) + len(s.held)
	switch n := s.Rand.IntN(16); {
	case n == 0:
		s.snapshots.Keep(ts)
		if s.again = append(s.again, ts); len(s.again) > keptMost {
			s.snapshots.Release(s.again[0])
			s.again = slices.Delete(s.again, 0, 1)
		}
	case n < 10 && all > 0:
		if i := s.Rand.IntN(all); i < len(s.again) {
			return s.again[i], true
		}
		return s.held[s.Rand.IntN(len(s.held))], true
	}
	return ts, true
}

// keep has others read a snapshot under a hold too, until it is released.
func (s *Session) keep(ts tso.Timestamp) (release func()) {
	s.snapshots.Keep(ts)
	s.mu.Lock()
	s.held = append(s.held, ts)
	s.mu.Unlock()
	return func() {
		s.mu.Lock()
		i := slices.Index(s.held, ts)
		s.held = slices.Delete(s.held, i, i+1)
		s.mu.Unlock()
		s.snapshots.Release(ts)
	}
}

// keepValues hands what was read to the judge of kept snapshots, a cell at a time: that is how
// others may ask.
func (r Reader) keepValues(cells []percolator.Cell, values [][]byte) {
	if r.kept == nil {
		return
	}
	for i, c := range cells {
		result := []byte("absent")
		if values[i] != nil {
			result = append([]byte("="), values[i]...)
		}
		r.kept.Add(r.rec.Client, r.StartTimestamp(), c.String(), result)
	}
}

// keepScan is keepValues of a scan.
func (r Reader) keepScan(table, from, to string, columns []string, es []history.Entry) {
	if r.kept == nil {
		return
	}
	var b []byte
	for _, e := range es {
		b = fmt.Appendf(b, "%s=%q@%d ", e.Cell, e.Value, e.Commit)
	}
	r.kept.Add(r.rec.Client, r.StartTimestamp(), fmt.Sprintf("%s [%q, %q) %q", table, from, to, columns), b)
}

// dwell keeps a snapshot for a while, or for long, and reads it again and again. In the end it may
// be too old, but never wrong.
func (s *Session) dwell(ctx context.Context) {
	longest := time.Second
	if s.Rand.IntN(2) == 0 {
		longest = 20 * time.Second
	}
	s.View(ctx, "dwell", func(ctx context.Context, r Reader) error {
		r.kept = s.snapshots
		s.snapshots.Keep(r.StartTimestamp())
		defer s.snapshots.Release(r.StartTimestamp())
		for range 4 + s.Rand.IntN(10) {
			if err := r.checkBank(ctx); err != nil {
				return orTooOld(err)
			}
			if err := r.checkRing(ctx); err != nil {
				return orTooOld(err)
			}
			if _, err := r.cells(ctx, s.someCells()...); err != nil {
				return orTooOld(err)
			}
			if _, err := r.scan(ctx, registers, "", ""); err != nil {
				return orTooOld(err)
			}
			wait(ctx, time.Duration(s.Rand.Int64N(int64(longest))))
		}
		return nil
	})
}

// orTooOld takes it for an answer that a snapshot can no longer be read.
func orTooOld(err error) error {
	if errors.Is(err, percolator.ErrSnapshotTooOld) {
		return nil
	}
	return err
}

// tooOld: a client that knows the safepoint refuses a snapshot. It refuses one as well when the
// store fails to tell it the safepoint.
func tooOld(ctx context.Context, err error) bool {
	var failed interface{ GRPCStatus() *status.Status }
	return errors.Is(err, percolator.ErrSnapshotTooOld) && !errors.As(err, &failed) && ctx.Err() == nil
}

// viewHeld reads a snapshot under a hold, which has to be readable as long as the hold is there,
// now and then beyond the retention of a simulation.
func (s *Session) viewHeld(ctx context.Context) {
	longest := time.Second
	if s.Rand.IntN(2) == 0 {
		longest = 30 * time.Second
	}
	h, err := admin.New(s.Client).TakeHold(ctx, 0, 3*time.Minute, "soak")
	if err != nil {
		return
	}
	release := s.keep(h.Timestamp)
	s.View(ctx, "view held", func(ctx context.Context, r Reader) (err error) {
		defer func() { s.checkRefusal(ctx, r, h, err) }()
		for range 5 {
			wait(ctx, time.Duration(s.Rand.Int64N(int64(longest))))
			if err := r.checkBank(ctx); err != nil {
				return err
			}
			if err := r.checkPeople(ctx); err != nil {
				return err
			}
		}
		return nil
	}, percolator.AsOfTimestamp(h.Timestamp))
	release()
	_ = admin.New(s.Client).ReleaseHold(ctx, h) // else it expires
}

// checkRefusal looks at whether a snapshot was refused although its hold was there all the time. It
// is no fault if the client could not learn the safepoint.
func (s *Session) checkRefusal(ctx context.Context, r Reader, h model.Hold, err error) {
	if !tooOld(ctx, err) {
		return
	}
	now, oops := s.Client.Snapshot(ctx)
	if oops == nil && now.StartTimestamp() < h.Expires {
		r.rec.Broken("a snapshot under a hold until %d was refused at %d: %v", h.Expires, now.StartTimestamp(), err)
	}
}
