package commit

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/gopercolator/percolator/internal/engine/journal"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/reads"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/testing/layertest"
	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// TestProtocol runs the histories in testdata/protocol: each step of a commit by itself, so that a
// file reads like the figures of the paper. The oracle counts 1, 2, 3 … unless a history sets it.
func TestProtocol(t *testing.T) {
	t.Parallel()
	em := layertest.StartEmulator(t)
	var instances atomic.Int64
	datadriven.Walk(t, "testdata/protocol", func(t *testing.T, path string) {
		h := newHistory(t, em, fmt.Sprintf("i%d", instances.Add(1)))
		datadriven.RunTest(t, path, h.step)
	})
}

// history is the state of one file: one store, one client, transactions by name.
type history struct {
	t      *testing.T
	ctx    context.Context
	c      *Committer
	oracle *layertest.Counter
	txns   map[string]*Txn
	commit map[string]*commit
	ts     map[string]tso.Timestamp // commit timestamps
}

func newHistory(t *testing.T, em *emulator.Server, instance string) *history {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	l := layertest.New(t, em, instance)
	return &history{t, ctx, newCommitter(l), l.Oracle, map[string]*Txn{}, map[string]*commit{}, map[string]tso.Timestamp{}}
}

// newCommitter commits and reads through the layers.
func newCommitter(l *layertest.Layers) *Committer {
	c := &Committer{Store: l.Store, Bulk: l.Bulk, Clock: l.Clock, Meta: l.Meta, Dispatch: l.Dispatch, Locks: l.Locks, Config: l.Config,
		Reads: reads.New(l.Store, l.Clock, l.Meta, l.Locks, l.Config), Warm: NewWarmGoroutines(l.Store.Background)}
	c.Journal = journal.NewAppender(l.Store.Background, l.Store, func(context.Context) string { return "" })
	c.Recent.Seed = maphash.MakeSeed()
	return c
}

// step runs one command; its arguments are words, a quoted word is unquoted.
func (h *history) step(t *testing.T, d *datadriven.TestData) string {
	var words []string
	for _, a := range d.CmdArgs {
		w := a.String()
		if u, err := strconv.Unquote(w); err == nil {
			w = u
		}
		words = append(words, w)
	}
	out, err := h.run(d.Cmd, words)
	if err != nil {
		return out + h.describe(err) + "\n"
	}
	if out == "" {
		return "ok\n"
	}
	return out
}

// describe prints which situation an error is, and the conflict's detail.
func (h *history) describe(err error) string {
	var conflict *model.ConflictError
	if errors.As(err, &conflict) {
		return strings.TrimPrefix(conflict.Error(), "percolator: ")
	}
	for _, sentinel := range []error{model.ErrNotFound, model.ErrExists, model.ErrUnique, model.ErrLocked, model.ErrOutcomeUnknown, model.ErrSnapshotTooOld, model.ErrInvalidArgument,
		model.ErrTooLarge, model.ErrSchemaMismatch, model.ErrTxnDone, model.ErrCorrupt} {
		if errors.Is(err, sentinel) {
			return sentinel.Error()
		}
	}
	return err.Error()
}

func (h *history) run(cmd string, w []string) (string, error) {
	switch cmd {
	case "oracle": // the next timestamp; "+10s" moves it by a duration
		if d, ok := strings.CutPrefix(w[0], "+"); ok {
			by, err := time.ParseDuration(d)
			h.oracle.Pass(by)
			return "", err
		}
		n, err := strconv.ParseInt(w[0], 10, 64)
		h.oracle.Last.Store(n - 1)
		return "", err
	case "begin":
		tx, err := h.c.Begin(h.ctx, TxnOptions{})
		if err != nil {
			return "", err
		}
		h.txns[w[0]] = tx
		return fmt.Sprintf("start %d\n", tx.StartTimestamp()), nil
	case "set":
		return "", h.txns[w[0]].Set(cell(w[1], w[2]), []byte(w[3]))
	case "delete":
		return "", h.txns[w[0]].Delete(cell(w[1], w[2]))
	case "notify":
		return "", h.txns[w[0]].Notify(cell(w[1], w[2]))
	case "lock":
		_, err := h.txns[w[0]].GetForUpdate(h.ctx, cell(w[1], w[2]))
		if errors.Is(err, model.ErrNotFound) {
			err = nil
		}
		return "", err
	case "get", "read":
		return h.get(cmd, w)
	case "commit":
		ts, err := h.txns[w[0]].Commit(h.ctx)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("commit %d\n", ts), h.c.Bulk.Flush(h.ctx)
	case "prewrite", "timestamp", "commit-primary", "phase-two":
		return h.phase(cmd, w)
	case "ack":
		a, err := h.txns[w[0]].Acknowledge(h.ctx, cell(w[1], w[2]), w[3], w[4:])
		return fmt.Sprintf("run=%v finished=%v deleted=%v changed=%d last=%d\n", a.Run, a.Finished, a.Deleted, a.CommitTS, a.LastRun), err
	case "pending":
		return h.pending()
	case "resolve":
		return h.resolve(w)
	case "raw": // raw FAMILY ROW COLUMN TS VALUE: a cell that the protocol would not write
		return "", h.raw(w)
	case "dump":
		return h.dump()
	}
	return "", fmt.Errorf("unknown command %q", cmd)
}

