package admin

import (
	"github.com/gopercolator/percolator/internal/engine/retry"

	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// deletePosition is the stored position of a deletion. It names the deletion, so that who finds it
// works for that one. No two of one name are the same, and each takes the place of one that was
// seen: so a late request changes nothing, be it that the deletion is over and another one for the
// same cells has begun.
type deletePosition struct {
	position
	at      deleteCell
	life    meta.Life
	stored  []byte // as far as is known; nil: nothing
	unsaved int    // batches that are done since the position was saved
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
	cells, err := json.Marshal([][]byte{[]byte(table), []byte(rows.Start), []byte(rows.End)})
	if err != nil {
		panic(err) // bytes always marshal
	}
	for _, c := range columns { // which hold no 0x00
		cells = append(append(cells, 0), c...)
	}
	sum := sha256.Sum256(cells)
	return deletePosition{position: position{s, meta.DeletionRowPrefix + table + ":" + hex.EncodeToString(sum[:16])}}
}

// read returns what is stored; nil: nothing.
func (p *deletePosition) read(ctx context.Context) (v []byte, at deleteCell, err error) {
	v, err = p.load(ctx)
	if err != nil || v == nil {
		return v, at, err
	}
	if at, err = decodeDeleteCell(v); err != nil {
		err = p.unreadable("the position of the deletion")
	}
	return v, at, err
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

// next is at as it is to be stored.
func (p *deletePosition) next() []byte {
	p.at.Seq++
	p.at.RowKey = []byte(p.at.Row)
	b, err := json.Marshal(p.at)
	if err != nil {
		panic(err) // integers, strings and bytes always marshal
	}
	return b
}

// claim takes up the deletion of these cells that has begun in the table's life, or begins one.
func (p *deletePosition) claim(ctx context.Context, before tso.Timestamp) error {
	own := rand.Text()
	for again := retry.NewTransient(); ; {
		v, at, err := p.read(ctx)
		if err == nil && v != nil && !at.Done && at.Life == p.life {
			p.stored, p.at = v, at
			p.at.Resumed = at.ID != own // otherwise the answer to an earlier attempt was lost
			return nil
		}
		if err == nil {
			p.at = deleteCell{DeleteProgress: DeleteProgress{Before: before}, ID: own, Seq: at.Seq, Life: p.life}
			if _, err = p.store.CompareAndSet(ctx, p.row, positionColumn, v, p.next()); err == nil {
				continue // stored, or overtaken: see which
			}
		}
		if err := again.After(ctx, err); err != nil {
			return err
		}
	}
}

// save stores the position, unless a run beside this one has come further.
func (p *deletePosition) save(ctx context.Context) error {
	p.unsaved = 0
	for again := retry.NewTransient(); ; {
		next := p.next()
		replaced, err := p.store.CompareAndSet(ctx, p.row, positionColumn, p.stored, next)
		if err == nil && replaced {
			p.stored = next
			return nil
		}
		saved := false
		if err == nil {
			saved, err = p.compare(ctx, next)
		}
		if saved {
			return nil
		}
		if err == nil {
			continue
		}
		if err := again.After(ctx, err); err != nil {
			return err
		}
	}
}

// compare looks at what is stored in place of what this run has stored last. It reports whether
// there is nothing left to save: it is next, of an attempt without an answer, or further on.
func (p *deletePosition) compare(ctx context.Context, next []byte) (saved bool, err error) {
	v, now, err := p.read(ctx)
	switch {
	case err != nil:
		return false, err
	case now.ID != p.at.ID:
		return false, fmt.Errorf("percolator: %w: the position of the deletion in row %q of %s is not its own any more; call it again", errPositionLost, p.row, model.MetaTable)
	case now.Done && !p.at.Done:
		return false, errDeletedElsewhere
	}
	p.stored, p.at.Seq = v, max(p.at.Seq, now.Seq)
	return bytes.Equal(v, next) || now.Done || !p.at.Done && now.Row > p.at.Row, nil
}

// finish stores that the deletion has come to its end.
func (p *deletePosition) finish(ctx context.Context) error {
	p.at.Done, p.at.Row = true, ""
	return p.save(ctx)
}
