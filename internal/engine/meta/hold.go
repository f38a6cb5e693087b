package meta

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// A hold keeps what a snapshot needs from collection, for readers that take longer than the
// retention: a backup, an export. It is a cell of the meta row, beside the safepoint. Taking a hold
// is one CheckAndMutateRow that requires a safepoint below it; announcing a safepoint is one that
// requires no hold at or below it. So neither can slip past the other. Holds expire, because their
// owner may die.

const holdPrefix = "hold:"

func holdColumn(h model.Hold) string { return holdPrefix + h.ID }

// toMark stands before To, and both before the reason: no UTF-8 text begins with it.
const toMark = 0xff

// encodeHold puts the timestamp first, so that a value range finds the holds at or below a
// safepoint.
func encodeHold(h model.Hold) []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, 25+len(h.Reason)), uint64(h.Timestamp))
	b = binary.BigEndian.AppendUint64(b, uint64(h.Expires))
	if h.To != 0 {
		b = binary.BigEndian.AppendUint64(append(b, toMark), uint64(h.To))
	}
	return append(b, h.Reason...)
}

func decodeHold(column string, b []byte) (model.Hold, error) {
	if len(b) < 16 {
		return model.Hold{}, model.ErrCorrupt
	}
	h := model.Hold{
		ID:        strings.TrimPrefix(column, holdPrefix),
		Timestamp: tso.Timestamp(binary.BigEndian.Uint64(b)),
		Expires:   tso.Timestamp(binary.BigEndian.Uint64(b[8:])),
	}
	reason := b[16:]
	if len(reason) > 8 && reason[0] == toMark {
		h.To, reason = tso.Timestamp(binary.BigEndian.Uint64(reason[1:])), reason[9:]
	}
	h.Reason = string(reason)
	return h, nil
}

// TakeHold keeps what a snapshot at ts reads from collection for ttl (0: 1 h; at most MaxHoldTTL),
// whatever the retention. ts 0 is now. Errors: ErrSnapshotTooOld if ts is at or below the safepoint
// already; ErrInvalidArgument for a ttl or reason beyond the limits and a ts in the oracle's
// future; ErrTooLarge when there are MaxHolds holds.
func (w *Watcher) TakeHold(ctx context.Context, ts tso.Timestamp, ttl time.Duration, reason string) (model.Hold, error) {
	ttl, err := holdTTL(ttl)
	if err == nil && (len(reason) > model.MaxHoldReasonBytes || !utf8.ValidString(reason)) {
		err = fmt.Errorf("percolator: %w: the reason of a hold has at most %d bytes of UTF-8", model.ErrInvalidArgument, model.MaxHoldReasonBytes)
	}
	if err != nil {
		return model.Hold{}, err
	}
	now, err := w.Clock.Next(ctx)
	if err != nil {
		return model.Hold{}, err
	}
	ts = cmp.Or(ts, now)
	if ts < 0 || ts > now {
		return model.Hold{}, fmt.Errorf("percolator: %w: a hold at %d, which is not between 1 and the oracle's present (%d)", model.ErrInvalidArgument, ts, now)
	}
	if err := w.roomForHold(ctx, now); err != nil {
		return model.Hold{}, err
	}
	h := model.Hold{ID: uuid.NewString(), Timestamp: ts, Expires: now.Add(ttl), Reason: reason}
	mut := store.NewMutation(2)
	mut.Put(layout.MetaFamily, holdColumn(h), store.MetaTimestamp, encodeHold(h))
	refuse := store.HoldRefused(metaSafe, holdColumn(h), ts)
	refused, err := w.Store.Retry(ctx, func(ctx context.Context) (bool, error) {
		return w.Store.CheckAndMutate(ctx, model.MetaTable, RowKey, refuse, nil, mut)
	})
	if err != nil {
		return model.Hold{}, err
	}
	m, err := w.Refresh(ctx) // so that this client's own reads know of it; other clients learn soon
	if err != nil {
		return model.Hold{}, err
	}
	if _, taken := m.hold(h.ID); refused && !taken {
		return model.Hold{}, fmt.Errorf("percolator: %w: the safepoint has passed %d; take the hold within the retention", model.ErrSnapshotTooOld, ts)
	}
	return h, nil
}

// roomForHold refuses one hold more than MaxHolds. Those that have expired go first: there may be
// no collector to remove them.
func (w *Watcher) roomForHold(ctx context.Context, now tso.Timestamp) error {
	m, err := w.Refresh(ctx)
	if err != nil || len(m.Holds) < model.MaxHolds {
		return err
	}
	live, err := w.RemoveExpired(ctx, m, now)
	if err == nil && len(live) >= model.MaxHolds {
		err = fmt.Errorf("percolator: %w: there are %d holds already; release some (percolator gc hold ls lists them), and wait for a minute", model.ErrTooLarge, len(live))
	}
	return err
}

