package watch

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/gopercolator/percolator/internal/engine"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/engine/timestamps"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/internal/position"
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

func (r record) encode() []byte { return store.Comparable(layout.JSON(r)) }

// stored keeps the position of a watcher with a name, and the hold beneath it. The hold goes first:
// one for the new position is there before the record names it, and the former one goes afterwards.
// What a crash leaves in between expires.
type stored struct {
	e     *engine.Engine
	cfg   Config
	owner string

	cell    position.Position[record]
	at      record   // as stored
	pending Position // dealt with, and not stored
	saved   time.Time

	// The hold's term began at taken, for the oracle, and not before asked, for this machine.
	taken tso.Timestamp
	asked timestamps.Moment
}

func newStored(e *engine.Engine, cfg Config) *stored {
	s := &stored{e: e, cfg: cfg, owner: rand.Text()}
	s.cell = position.Position[record]{
		Cell: store.MetaCell{Store: e.Store, Row: meta.WatchRowPrefix + cfg.Name, Column: stateColumn},
		Seq:  func(r *record) *int64 { return &r.Seq }, Try: retry.Transiently, Encode: record.encode, Decode: s.decode,
	}
	return s
}

func (s *stored) decode(b []byte) (r record, err error) {
	if json.Unmarshal(b, &r) != nil || r.Owner == "" {
		return r, fmt.Errorf("watch: %w: the position of %q cannot be read; restart it", percolator.ErrCorrupt, s.cfg.Name)
	}
	return r, nil
}

// claim takes the name over and returns where to begin.
func (s *stored) claim(ctx context.Context, now tso.Timestamp) (Position, error) {
	for tries := 0; ; tries++ {
		found, b, err := s.cell.Read(ctx)
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
		s.at = found
		s.cell.Adopt(found, b)
		// On ErrTakenOver the former owner may have just saved another position.
		if err := s.hold(ctx, begin); !errors.Is(err, ErrTakenOver) || tries == meta.MaxTries {
			return begin, err
		}
	}
}

// hold protects a position and stores it.
func (s *stored) hold(ctx context.Context, at Position) error {
	asked, former := s.e.Clock.Moment(), model.Hold{ID: s.at.Hold, Timestamp: s.at.Held}
	next := record{Position: at, Hold: former.ID, Held: former.Timestamp}
	if former.ID != "" && former.Timestamp == at.ts {
		switch h, err := s.e.Meta.ExtendHold(ctx, former, s.cfg.HoldTTL); {
		case err == nil:
			s.began(h, asked)
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
	s.began(h, asked)
	if former.ID != "" {
		s.release(ctx, former)
	}
	return nil
}

// began notes the term of a hold.
func (s *stored) began(h model.Hold, asked timestamps.Moment) {
	s.taken, s.asked = h.Expires.Add(-s.cfg.HoldTTL), asked
}

// due reports whether a quarter of the hold's term has passed. On a machine that was suspended, the
// monotonic clock does not show that; the wall clock may, and the oracle's does (I16).
func (s *stored) due() bool {
	return max(s.e.Clock.Since(s.asked), s.e.Meta.Age(s.taken)) >= s.cfg.HoldTTL/4
}

// renew renews the hold when it is due. ErrSnapshotTooOld: it has expired, and collection has
// passed what was dealt with.
func (s *stored) renew(ctx context.Context) error {
	at := s.pending
	if at.ts == 0 {
		at = s.at.Position
	}
	if !s.due() {
		return nil
	}
	return s.hold(ctx, at)
}

func (s *stored) release(ctx context.Context, h model.Hold) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	_ = s.e.Meta.ReleaseHold(ctx, h) // it expires otherwise
}

// save stores a record. ErrTakenOver: another watcher has stored one; what this one has stored
// before is its first attempt, or one that it has given up.
func (s *stored) save(ctx context.Context, next record) error {
	next.Owner = s.owner
	err := s.cell.Save(ctx, next, func(now record, _ bool) (bool, error) {
		if now.Owner != s.owner {
			return false, fmt.Errorf("watch: %q: %w", s.cfg.Name, ErrTakenOver)
		}
		return false, nil
	})
	if err == nil {
		s.at, s.pending, s.saved = next, Position{}, time.Now()
	}
	return err
}

// handled notes that the consumer has dealt with everything up to a position.
func (s *stored) handled(ctx context.Context, at Position) error {
	s.pending = at
	if s.due() {
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
