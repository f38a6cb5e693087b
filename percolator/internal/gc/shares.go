package gc

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/internal/engine/retry"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// Resolving and erasing are divided among all collectors of an instance by stream (J10, J12). The
// collector that holds the lease stores, in the mutation that begins the phase, a share for each
// shard of the journal that has rows, in the row of its lease. To be erased a large one comes in
// parts:
//
//	state               what is to be done with it
//	watermark, asked    GC watermark, and a timestamp from after the drain: what J6 and J7 go by
//	found               the rows of the journal that were read to resolve their locks
//	streams             exactly those, to be erased
//	holder, expires     the collector that works on it, and the end of its lease
//	counts              what it did
//
// A collector without a cycle of its own takes a free share by a condition on the whole cell. While
// locks are resolved it reads the streams of the shard, and writes what it found when all are
// resolved; the watermark is published when all shares are. Then it erases, and takes from the
// share what is decided. The cycle ends when nothing is left of a share.
//
//	a share has one watermark for good      what was resolved for an earlier safepoint says nothing,
//	                                        and a collector that was stopped, and goes on beside its
//	                                        successor, judges rows and entries by the same bounds
//	no row is taken that was found later    its locks may not have been resolved before the watermark
//	                                        was published, nor its requests have ended
//	a row leaves a share once decided       so a successor does over what is open, and passes nothing
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
	sharesAtOnce  = 8           // whose locks a collector resolves, at most
	partRows      = 1024        // rows of the journal of a part of a share, at least
	maxParts      = 4           // of a share that is to be erased
)

// share is some streams of a cycle, for one collector at a time.
type share struct {
	Watermark, Asked tso.Timestamp
	State            shareState    `json:",omitempty"`
	Found            []streamRows  `json:",omitempty"` // what is to be erased once all is resolved
	Streams          []streamRows  `json:",omitempty"` // what is left to erase
	Holder           string        `json:",omitempty"` // "": none
	Expires          tso.Timestamp `json:",omitempty"`
	Locks            int64         `json:",omitempty"` // that were resolved
	Did              tally
}

// shareState is what is to be done with a share.
type shareState string

const (
	// shareErase: the watermark is published. Streams are to be erased, and Found is empty.
	shareErase shareState = ""
	// shareResolve: the locks of the shard are to be resolved. Found and Streams are empty.
	shareResolve shareState = "resolve"
	// shareResolved: every lock up to Watermark that an open entry of the shard leads to is
	// resolved. Streams are empty.
	shareResolved shareState = "resolved"
)

// streamRows are rows of one stream.
type streamRows struct {
	ID   []byte
	Rows seqs
}

func (sh *share) encode() []byte {
	kept := *sh // former versions take no share without Streams
	kept.Streams = slices.DeleteFunc(slices.Clone(sh.Streams), func(st streamRows) bool { return len(st.Rows) == 0 })
	return layout.JSON(kept)
}

func decodeShare(column string, b []byte) (sh share, err error) {
	err = json.Unmarshal(b, &sh)
	for _, st := range slices.Concat(sh.Streams, sh.Found) {
		if len(st.ID) != streamIDBytes || !st.Rows.valid() || len(st.Rows) == 0 {
			err = fmt.Errorf("rows of stream %x", st.ID)
		}
	}
	if err != nil {
		return sh, fmt.Errorf("percolator: %w: column %q of row %q in %s cannot be read; erase the row to start afresh", model.ErrCorrupt, column, collectorRow, model.MetaTable)
	}
	return sh, nil
}

// shareColumn is where the share of a shard is stored, or a part of it, from 0.
func shareColumn(shard byte, part int) string {
	if part == 0 {
		return fmt.Sprintf("%s%02x", sharePrefix, shard)
	}
	return fmt.Sprintf("%s%02x-%d", sharePrefix, shard, part)
}

// toErase is a resolved share as its rows are to be erased: in parts, where there are many, so that
// more collectors than shards have something to do.
func (sh *heldShare) toErase() map[string][]byte {
	rows := 0
	for _, st := range sh.Found {
		rows += st.Rows.size()
	}
	parts := make([]share, max(1, min(rows/partRows, maxParts, len(sh.Found))))
	for i, st := range sh.Found {
		of := &parts[i%len(parts)]
		of.Streams = append(of.Streams, st)
	}
	cells := map[string][]byte{}
	for i, part := range parts {
		part.Watermark, part.Asked = sh.Watermark, sh.Asked
		cells[shareColumn(sh.shard(), i)] = store.Comparable(part.encode())
	}
	return cells
}

// fit is as many of some rows as a share has room for. The others wait for the next cycle; so that
// the same ones do not wait for ever, they come in random order.
func fit(found []streamRows) (some []streamRows) {
	bytes := 0
	for _, i := range rand.Perm(len(found)) {
		st := found[i]
		room := (shareBytes - bytes - 2*len(st.ID)) / spanBytes
		if st.Rows = st.Rows[:max(0, min(len(st.Rows), 2*room))]; len(st.Rows) > 0 {
			some = append(some, st)
			bytes += 2*len(st.ID) + len(st.Rows)/2*spanBytes
		}
	}
	return some
}