// hold finds a hold that has not been released.
func (m State) hold(id string) (model.Hold, bool) {
	for _, h := range m.Holds {
		if h.ID == id {
			return h, h.Timestamp != released
		}
	}
	return model.Hold{}, false
}

func holdTTL(ttl time.Duration) (time.Duration, error) {
	ttl = cmp.Or(ttl, time.Hour)
	if ttl < 0 || ttl > model.MaxHoldTTL {
		return 0, fmt.Errorf("percolator: %w: a hold lasts at most %v", model.ErrInvalidArgument, model.MaxHoldTTL)
	}
	return ttl, nil
}

// ExtendHold makes the hold with h's ID expire ttl from now (0: 1 h). Errors: ErrSnapshotTooOld if
// the hold was released, or has expired and was removed; ErrConflict if other callers keep changing
// it.
func (w *Watcher) ExtendHold(ctx context.Context, h model.Hold, ttl time.Duration) (model.Hold, error) {
	return w.HoldForCopies(ctx, h, ttl, 0)
}

// HoldForCopies is ExtendHold that sets To besides, unless to is 0.
func (w *Watcher) HoldForCopies(ctx context.Context, h model.Hold, ttl time.Duration, to tso.Timestamp) (model.Hold, error) {
	ttl, err := holdTTL(ttl)
	if err != nil {
		return h, err
	}
	if h.ID == "" {
		return h, errNoHoldID()
	}
	now, err := w.Clock.Next(ctx)
	if err != nil {
		return h, err
	}
	for range MaxTries {
		m, err := w.Refresh(ctx)
		if err != nil {
			return h, err
		}
		stored, ok := m.hold(h.ID)
		switch {
		case !ok:
			return h, fmt.Errorf("percolator: %w: the hold at %d is gone", model.ErrSnapshotTooOld, h.Timestamp)
		case stored.Expires == now.Add(ttl) && (to == 0 || stored.To == to):
			// This call stored it; the answer got lost.
			return stored, nil
		}
		longer := stored
		longer.Expires, longer.To = now.Add(ttl), max(stored.To, to)
		if same, err := w.Store.Retry(ctx, func(ctx context.Context) (bool, error) {
			return w.Store.CompareAndSet(ctx, RowKey, holdColumn(stored), encodeHold(stored), encodeHold(longer))
		}); err != nil {
			return h, err
		} else if same {
			_, err = w.Refresh(ctx)
			return longer, err
		}
	}
	return h, fmt.Errorf("percolator: %w: the hold at %d was changed by others %d times", model.ErrConflict, h.Timestamp, MaxTries)
}

func errNoHoldID() error {
	return fmt.Errorf("percolator: %w: a hold without an ID", model.ErrInvalidArgument)
}

// released is the timestamp of a hold that keeps nothing any more. The cell stays for twice a
// request lifetime, so that a late copy of the request that took the hold finds it.
const released = tso.Timestamp(math.MaxInt64)

// ReleaseHold ends a hold before it expires. A second call does nothing.
func (w *Watcher) ReleaseHold(ctx context.Context, h model.Hold) error {
	if h.ID == "" {
		return errNoHoldID()
	}
	now, err := w.Clock.Next(ctx)
	if err != nil {
		return err
	}
	over := model.Hold{ID: h.ID, Timestamp: released, Expires: now.Add(2 * w.Store.Timing.RequestLifetime)}
	mut := store.NewMutation(2)
	mut.Put(layout.MetaFamily, holdColumn(h), store.MetaTimestamp, encodeHold(over))
	_, err = w.Store.Retry(ctx, func(ctx context.Context) (bool, error) {
		return w.Store.CheckAndMutate(ctx, model.MetaTable, RowKey, store.CellExists(holdColumn(h)), mut, nil)
	})
	return err
}

// Holds lists the holds of the instance, oldest snapshot first. The list may include expired holds
// that no collector has removed yet.
func (w *Watcher) Holds(ctx context.Context) ([]model.Hold, error) {
	m, err := w.Refresh(ctx)
	return slices.DeleteFunc(slices.Clone(m.Holds), func(h model.Hold) bool { return h.Timestamp == released }), err
}

// RemoveExpired erases holds that have expired, unless a caller has extended them since m was read.
// It returns the others.
func (w *Watcher) RemoveExpired(ctx context.Context, m State, now tso.Timestamp) (live []model.Hold, err error) {
	for _, h := range m.Holds {
		if h.Expires > now {
			live = append(live, h)
			continue
		}
		if _, err := w.Store.Retry(ctx, func(ctx context.Context) (bool, error) {
			return w.Store.CompareAndSet(ctx, RowKey, holdColumn(h), encodeHold(h), nil)
		}); err != nil {
			return nil, err
		}
	}
	return live, nil
}
