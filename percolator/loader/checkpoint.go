package loader

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/internal/position"
	"github.com/gopercolator/percolator/percolator/model"
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
	name  string
	owner string
	cell  position.Position[record]
}

// savedCell is the cell of a load, as its client sees it.
type savedCell struct {
	admin *admin.Admin
	name  string
}

func (c savedCell) Read(ctx context.Context) ([]byte, error) {
	return c.admin.LoadPosition(ctx, c.name)
}

func (c savedCell) Replace(ctx context.Context, former, next []byte) (bool, error) {
	err := c.admin.SaveLoadPosition(ctx, c.name, former, next)
	if errors.Is(err, percolator.ErrConflict) {
		return false, nil
	}
	return err == nil, err
}

// openCheckpoint takes the load over, and returns where an earlier loader stopped; after one that
// anew lets begin anew, that is the beginning.
func openCheckpoint(ctx context.Context, a *admin.Admin, name string, anew func(record) bool, o *outage) (c *checkpoint, at record, err error) {
	c = &checkpoint{name: name, owner: rand.Text(), cell: position.Position[record]{
		Cell: savedCell{a, name}, Seq: func(r *record) *int64 { return &r.Seq }, Decode: decodeRecord,
		Encode: func(r record) []byte {
			b, err := json.Marshal(r)
			if err != nil {
				panic(err) // numbers, names and bytes always marshal
			}
			return b
		},
	}}
	if name == "" {
		return c, at, nil
	}
	err = o.try(ctx, func(ctx context.Context) error {
		for claimed := false; !claimed; { // else the former owner has just saved another position
			if at, claimed, err = c.claim(ctx, anew); err != nil {
				return err
			}
		}
		return nil
	})
	return c, at, err
}

// claim stores the position again under this loader's name.
func (c *checkpoint) claim(ctx context.Context, anew func(record) bool) (at record, claimed bool, err error) {
	at, stored, err := c.cell.Read(ctx)
	if err != nil {
		return at, false, err
	}
	c.cell.Adopt(at, stored)
	if anew(at) {
		at = record{}
	}
	at.Owner = c.owner
	c.cell.Number(&at)
	next := c.cell.Encode(at)
	claimed, err = c.cell.Cell.Replace(ctx, stored, next)
	c.cell.Stored = next
	return at, claimed, err
}

// save stores r, and tries again after transient errors. ErrTakenOver: another loader has started
// since. ErrConflict: a repair has removed the position.
func (c *checkpoint) save(ctx context.Context, o *outage, r record) error {
	if c.name == "" {
		return nil
	}
	r.Owner, c.cell.Try = c.owner, o.try
	return c.cell.Save(ctx, r, func(now record, there bool) (bool, error) {
		switch {
		case !there:
			return false, fmt.Errorf("load %q: %w: a repair has removed its position, and maybe some of what was loaded; begin anew", c.name, percolator.ErrConflict)
		case now.Owner != c.owner:
			return false, fmt.Errorf("load %q: %w", c.name, ErrTakenOver)
		}
		return false, nil
	})
}

func decodeRecord(b []byte) (r record, err error) {
	if err := json.Unmarshal(b, &r); err != nil || r.Items < 0 || r.Owner == "" {
		return r, fmt.Errorf("%w: the stored position of the load cannot be read; load under another name", percolator.ErrCorrupt)
	}
	return r, nil
}
