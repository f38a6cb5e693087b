package gc

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// Erasing is most of a cycle by the journal, and is divided among all collectors of an instance by
// stream (J10). The collector that holds the lease stores, in the mutation that begins the phase, a
// share for each shard of the journal, in the row of its lease:
//
//	watermark, asked    GC watermark, and a timestamp from after the drain: what J6 and J7 go by
//	streams             exactly those rows of the journal whose locks were resolved before
//	holder, expires     the collector that erases it, and the end of its lease by the oracle's clock
//	counts              what it did
//
// A collector without a cycle of its own takes a free share by a condition on the whole
// cell, erases, and takes from it what is decided. The cycle ends when nothing is left of a share.
//
//	no row is taken that was found later    its locks may not have been resolved before the watermark
//	                                        was published, nor its requests have ended
//	a row leaves a share once decided       so a successor does over what is open, and passes nothing
//	a share has one watermark for good      a collector that was stopped, and goes on beside its
//	                                        successor, judges rows and entries by the same bounds
//
// Rejected: dividing by rows of tables. The clauses of J7 need all rows of an entry, read by one
// collector: another one may have erased the record that tells when a weak notification committed.
// Rejected: a cell for each stream. There are 64 shards and may be many thousand streams; as the
// shares are few, they are stored, read and counted together.

const (
	sharePrefix = "share-"
	// shareBytes bounds a share; rows beyond it are left to the next cycle.
	shareBytes    = 64 << 10
	spanBytes     = 2 * 21      // of a range of rows, at most
	shareCount    = 64          // shards of the journal
	streamIDBytes = 17          // shard and id
	shareWait     = time.Second // between two looks at shares that others hold
)

// share is some streams of a cycle, for one collector at a time.
type share struct {
	Watermark, Asked tso.Timestamp
	Streams          []streamRows  `json:",omitempty"` // what is left to erase
	Holder           string        `json:",omitempty"` // "": none
	Expires          tso.Timestamp `json:",omitempty"`
	Did              tally
}

// streamRows are rows of one stream.
type streamRows struct {
	ID   []byte
	Rows seqs
}

func (sh *share) encode() []byte {
	kept := *sh
	kept.Streams = slices.DeleteFunc(slices.Clone(sh.Streams), func(st streamRows) bool { return len(st.Rows) == 0 })
	return layout.JSON(kept)
}

func decodeShare(column string, b []byte) (sh share, err error) {
	err = json.Unmarshal(b, &sh)
	for _, st := range sh.Streams {
		if len(st.ID) != streamIDBytes || !st.Rows.valid() || len(st.Rows) == 0 {
			err = fmt.Errorf("rows of stream %x", st.ID)
		}
	}
	if err != nil {
		return sh, fmt.Errorf("percolator: %w: column %q of row %q in %s cannot be read; erase the row to start afresh", model.ErrCorrupt, column, collectorRow, model.MetaTable)
	}
	return sh, nil
}

func shareColumn(shard byte) string { return fmt.Sprintf("%s%02x", sharePrefix, shard) }

// divide makes the shares of a cycle. Those of a shard that are too many wait for the next one; so
// that the same ones do not wait for ever, they come in random order.
func divide(resolved []streamRows, watermark, asked tso.Timestamp) map[string][]byte {
	shares, bytes := map[string]*share{}, map[string]int{}
	for _, i := range rand.Perm(len(resolved)) {
		st := resolved[i]
		column := shareColumn(st.ID[0])
		if shares[column] == nil {
			shares[column] = &share{Watermark: watermark, Asked: asked}
		}
		room := (shareBytes - bytes[column] - 2*len(st.ID)) / spanBytes
		if st.Rows = st.Rows[:max(0, min(len(st.Rows), 2*room))]; len(st.Rows) > 0 {
			shares[column].Streams = append(shares[column].Streams, st)
			bytes[column] += 2*len(st.ID) + len(st.Rows)/2*spanBytes
		}
	}
	cells := map[string][]byte{}
	for column, sh := range shares {
		cells[column] = store.Comparable(sh.encode())
	}
	return cells
}

// putShares replaces all shares; nil leaves them as they are.
func putShares(mut *store.Mutation, shares map[string][]byte) {
	if shares == nil {
		return
	}
	for shard := range byte(shareCount) {
		column := shareColumn(shard)
		if b, ok := shares[column]; ok {
			mut.Put(layout.MetaFamily, column, store.MetaTimestamp, b)
		} else {
			mut.EraseColumn(layout.MetaFamily, column)
		}
	}
}

// heldShare is a share as it was read, or as its holder last wrote it.
type heldShare struct {
	share
	cell LeaseCell[share]
}