func cell(row, column string) model.Cell { return model.Cell{Table: "t", Row: row, Column: column} }

// get reads in a transaction, read in a snapshot at a timestamp. A reader that would have to wait
// says so.
func (h *history) get(cmd string, w []string) (string, error) {
	var r interface {
		Get(context.Context, model.Cell) ([]byte, error)
	}
	if cmd == "get" {
		r = h.txns[w[0]]
	} else {
		n, err := strconv.ParseInt(w[0], 10, 64)
		if err != nil {
			return "", err
		}
		r = reads.NewSnapshot(h.c.Reads, tso.Timestamp(n))
	}
	for limit := 50 * time.Millisecond; ; limit *= 2 {
		asked := h.c.Store.Count.ReadRows.Load()
		ctx, cancel := context.WithTimeout(h.ctx, limit)
		v, err := r.Get(ctx, cell(w[1], w[2]))
		cancel()
		// After the cell and its primary the reader has looked again: it waits for a lock.
		waited := errors.Is(err, model.ErrLocked) && h.c.Store.Count.ReadRows.Load()-asked > 2
		switch {
		case err == nil:
			return string(v) + "\n", nil
		case !errors.Is(err, context.DeadlineExceeded) || waited || h.ctx.Err() != nil:
			return "", err
		}
		// Otherwise the store was slow.
	}
}

// phase drives one phase of a commit by itself.
func (h *history) phase(cmd string, w []string) (string, error) {
	name := w[0]
	cm := h.commit[name]
	if cm == nil {
		tx := h.txns[name]
		cm = &commit{c: h.c, schema: h.c.Meta.Catalog.Load(), startTS: tx.StartTimestamp(), started: tx.started, outcome: map[*rowWrites]prewriteOutcome{}}
		if err := cm.group(tx.order, tx.erase); err != nil {
			return "", err
		}
		for c := range tx.weak {
			cm.weak = append(cm.weak, c)
		}
		cm.until = time.Now().Add(h.c.Store.Timing.RequestLifetime)
		h.commit[name] = cm
	}
	switch cmd {
	case "prewrite": // of all rows, or of the named ones
		for _, rw := range cm.rows {
			if len(w) == 1 || slices.Contains(w[1:], rw.row) {
				if err := cm.prewriteRow(h.ctx, rw); err != nil {
					return "", err
				}
			}
		}
		return "", nil
	case "timestamp":
		ts, err := h.c.Clock.Next(h.ctx)
		h.ts[name] = ts
		return fmt.Sprintf("commit timestamp %d\n", ts), err
	case "commit-primary":
		if err := cm.notifyWeak(h.ctx, h.ts[name], time.Now().Add(time.Minute)); err != nil {
			return "", err
		}
		err := cm.commitPrimary(h.ctx, h.ts[name])
		h.c.Locks.Decided.Purge() // what another client would know
		return "", err
	default:
		cm.phaseTwo(h.ctx, h.ts[name])
		return "", h.c.Bulk.Flush(h.ctx)
	}
}

