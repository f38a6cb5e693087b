package admin

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator/internal/position"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// deletePosition is the stored position of a deletion. It names the deletion, so that who finds it
// works for that one. No two of one name are the same, and each takes the place of one that was
// seen: so a late request changes nothing, be it that the deletion has ended and another one for
// the same cells has started.
type deletePosition struct {
	position.Position[deleteCell]
	row     string
	at      deleteCell
	life    meta.Life
	unsaved int // batches that are done since the position was saved
}

// deleteCell is what is stored.
type deleteCell struct {
	DeleteProgress
	ID     string
	Seq    int64
	RowKey []byte    // DeleteProgress.Row, which JSON would damage
	Done   bool      `json:",omitempty"` // the next deletion of these cells is another one
	Life   meta.Life `json:",omitzero"`  // of the table
}

// errPositionLost is what a run finds that lives through a repair, which forgets positions.
var errPositionLost = errors.New("the position was removed or replaced")

// errDeletedElsewhere ends a run when another one has come to the end of the deletion.
var errDeletedElsewhere = errors.New("another call has finished the deletion")

// newDeletePosition is that of the deletion of these cells. Keys and names may be too long for a
// row of percolator_meta, so their hash names it.
func newDeletePosition(s *store.Store, table string, rows model.Range, columns []string) deletePosition {
	cells := layout.JSON([][]byte{[]byte(table), []byte(rows.Start), []byte(rows.End)})
	for _, c := range columns { // which hold no 0x00
		cells = append(append(cells, 0), c...)
	}
	sum := sha256.Sum256(cells)
	at := positionAt(s, meta.DeletionRowPrefix+table+":"+hex.EncodeToString(sum[:16]))
	return deletePosition{row: at.Row, Position: position.Position[deleteCell]{
		Cell: at, Seq: func(c *deleteCell) *int64 { return &c.Seq }, Try: retry.Transiently, Encode: deleteCell.encode,
		Decode: func(v []byte) (c deleteCell, err error) {
			if c, err = decodeDeleteCell(v); err != nil {
				err = unreadable(at, "the position of the deletion")
			}
			return c, err
		},
	}}
}

func decodeDeleteCell(v []byte) (at deleteCell, err error) {
	if err := json.Unmarshal(v, &at); err != nil {
		return at, err
	}
	if at.ID == "" || at.Before <= 0 || at.Seq < 0 {
		return at, model.ErrCorrupt
	}
	at.Row = string(at.RowKey)
	return at, nil
}

func (c deleteCell) encode() []byte {
	c.RowKey = []byte(c.Row)
	return layout.JSON(c)
}

// claim takes up the deletion of these cells that has started in the table's life, or begins one.
func (p *deletePosition) claim(ctx context.Context, before tso.Timestamp) error {
	own := rand.Text()
	return retry.Transiently(ctx, func(ctx context.Context) error {
		for {
			at, stored, err := p.Read(ctx)
			if err != nil {
				return err
			}
			p.Adopt(at, stored)
			if stored != nil && !at.Done && at.Life == p.life {
				p.at = at
				p.at.Resumed = at.ID != own // otherwise the answer to an earlier attempt was lost
				return nil
			}
			p.at = deleteCell{DeleteProgress: DeleteProgress{Before: before}, ID: own, Life: p.life}
			p.Number(&p.at)
			if _, err := p.Cell.Replace(ctx, stored, p.Encode(p.at)); err != nil {
				return err
			} // stored, or overtaken: see which
		}
	})
}

// save stores the position, unless a run beside this one has come further.
func (p *deletePosition) save(ctx context.Context) error {
	p.unsaved = 0
	return p.Save(ctx, p.at, func(now deleteCell, _ bool) (saved bool, err error) {
		switch {
		case now.ID != p.at.ID:
			return false, fmt.Errorf("percolator: %w: the position of the deletion in row %q of %s is not its own any more; call it again", errPositionLost, p.row, model.MetaTable)
		case now.Done && !p.at.Done:
			return false, errDeletedElsewhere
		}
		return now.Done || !p.at.Done && now.Row > p.at.Row, nil
	})
}

// finish stores that the deletion has come to its end.
func (p *deletePosition) finish(ctx context.Context) error {
	p.at.Done, p.at.Row = true, ""
	return p.save(ctx)
}