// putShares replaces all shares; nil leaves them as they are.
func putShares(mut *store.Mutation, shares map[string][]byte) {
	if shares == nil {
		return
	}
	for at := range shareCount * maxParts {
		column := shareColumn(byte(at%shareCount), at/shareCount)
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

// done reports whether nothing is to be done with it now.
func (sh *heldShare) done() bool { return sh.State != shareResolve && len(sh.Streams) == 0 }

// workShares takes shares until nothing is to be done with any. It waits for those that others
// hold, and takes over what they give up.
func (s *collecting) workShares(ctx context.Context) error {
	heard := func(ctx context.Context, all []*heldShare) error {
		var did tally
		locks := int64(0)
		for _, sh := range all {
			did.add(sh.Did)
			locks += sh.Locks
		}
		if setTally(&s.state.Collection, did); s.state.Phase == model.CollectionResolve {
			s.state.Locks = locks
		}
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

// help works on shares of another collector's cycle c, or returns leased if there is nothing to do.
// It waits for the shares that are to be erased where it has resolved some.
func (g *Collector) help(ctx context.Context, c model.Collection, leased error) (col model.Collection, err error) {
	if _, err := g.e.Meta.Refresh(ctx); err != nil { // for tables that were added
		return col, err
	}
	var all work
	for {
		did, _, err := g.takeShares(ctx, func(context.Context, []*heldShare) error { return nil })
		if all.add(did); all.shares == 0 {
			return col, cmp.Or(err, leased)
		}
		col = model.Collection{Phase: c.Phase, Safepoint: c.Safepoint, Started: c.Started, Updated: c.Updated, Holder: c.Holder, Expires: c.Expires, Locks: all.locks}
		setTally(&col, all.tally)
		if err != nil || c.Phase != model.CollectionResolve {
			return col, err
		}
		if err := retry.Sleep(ctx, shareWait); err != nil {
			return col, err
		}
		next, err := ReadCollection(ctx, g.e)
		if err != nil || next.Holder != c.Holder || next.Safepoint != c.Safepoint {
			return col, err
		}
		now, err := g.e.Clock.Next(ctx)
		if err != nil || next.Expires <= now {
			return col, err
		}
		c = next
	}
}

// work is what was done with shares.
type work struct {
	tally
	locks  int64
	shares int
}

func (w *work) add(o work) {
	w.tally.add(o.tally)
	w.locks += o.locks
	w.shares += o.shares
}

// takeShares works on free shares, one after the other, until there is none. left: others hold
// some. heard is called with all shares whenever a lease has to be kept.
func (g *Collector) takeShares(ctx context.Context, heard func(context.Context, []*heldShare) error) (did work, left bool, err error) {
	name := uuid.NewString()
	var of share // whose cycle rows are of
	rows := findings{}
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
		rand.Shuffle(len(free), func(i, j int) { free[i], free[j] = free[j], free[i] }) // others choose as well
		sh, before := free[0], free[0].Did
		keep := func(ctx context.Context) error { return heard(ctx, all) }
		if sh.State == shareResolve {
			free = slices.DeleteFunc(free, func(sh *heldShare) bool { return sh.State != shareResolve })
			some := free[:max(1, min(len(free)/4, sharesAtOnce))] // and leave something to others
			err = g.resolveSome(ctx, some, name, keep)
			for _, sh := range some {
				did.locks += sh.Locks
				did.shares++
			}
		} else {
			if sh.Watermark != of.Watermark || sh.Asked != of.Asked {
				of, rows = sh.share, findings{}
			}
			err = g.eraseShare(ctx, sh, name, rows, keep)
			did.tally.add(sh.Did.less(before))
			did.shares++
		}
		switch {
		case errors.Is(err, errShareLost):
			rows = findings{} // of some the garbage was perhaps not erased
		case err != nil:
			return did, false, err
		}
	}
}

// errShareLost says that another collector was faster, or has taken over.
var errShareLost = errors.New("percolator: collection: another collector has the share")

// checkShare makes sure that this client knows every table of the cycle of a share that is to be
// erased, and that its watermark was published: nothing newer is ever removed, whatever the row of
// the lease holds.
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

// holdShares takes shares, as far as no other collector is faster, has work done with them, and
// gives them up. keep keeps the lease of the cycle, and what work gets those of the shares as
// well. errShareLost: other collectors have them.
func (g *Collector) holdShares(ctx context.Context, list []*heldShare, name string, keep func(context.Context) error, work func(held []*heldShare, keep func(context.Context) error) error) error {
	held, err := g.saveShares(ctx, list, name)
	if err != nil {
		return err
	}
	err = work(held, func(ctx context.Context) error {
		if err := keep(ctx); err != nil {
			return err
		}
		due := slices.DeleteFunc(slices.Clone(held), func(sh *heldShare) bool { return !sh.cell.Due() })
		if len(due) == 0 {
			return nil
		}
		kept, err := g.saveShares(ctx, due, name)
		if err == nil && len(kept) < len(due) {
			err = errShareLost
		}
		return err
	})
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), meta.ReleaseTimeout)
	defer cancel()
	if _, serr := g.saveShares(end, held, ""); err == nil { // else their leases run out
		err = serr
	}
	return err
}

// saveShares saves shares at once, and returns those that no other collector has. errShareLost:
// there are none.
func (g *Collector) saveShares(ctx context.Context, list []*heldShare, holder string) (saved []*heldShare, err error) {
	var mu sync.Mutex
	var all errgroup.Group
	for _, sh := range list {
		all.Go(func() error {
			err := g.saveShare(ctx, sh, holder)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case errors.Is(err, errShareLost):
				return nil
			case err == nil:
				saved = append(saved, sh)
			}
			return err
		})
	}
	if err = all.Wait(); err == nil && len(saved) == 0 {
		err = errShareLost
	}
	return saved, err
}

// shard is the shard of the journal that the share is of.
func (sh *heldShare) shard() byte {
	name, _, _ := strings.Cut(strings.TrimPrefix(sh.cell.at.Column, sharePrefix), "-")
	n, _ := strconv.ParseUint(name, 16, 8)
	return byte(n)
}
