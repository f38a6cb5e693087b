package loader

import (
	"github.com/gopercolator/percolator/percolator/model"

	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
)

// saveTimeout bounds the last save of a stopped load, which only spares repetition.
const saveTimeout = 5 * time.Second

// record is a stored position. Seq makes each differ from all before it, so that a delayed request
// cannot pass for a later one. Owner tells two loaders apart.
type record struct {
	Seq    int64  `json:"seq"`
	Owner  string `json:"owner"`
	Items  int64  `json:"items"`
	Failed int64  `json:"failed,omitempty"`
	Token  []byte `json:"token,omitempty"`
	Done   bool   `json:"done,omitempty"` // the load came to its end; the next one begins anew

	Sums model.ImportSums `json:"sums,omitempty"` // of an import: of the items before the position
}

// checkpoint keeps the position of a load in the store. Its methods are called by one goroutine at
// a time.
type checkpoint struct {
	admin  *admin.Admin
	name   string
	owner  string
	seq    int64
	stored []byte // as far as is known
}

// openCheckpoint takes the load over, and returns where an earlier loader stopped; after one that
// anew lets begin anew, that is the beginning.
func openCheckpoint(ctx context.Context, a *admin.Admin, name string, anew func(record) bool, o *outage) (c *checkpoint, at record, err error) {
	c = &checkpoint{admin: a, name: name, owner: rand.Text()}
	if name == "" {
		return c, at, nil
	}
	err = o.try(ctx, func(ctx context.Context) error {
		for {
			at, err = c.claim(ctx, anew)
			// On a conflict the former owner has just saved another position.
			if !errors.Is(err, percolator.ErrConflict) {
				return err
			}
		}
	})
	c.seq = at.Seq
	return c, at, err
}

// claim stores the position again under this loader's name.
func (c *checkpoint) claim(ctx context.Context, anew func(record) bool) (at record, err error) {
	stored, err := c.admin.LoadPosition(ctx, c.name)
	if err != nil {
		return at, err
	}
	if stored != nil {
		if at, err = decodeRecord(stored); err != nil {
			return at, err
		}
	}
	if anew(at) {
		at = record{Seq: at.Seq}
	}
	at.Seq, at.Owner = at.Seq+1, c.owner
	next, err := json.Marshal(at)
	if err != nil {
		return at, err
	}
	c.stored = next
	return at, c.admin.SaveLoadPosition(ctx, c.name, stored, next)
}

// save stores r, and tries again after transient errors. ErrTakenOver: another loader has begun
// since. ErrConflict: a repair has removed the position.
func (c *checkpoint) save(ctx context.Context, o *outage, r record) error {
	if c.name == "" {
		return nil
	}
	c.seq++
	r.Seq, r.Owner = c.seq, c.owner
	next, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return o.try(ctx, func(ctx context.Context) error {
		for {
			err := c.admin.SaveLoadPosition(ctx, c.name, c.stored, next)
			if err == nil {
				c.stored = next
			}
			if err == nil || !errors.Is(err, percolator.ErrConflict) {
				return err
			}
			// An earlier request of this loader may have been applied without an answer, also this
			// one.
			if done, err := c.look(ctx, next); done || err != nil {
				return err
			}
		}
	})
}

// look reads the stored position. It reports whether that is next, and fails unless it is this
// loader's.
func (c *checkpoint) look(ctx context.Context, next []byte) (done bool, err error) {
	now, err := c.admin.LoadPosition(ctx, c.name)
	switch {
	case err != nil:
		return false, err
	case now == nil:
		return false, fmt.Errorf("load %q: %w: a repair has removed its position, and maybe some of what was loaded; begin anew", c.name, percolator.ErrConflict)
	}
	r, err := decodeRecord(now)
	if err != nil {
		return false, err
	}
	if r.Owner != c.owner {
		return false, fmt.Errorf("load %q: %w", c.name, ErrTakenOver)
	}
	c.stored = now
	return string(now) == string(next), nil
}

func decodeRecord(b []byte) (r record, err error) {
	if err := json.Unmarshal(b, &r); err != nil || r.Items < 0 || r.Owner == "" {
		return r, fmt.Errorf("%w: the stored position of the load cannot be read; load under another name", percolator.ErrCorrupt)
	}
	return r, nil
}