func (g *Collector) readShares(ctx context.Context) (list []*heldShare, err error) {
	row, err := g.e.Store.ReadRow(ctx, model.MetaTable, collectorRow, store.Cells(sharePrefix, 0))
	if err != nil {
		return nil, err
	}
	for _, it := range row.Of(layout.MetaFamily) {
		decode := func(b []byte) (share, error) { return decodeShare(it.Column, b) }
		sh, err := decode(it.Value)
		if err != nil {
			return nil, err
		}
		list = append(list, &heldShare{sh, leaseCell(g, it.Column, it.Value, decode)})
	}
	return list, nil
}

func (sh *heldShare) done() bool { return len(sh.Streams) == 0 }

// eraseShares erases until nothing is left of any share. It waits for those that others hold, and
// takes over what they give up.
func (s *collecting) eraseShares(ctx context.Context) error {
	heard := func(ctx context.Context, all []*heldShare) error {
		var did tally
		for _, sh := range all {
			did.add(sh.Did)
		}
		setTally(&s.state.Collection, did)
		return s.keep(ctx)
	}
	for {
		_, left, err := s.takeShares(ctx, heard)
		if err != nil || !left {
			return err
		}
		if err := s.rest(ctx, shareWait); err != nil {
			return err
		}
	}
}

// help erases shares of another collector's cycle c, or returns leased if there is nothing to
// erase.
func (g *Collector) help(ctx context.Context, c model.Collection, leased error) (col model.Collection, err error) {
	if _, err := g.e.Meta.Refresh(ctx); err != nil { // for tables that were added
		return col, err
	}
	did, _, err := g.takeShares(ctx, func(context.Context, []*heldShare) error { return nil })
	if did == (tally{}) {
		return col, cmp.Or(err, leased)
	}
	col = model.Collection{Phase: model.CollectionErase, Safepoint: c.Safepoint, Started: c.Started, Updated: c.Updated, Holder: c.Holder, Expires: c.Expires}
	setTally(&col, did)
	return col, err
}

// takeShares erases free shares, one after the other, until there is none. left:
// others hold some. heard is called with all shares whenever a lease has to be kept.
func (g *Collector) takeShares(ctx context.Context, heard func(context.Context, []*heldShare) error) (did tally, left bool, err error) {
	name := uuid.NewString()
	for {
		all, err := g.readShares(ctx)
		if err == nil {
			err = heard(ctx, all)
		}
		if err != nil {
			return did, false, err
		}
		now, err := g.e.Clock.Next(ctx)
		if err != nil {
			return did, false, err
		}
		open := slices.DeleteFunc(slices.Clone(all), (*heldShare).done)
		free := slices.DeleteFunc(slices.Clone(open), func(sh *heldShare) bool { return sh.Holder != "" && sh.Expires > now })
		if len(free) == 0 {
			return did, len(open) > 0, nil
		}
		sh := free[rand.N(len(free))] // others choose as well
		before := sh.Did
		err = g.eraseShare(ctx, sh, name, func(ctx context.Context) error { return heard(ctx, all) })
		did.add(sh.Did.less(before))
		if err != nil && !errors.Is(err, errShareLost) {
			return did, false, err
		}
	}
}

// errShareLost says that another collector was faster, or has taken over.
var errShareLost = errors.New("percolator: collection: another collector has the share")

// checkShare makes sure that this client knows every table of a share's cycle, and that its
// watermark was published: nothing newer is ever removed, whatever the row of the lease holds.
func (g *Collector) checkShare(ctx context.Context, sh *heldShare) error {
	m, _ := g.e.Meta.Snapshot()
	if sh.Watermark <= m.Watermark {
		return nil
	}
	m, err := g.e.Meta.Refresh(ctx)
	if err == nil && sh.Watermark > m.Watermark {
		err = fmt.Errorf("percolator: %w: column %q of row %q in %s tells of the watermark %d, which was not published; erase the row to start afresh", model.ErrCorrupt, sh.cell.at.Column, collectorRow, model.MetaTable, sh.Watermark)
	}
	return err
}

// saveShare writes what is left of a share and extends its lease; without a holder it gives it up.
func (g *Collector) saveShare(ctx context.Context, sh *heldShare, holder string) error {
	_, expires, err := sh.cell.Extend(ctx, g.e.Clock.Next)
	if err != nil {
		return err
	}
	if sh.Holder, sh.Expires = holder, expires; holder == "" {
		sh.Expires = 0
	}
	stored, _, err := sh.cell.Store(ctx, sh.encode(), nil)
	if err == nil && !stored {
		err = errShareLost
	}
	return err
}
