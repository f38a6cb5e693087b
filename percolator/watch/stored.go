package watch

import (
	"github.com/gopercolator/percolator/internal/engine/retry"

	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/gopercolator/percolator/internal/engine"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

const (
	saveEvery    = time.Second
	closeTimeout = 5 * time.Second
	stateColumn  = "state"
)

// record is the position of a watcher with a name as the instance stores it. Seq makes each differ
// from all before it, so that a delayed request cannot pass for a later one; Owner tells two
// watchers apart.
type record struct {
	Seq      int64         `json:"seq"`
	Owner    string        `json:"owner"`
	Position Position      `json:"position"`
	Hold     string        `json:"hold"` // its id
	Held     tso.Timestamp `json:"held"` // its timestamp, at or below Position
}

func (r record) encode() ([]byte, error) {
	b, err := json.Marshal(r)
	return store.Comparable(b), err
}

// stored keeps the position of a watcher with a name, and the hold beneath it. The hold goes first:
// one for the new position is there before the record names it, and the former one goes afterwards.
// What a crash leaves in between expires.
type stored struct {
	e     *engine.Engine
	cfg   Config
	owner string

	at      record // as stored
	bytes   []byte
	pending Position // dealt with, and not stored
	saved   time.Time
	held    time.Time // when the hold was taken or extended last
}

// claim takes the name over and returns where to begin.
func (s *stored) claim(ctx context.Context, now tso.Timestamp) (Position, error) {
	for tries := 0; ; tries++ {
		found, b, err := s.load(ctx)
		if err != nil {
			return Position{}, err
		}
		begin := found.Position
		if b == nil || s.cfg.Restart {
			if begin = s.cfg.From; begin.ts == 0 {
				begin = At(now)
			}
		} else if s.cfg.From.ts != 0 {
			return Position{}, fmt.Errorf("watch: %w: %q has a position; begin there, or restart it", percolator.ErrInvalidArgument, s.cfg.Name)
		}
		s.at, s.bytes = found, b
		// On ErrTakenOver the former owner may have just saved another position.
		if err := s.hold(ctx, begin); !errors.Is(err, ErrTakenOver) || tries == meta.MaxTries {
			return begin, err
		}
	}
}

func (s *stored) row() string { return meta.WatchRowPrefix + s.cfg.Name }

// load returns what is stored; nil: nothing.
func (s *stored) load(ctx context.Context) (r record, b []byte, err error) {
	row, err := s.e.Store.ReadRow(ctx, model.MetaTable, s.row(), store.Cells("", 0))
	if err != nil || row.Missing() {
		return r, nil, err
	}
	b = row.Of(layout.MetaFamily)[0].Value
	if json.Unmarshal(b, &r) != nil || r.Owner == "" {
		return r, nil, fmt.Errorf("watch: %w: the position of %q cannot be read; restart it", percolator.ErrCorrupt, s.cfg.Name)
	}
	return r, b, nil
}

// hold protects a position and stores it.
func (s *stored) hold(ctx context.Context, at Position) error {
	former := model.Hold{ID: s.at.Hold, Timestamp: s.at.Held}
	next := record{Position: at, Hold: former.ID, Held: former.Timestamp}
	if former.ID != "" && former.Timestamp == at.ts {
		switch _, err := s.e.Meta.ExtendHold(ctx, former, s.cfg.HoldTTL); {
		case err == nil:
			s.held = time.Now()
			return s.save(ctx, next)
		case !errors.Is(err, percolator.ErrSnapshotTooOld): // else it has expired
			return err
		}
	}
	h, err := s.e.Meta.TakeHold(ctx, at.ts, s.cfg.HoldTTL, "percolator watch "+s.cfg.Name)
	if err != nil {
		return err
	}
	next.Hold, next.Held = h.ID, h.Timestamp
	if err := s.save(ctx, next); err != nil {
		s.release(ctx, h)
		return err
	}
	s.held = time.Now()
	if former.ID != "" {
		s.release(ctx, former)
	}
	return nil
}

func (s *stored) release(ctx context.Context, h model.Hold) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	_ = s.e.Meta.ReleaseHold(ctx, h) // it expires otherwise
}

// save stores a record. ErrTakenOver: another watcher has stored one.
func (s *stored) save(ctx context.Context, next record) error {
	next.Seq, next.Owner = s.at.Seq+1, s.owner
	b, err := next.encode()
	if err != nil {
		return err
	}
	for again := retry.NewTransient(); ; {
		swapped, err := s.e.Store.CompareAndSet(ctx, s.row(), stateColumn, s.bytes, b)
		// The stored position is another watcher's, this one's first attempt, or one it has given
		// up.
		if err == nil && !swapped {
			var now record
			var found []byte
			now, found, err = s.load(ctx)
			switch {
			case err != nil || string(found) == string(b):
			case now.Owner != s.owner:
				return fmt.Errorf("watch: %q: %w", s.cfg.Name, ErrTakenOver)
			default:
				next.Seq, s.bytes = now.Seq+1, found
				if b, err = next.encode(); err == nil {
					continue
				}
			}
		}
		if err == nil {
			s.at, s.bytes, s.pending, s.saved = next, b, Position{}, time.Now()
			return nil
		}
		if err = again.After(ctx, err); err != nil {
			return err
		}
	}
}

// handled notes that the consumer has dealt with everything up to a position.
func (s *stored) handled(ctx context.Context, at Position) error {
	s.pending = at
	if time.Since(s.held) >= s.cfg.HoldTTL/4 {
		return s.hold(ctx, at)
	}
	if time.Since(s.saved) < saveEvery {
		return nil
	}
	return s.save(ctx, record{Position: at, Hold: s.at.Hold, Held: s.at.Held})
}

// close stores the last position.
func (s *stored) close(ctx context.Context) error {
	if s.pending.ts == 0 || s.pending.ts == s.at.Position.ts && s.pending.within == s.at.Position.within {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	return s.save(ctx, record{Position: s.pending, Hold: s.at.Hold, Held: s.at.Held})
}