func (h *history) pending() (string, error) {
	var b strings.Builder
	for p, err := range h.c.Reads.ScanPending(h.ctx, "t", model.All()) {
		if err != nil {
			return "", err
		}
		for _, n := range p.Notified {
			fmt.Fprintf(&b, "notify %s/%s @%d\n", p.Row, n.Cell.Column, n.Timestamp)
		}
		for _, l := range p.Locks {
			fmt.Fprintf(&b, "lock %s/%s @%d primary %s/%s\n", p.Row, visibleName(l.Cell.Column), l.StartTS, l.Primary.Row, visibleName(l.Primary.Column))
		}
		for _, c := range p.Corrupt {
			fmt.Fprintf(&b, "corrupt %s/%s\n", c.Row, c.Column)
		}
	}
	return b.String() + "end\n", nil
}

func (h *history) resolve(w []string) (string, error) {
	for p, err := range h.c.Reads.ScanPending(h.ctx, "t", model.Row(w[0])) {
		if err != nil {
			return "", err
		}
		for _, l := range p.Locks {
			if l.Cell.Column == w[1] {
				r, err := h.c.Locks.ResolveLock(h.ctx, l)
				return r.String() + "\n", err
			}
		}
	}
	return "no lock\n", nil
}

func (h *history) raw(w []string) error {
	ts, err := strconv.ParseInt(w[3], 10, 64) // in microseconds, as it is stored
	if err != nil {
		return err
	}
	layertest.Plant(h.t, h.c.Store, w[1], w[0], w[2], tso.Timestamp(ts/1000), []byte(w[4]))
	return nil
}

// visibleName spells a reserved column as the paper does: c:ack_O.
func visibleName(column string) string {
	if rest, ok := strings.CutPrefix(column, layout.AckPrefix); ok {
		observer, col, _ := strings.Cut(rest, "\x00")
		return col + ":ack_" + observer
	}
	return column
}

// dump prints the table as in Figure 4 of the paper: a line a timestamp, newest first.
func (h *history) dump() (string, error) {
	var b strings.Builder
	tw := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "cell\tts\tdata\tlock\twrite\tnotify\t")
	err := h.c.Store.ReadRows(h.ctx, "t", store.Rows{}, store.Newest(nil, 0, 1000), 0, func(row layout.Row) bool {
		type at struct {
			column string
			ts     int64
		}
		cells := map[at]map[string]string{}
		for _, it := range row.Items {
			k := at{it.Column, it.Timestamp}
			if cells[k] == nil {
				cells[k] = map[string]string{}
			}
			cells[k][it.Family] = describeCell(row.Key, it)
		}
		keys := make([]at, 0, len(cells))
		for k := range cells {
			keys = append(keys, k)
		}
		slices.SortFunc(keys, func(a, b at) int {
			if c := strings.Compare(a.column, b.column); c != 0 {
				return c
			}
			return int(b.ts - a.ts)
		})
		for _, k := range keys {
			fmt.Fprintf(tw, "%s/%s\t%d:\t%s\t%s\t%s\t%s\t\n", row.Key, visibleName(k.column), k.ts/1000,
				cells[k][layout.DataFamily], cells[k][layout.LockFamily], cells[k][layout.WriteFamily], cells[k][layout.NotifyFamily])
		}
		return true
	})
	tw.Flush()
	lines := strings.Split(b.String(), "\n")
	for i, l := range lines {
		lines[i] = strings.TrimRight(l, " ")
	}
	return strings.Join(lines, "\n"), err
}

func describeCell(row string, it layout.Item) string {
	switch it.Family {
	case layout.DataFamily:
		return string(it.Value)
	case layout.NotifyFamily:
		return "dirty"
	case layout.WriteFamily:
		w, err := layout.DecodeWrite(it.Timestamp, it.Value)
		switch {
		case err != nil:
			return "?"
		case w.Kind == layout.KindRollback:
			return "rolled back"
		}
		return fmt.Sprintf("%s @ %d", map[layout.Kind]string{layout.KindPut: "data", layout.KindDelete: "delete", layout.KindLock: "lock"}[w.Kind], w.StartTS)
	default:
		l, err := layout.DecodeLock(it.Timestamp, it.Value)
		if err != nil {
			return "?"
		}
		if l.Primary == cell(row, it.Column) {
			return "I am primary"
		}
		return "primary @ " + l.Primary.Row + "." + visibleName(l.Primary.Column)
	}
}
